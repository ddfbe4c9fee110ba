r"""Masking of tokens, shared by the mechanisms of redaction.

>>> from dptext.text.records import Record
>>> records = [Record("0", "I saw Dr. Wu.\nBye")]
>>> hidden = [False, False, True, True, True, False, False]
>>> [release.output for release in masked(records, tokenized(records), hidden, Mask("[X]", "merge"))]
['I saw [X] .\nBye']
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeVar

from dptext.errors import ConfigError
from dptext.mechanisms.bases import FittedMechanism, OneUnitSpec
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.formats import string_fault
from dptext.text.records import Record
from dptext.text.tokens import LINE_STRUCTURE, TOKEN_COUNT, detokenize, tokenize

#: The entry of `reveals` for words that are not masked.
KEPT_WORDS: Final = "every word that is not masked"

Lines = list[list[str]]
Runs = Literal["keep", "merge"]


@dataclass(frozen=True, slots=True)
class Mask:
    """The mask: a token without whitespace.

    With runs "keep" a mask is written for each word, with "merge" one mask for adjacent masked words of a line. Only
    masks are merged, never words that look like the mask.
    """

    token: str
    runs: Runs

    def __post_init__(self) -> None:
        if not isinstance(self.token, str) or not self.token or any(map(str.isspace, self.token)):
            raise ConfigError(f"Expected mask={self.token!r} to be a text without whitespace that is not empty.")
        if fault := string_fault(self.token):
            raise ConfigError(f"Expected mask={self.token!r} to be text: it {fault}.")
        if self.runs not in ("keep", "merge"):
            raise ConfigError(f"Expected runs={self.runs!r} to be 'keep' or 'merge'.")

    def written(self, lines: Lines, hidden: Iterator[bool]) -> str:
        """Join the lines to a text, with a mask for each token whose value in `hidden` is true."""
        out = []
        for line in lines:
            shown: list[str] = []
            after_mask = False
            for token, masks in zip(line, hidden, strict=False):  # the next line reads on in `hidden`
                if not masks:
                    shown.append(token)
                elif not after_mask or self.runs == "keep":
                    shown.append(self.token)
                after_mask = masks
            out.append(shown)
        return detokenize(out)


def tokenized(records: Sequence[Record]) -> list[Lines]:
    """Tokenize each line of each record."""
    return [tokenize(each) for each in Batch.of(records).texts]


def flat(lines: Lines) -> list[str]:
    """The tokens of a document, over all its lines."""
    return [token for line in lines for token in line]


def masked(records: Sequence[Record], documents: Sequence[Lines], hidden: Iterable[bool], mask: Mask) -> Releases:
    """Release one text a record; `hidden` tells of each token of all documents, in order, whether to mask it."""
    turns = iter(hidden)
    return Batch.of(records).released([mask.written(lines, turns) for lines in documents])


class Masking(OneUnitSpec):
    """A spec of redaction."""

    __slots__ = ()

    mask: str
    runs: Runs

    @property
    def reveals(self) -> tuple[str, ...]:
        """Words that are not masked, and the shape of the text."""
        return (*((KEPT_WORDS,) if self.traits.keeps_words else ()), TOKEN_COUNT, LINE_STRUCTURE)


Spec_co = TypeVar("Spec_co", bound=Masking, covariant=True)


class MaskingMechanism(FittedMechanism[Spec_co]):
    """A fitted mechanism of redaction. Immutable."""

    __slots__ = ("_mask",)

    def __init__(self, spec: Spec_co) -> None:
        super().__init__(spec)
        self._mask = Mask(spec.mask, spec.runs)

    @abstractmethod
    def _hidden(self, records: Sequence[Record], documents: Sequence[Lines], randomness: Randomness) -> Iterable[bool]:
        """For each token of all documents, in order: whether it is masked."""

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one text a record, with as many tokens a line as the record has, or fewer if masks are merged."""
        documents = tokenized(records)
        return masked(records, documents, self._hidden(records, documents, randomness), self._mask)


def share(level: float, n: int) -> int:
    """floor(level * n), with the level read as a decimal number: .29 of 100 are 29.

    >>> share(0.29, 100), int(0.29 * 100)
    (29, 28)
    """
    return math.floor(Fraction(str(level)) * n)


def largest(weights: Iterable[float], count: int) -> set[int]:
    """Return the indices of the `count` largest weights; the first of equals."""
    listed = list(weights)
    return set(sorted(range(len(listed)), key=lambda place: (-listed[place], place))[:count])
