"""What a language model writes from public examples, and from texts that have left before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.language.model import LanguageModel
from dptext.language.writing import by_temperature, write
from dptext.sampling.discrete import uniform_below
from dptext.sampling.source import Randomness
from dptext.sampling.weights import draw_by_weight
from dptext.text.records import Record
from dptext.types import Floats

_SHOWN: Final = 4  # texts in a prompt for more like them
_DRAFTS: Final = 3  # times that more are written, where texts are the same or not readable
_WAYS: Final = 4  # more alike, rewrite, continue, fill in


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Writer:
    """A language model with its public examples, which it reads first.

    Attributes:
        names: what the labels mean; the model reads `name: text` in each line.
        head: tokens of the examples.
        end: the token that ends a line.
        tokens: of a text at most; of one that is read, twice as many.
        temperature, options: of all choices that nothing private moves.
    """

    model: LanguageModel
    names: tuple[str, ...]
    head: tuple[int, ...]
    end: int
    tokens: int
    temperature: float
    options: int

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        names: tuple[str, ...],
        labels: Sequence[str],
        examples: Iterable[Record],
        *,
        tokens: int,
        temperature: float,
        options: int,
    ) -> Writer:
        """A writer; ConfigError where the model does not read what it would be shown."""
        found = cls(model, names, (), model.tokens("\n")[0], tokens, temperature, options)
        named = dict(zip(labels, names, strict=False))
        head: list[int] = []
        for each in examples:
            head += found._line(named.get(each.label or "", each.label or names[0]), each.text)
        found = cls(model, names, tuple(head), found.end, tokens, temperature, options)
        longest = max(len(found.prompt(label, *[""] * _SHOWN)) for label in range(len(names)))
        model.require_room(longest + (2 * _SHOWN + 1) * tokens)
        return found

    def prompt(self, label: int, *texts: str) -> list[int]:
        """What is read before a text is written: public examples, then texts of the label, if any."""
        name = self.names[label]
        shown = [token for text in texts for token in self._line(name, text)]
        return [*self.head, *shown, *self.model.tokens(f"{name}:")]

    def _line(self, name: str, text: str) -> list[int]:
        return [*self.model.tokens(f"{name}:"), *self._read(text), self.end]

    def _read(self, text: str) -> list[int]:
        return self.model.tokens(f" {_line(text)}")[: 2 * self.tokens]

    def readable(self, written: Iterable[Sequence[int]]) -> list[str]:
        """The texts of tokens, each once, of two words at least, where no word stands three times in turn."""
        lines = (_line(self.model.text(tokens)) for tokens in written)
        return list(dict.fromkeys(line for line in lines if _is_readable(line.lower().split())))

    def more(
        self, label: int, own: Sequence[str], n: int, randomness: Randomness, *, chances: Floats, varied: bool
    ) -> list[str]:
        """At most `n` different texts: `own`, then what the model writes after some of these, drawn by `chances`.

        Where texts are `varied`, three in four are one text written otherwise: after it, from its first half, or with
        other words in its middle.
        """
        kept = list(own[:n])
        choose = by_temperature(self.temperature, self.options, self.end, randomness)
        for _ in range(_DRAFTS):
            missing = n - len(kept)
            if not missing:
                break
            drawn: list[list[int]] = [[] for _ in range(missing)]
            if own:
                weights = np.log(np.tile(chances, (missing * _SHOWN, 1)))
                drawn = draw_by_weight(weights, randomness).reshape(missing, _SHOWN).tolist()
            ways = uniform_below(_WAYS, missing, randomness).tolist() if varied and own else [0] * missing
            begun = [self._begun(label, [own[i] for i in row], way) for row, way in zip(drawn, ways, strict=True)]
            written = write(self.model, [each.prompt for each in begun], choose, end=self.end, most=self.tokens)
            whole = [each.around(tokens) for each, tokens in zip(begun, written, strict=True)]
            kept = list(dict.fromkeys([*kept, *self.readable(whole)]))
        return kept

    def _begun(self, label: int, texts: Sequence[str], way: int) -> _Begun:
        if way == 0:
            return _Begun(self.prompt(label, *texts))
        tokens = self._read(texts[0])
        if way == 1:
            return _Begun(self.prompt(label, texts[0]))
        kept = len(tokens) // way  # a half, or a third at both ends
        last = tokens[len(tokens) - kept :] if way == 3 else []
        return _Begun([*self.prompt(label, *texts[1:]), *tokens[:kept]], tokens[:kept], last)


@dataclass(frozen=True, slots=True, repr=False)
class _Begun:
    """What is read before a text is written, and what stands before and after what is written."""

    prompt: Sequence[int]
    first: Sequence[int] = ()
    last: Sequence[int] = ()

    def around(self, tokens: Sequence[int]) -> list[int]:
        """The whole text: between two ends no more is written than stood there."""
        return [*self.first, *(tokens[: len(self.last) + 1] if self.last else tokens), *self.last]


def _line(text: str) -> str:
    """The text in one line."""
    return " ".join(text.split())


def _is_readable(words: Sequence[str]) -> bool:
    return len(words) >= 2 and not any(a == b == c for a, b, c in zip(words, words[1:], words[2:], strict=False))
