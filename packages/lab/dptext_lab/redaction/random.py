"""Words masked at random: each independently, an exact number, or every occurrence of some words. No protection.

Gusain and Leith 2024 ("Plausible deniability of redacted text") redact a share of the words of a text. The code of
their follow-up masks every occurrence of a share of its distinct words. Only masking each word independently guarantees
anything, (0, 1 - level)-DP. That guarantee is no protection either, because a word is released unchanged with
probability 1 - level (derivations, "Masking at random").
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.mechanism import Learns, Traits
from dptext.mechanisms.bases import NoGuarantee, OneUnit, Untrained, check_choices
from dptext.privacy.curves import sum_up
from dptext.privacy.events import ApproximateEvent
from dptext.privacy.guarantee import Basis, Unit
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record
from dptext.text.tokens import LINE_STRUCTURE, TOKEN_COUNT, tokenize
from dptext.types import Booleans
from dptext_lab.redaction.masking import Lines, Mask, Masking, MaskingMechanism, Runs, flat, share

#: The largest number of mask patterns that `output_distribution` enumerates.
MOST_LISTED = 4096
_LEVEL_BITS = 63
_REASONS = {
    "occurrences": "words that are not masked leave verbatim; their number is exact, so that one mask tells of others",
    "types": "words that are not masked leave verbatim; one word more or less changes which others are masked",
}


@dataclass(frozen=True, slots=True)
class RandomRedaction(Untrained["RandomRedactionMechanism"], Masking, OneUnit):
    """Settings of random redaction: each word, mark or number is masked independently, with the same probability.

    Use:
        Take it to compare with: masked words protect nobody.
        Set first: level.

    Guarantee:
        Unit token, replace one: (0, 1 - level)-DP and no better; the number of tokens and the lines are revealed. With
        probability 1 - level the word is released unchanged, so a delta above 0.001 is no protection and is shown as
        such. Nothing is stated for a document, whose length has no bound: of k words at least one is released with
        probability 1 - level^k.

        A mask is drawn as an integer, with a probability that is never below the level. Merging masks is
        post-processing, so the guarantee stays. The number of tokens stays in `reveals`, because merged outputs of
        texts of several lengths are not alike.

    Attributes:
        level: probability with which a token is masked, from 0 (none) to 1 (all).
        mask: the text that replaces a token.
        runs: "merge" writes one mask for adjacent masked tokens of a line; "keep" writes a mask for each.
    """

    unit: ClassVar[Unit] = Unit.TOKEN
    only: ClassVar[str] = (
        "the length of a text has no public bound. For at most k words lift the event with "
        "dptext.accounting.lift([event], runs=k)"
    )
    basis: ClassVar[Basis] = Basis.PROVEN
    reveals: ClassVar[tuple[str, ...]] = (TOKEN_COUNT, LINE_STRUCTURE)

    level: float
    mask: str = "[MASK]"
    runs: Runs = "keep"
    kind: Literal["random_redaction"] = field(default="random_redaction", init=False)

    def __post_init__(self) -> None:
        _validate.probability(level=self.level)
        Mask(self.mask, self.runs)

    @property
    def traits(self) -> Traits:
        """The mechanism learns from no text, and keeps words."""
        return Traits(learns=Learns.NOTHING, keeps_words=self.level < 1)

    @property
    def released(self) -> tuple[ApproximateEvent]:
        """One token is released with probability 1 - level, rounded up."""
        return (ApproximateEvent(0.0, sum_up([(1.0, 1), (-float(self.level), 1)])),)

    @property
    def threshold(self) -> int:
        """The level times 2^63, rounded up: a token is masked if its random integer below 2^63 is smaller."""
        return math.ceil(Fraction(self.level) * (1 << _LEVEL_BITS))

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> "RandomRedaction":
        """Return the spec of the least level with this delta; its epsilon is 0 at any level.

        ConfigError: epsilon < 0, or delta not in [0, 1].
        """
        _validate.not_negative(epsilon=epsilon)
        _validate.probability(delta=delta)
        self.events(unit or Unit.TOKEN)
        return replace(self, level=sum_up([(1.0, 1), (-float(delta), 1)]))

    def _fitted(self) -> "RandomRedactionMechanism":
        return RandomRedactionMechanism(self)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Specs that mask half of the words, a third with masks merged, and all words."""
        return cls(0.5), cls(0.3, runs="merge"), cls(1.0)


