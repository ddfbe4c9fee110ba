"""A writer: it repeats the words that texts of a label should have more often."""

from collections.abc import Sequence
from dataclasses import dataclass

from dptext.synthesis.asking import Examples
from dptext.synthesis.by_length import More
from dptext.synthesis.from_drafts import FromDrafts, Moves
from dptext.synthesis.word_targets import WordTargets


class Model:
    """What the writer loads: nothing."""

    weights = ""

    def draft(
        self, name: str, examples: Examples, n: int, *, moves: Moves, seed: int, more: More | None
    ) -> Sequence[str]:
        """Write texts of the three words whose odds should grow most."""
        words = " ".join(sorted(moves.shift, key=lambda word: moves.shift[word])[-3:])
        if more is not None:
            more(n)
        return [f"about {name}: {words}, number {seed + i}" for i in range(n)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo(FromDrafts):
    """Settings of the writer `echo`."""

    def drafter(self, by: WordTargets) -> Model:
        """Return the model."""
        return Model()