class RandomRedactionMechanism(MaskingMechanism[RandomRedaction]):
    """A `RandomRedaction`. Immutable; the probability of every output is known."""

    __slots__ = ("_threshold",)

    def __init__(self, spec: RandomRedaction) -> None:
        super().__init__(spec)
        self._threshold = spec.threshold

    def _hidden(self, records: Sequence[Record], documents: Sequence[Lines], randomness: Randomness) -> list[bool]:
        found: list[bool] = randomness.rows([sum(map(len, lines)) for lines in documents], self._draw).tolist()
        return found

    def _draw(self, source: Randomness, n: int) -> Booleans:
        return np.asarray(uniform_below(1 << _LEVEL_BITS, n, source) < np.uint64(self._threshold))

    def output_distribution(self, record: Record) -> dict[str, float]:
        """The probability of every output; ConfigError above 12 tokens."""
        lines = tokenize(record.text)
        n = len(flat(lines))
        if 2**n > MOST_LISTED:
            raise ConfigError(f"Expected a text of at most {MOST_LISTED.bit_length() - 1} tokens to list its outputs.")
        chance = self._threshold / (1 << _LEVEL_BITS)
        found: dict[str, float] = {}
        for hidden in itertools.product((False, True), repeat=n):
            probability = chance ** sum(hidden) * (1 - chance) ** (n - sum(hidden))
            if probability > 0:
                output = self._mask.written(lines, iter(hidden))
                found[output] = found.get(output, 0.0) + probability
        return found


@dataclass(frozen=True, slots=True)
class CountRedaction(Untrained["CountRedactionMechanism"], Masking, NoGuarantee):
    """Settings of redaction by number: an exact share of the words of each text is masked, drawn uniformly.

    Use:
        Take it to compare with: masked words protect nobody.
        Set first: level.

    Guarantee:
        None (basis NONE). Running it needs `without_guarantee=True`. Texts that differ in one word can have no output
        in common: of "a a a" and "a a b" at level 0.5, `types` masks nothing of the first and something of the second.

    Attributes:
        level: the share, from 0 to 1; floor(level * n) of n words are masked, with the level read as a decimal number.
        of: "occurrences" masks this share of the n tokens of a text; "types" this share of its n different tokens, each
            at every occurrence. Capital letters make another token.
        mask: the text that replaces a token.
        runs: "merge" writes one mask for adjacent masked tokens of a line; "keep" writes a mask for each.
    """

    level: float
    of: Literal["occurrences", "types"] = "occurrences"
    mask: str = "[MASK]"
    runs: Runs = "keep"
    kind: Literal["count_redaction"] = field(default="count_redaction", init=False)

    def __post_init__(self) -> None:
        _validate.probability(level=self.level)
        check_choices(self)
        Mask(self.mask, self.runs)

    @property
    def traits(self) -> Traits:
        """The mechanism learns from no text, and keeps words."""
        return Traits(learns=Learns.NOTHING, keeps_words=self.level < 1)

    @property
    def reason(self) -> str:
        """Words are released, and the number of masks is exact."""
        return _REASONS[self.of]

    def _fitted(self) -> "CountRedactionMechanism":
        return CountRedactionMechanism(self)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Specs that mask half of the occurrences, and half of the types with masks merged."""
        return cls(0.5), cls(0.5, "types", runs="merge")


class CountRedactionMechanism(MaskingMechanism[CountRedaction]):
    """A `CountRedaction`. Immutable; the probability of every output is known."""

    __slots__ = ()

    def _hidden(self, records: Sequence[Record], documents: Sequence[Lines], randomness: Randomness) -> list[bool]:
        groups = [self._groups(lines) for lines in documents]
        # Each group gets a random integer; the groups of the smallest integers are masked. Equal integers, of 2^64, go
        # by order.
        drawn = randomness.rows([_different(found) for found in groups], lambda source, n: source.uint64(n))
        hidden: list[bool] = []
        start = 0
        for found in groups:
            n = _different(found)
            order = np.argsort(drawn[start : start + n], kind="stable")
            chosen = set(order[: share(self.spec.level, n)].tolist())
            hidden += [group in chosen for group in found]
            start += n
        return hidden

    def _groups(self, lines: Lines) -> list[int]:
        """Return the group of each token, from 0: tokens of a group are masked together (alone, or all of one type)."""
        tokens = flat(lines)
        if self.spec.of == "occurrences":
            return list(range(len(tokens)))
        position: dict[str, int] = {}
        return [position.setdefault(token, len(position)) for token in tokens]

    def output_distribution(self, record: Record) -> dict[str, float]:
        """The probability of every output; ConfigError above 4,096 choices of masked words."""
        lines = tokenize(record.text)
        groups = self._groups(lines)
        n = _different(groups)
        ways = math.comb(n, share(self.spec.level, n))
        if ways > MOST_LISTED:
            raise ConfigError(f"Expected a text with at most {MOST_LISTED} ways to mask it, to list its outputs.")
        found: dict[str, int] = {}
        for chosen in itertools.combinations(range(n), share(self.spec.level, n)):
            output = self._mask.written(lines, iter([group in chosen for group in groups]))
            found[output] = found.get(output, 0) + 1
        return {output: count / ways for output, count in found.items()}


def _different(groups: Sequence[int]) -> int:
    return max(groups, default=-1) + 1
