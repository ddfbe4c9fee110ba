"""What steers a language model: noisy numbers of words by label, and by each value that texts follow.

All of it reads noisy numbers and public text alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self, TypeAlias

import numpy as np

from dptext import _validate
from dptext.synthesis.blocks import WORDS, block_of
from dptext.synthesis.by_length import More
from dptext.synthesis.drawn import DrawnRows, effects_of
from dptext.synthesis.effects import LITTLE_NOISE, Effects
from dptext.synthesis.lengths import LengthBins
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.types import Floats

_ANY: Final = "text"  # the name of all texts together
_LARGEST: Final = 10.0  # bound on the size of a shift

#: A shift, or texts; then the sum of the log-probabilities of their tokens without shift, and the number of tokens.
Shift: TypeAlias = tuple[Floats, float, int]
Texts: TypeAlias = tuple[list[str], float, int]


class Steers(Protocol):
    """A loaded language model that writes texts of a label, moved towards noisy numbers of words.

    Attributes:
        weights: sha256 of the weights of the model; empty where nobody here can read them.
    """

    @property
    def weights(self) -> str:
        """sha256 of the weights of the model; empty where nobody here can read them."""

    def shift(self, label: int, seed: int, more: More | None = None) -> Shift:
        """Return the shift by which drafts have the words as often as is believed.

        Sum and number of the log-probabilities of the tokens of drafts without shift follow. `more` is called as drafts
        are written.
        """

    def texts(self, label: int, n: int, seed: int, shift: Floats, more: More | None = None) -> Texts:
        """Return at most `n` distinct readable texts of a label, moved by `shift`.

        None of them is a copy of an example of the prompt.
        Sum and number of the log-probabilities of their tokens without shift follow. `more` is called as texts are
        written.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class HowSteered(ABC):
    """Settings of a language model that noisy numbers of words steer.

    Attributes:
        model: a language model.
        tokens: largest number of tokens of a text; 0 takes that of the public drafts of the summary.
        temperature: temperature of all choices of tokens.
        drafts: number of texts for each label that show how often the model writes each word.
        matches: number of times that drafts are written anew to match the noisy numbers.
        steered: whether the noisy numbers of words steer the model; without, only the numbers of texts by label and
            length follow noisy numbers.
    """

    model: str = ""
    tokens: int = 0
    temperature: float = 0.7
    drafts: int = 32
    matches: int = 3
    steered: bool = True

    def of_summary(self, spec: SummarySpec) -> Self:
        """Return the settings with the number of tokens of a summary, where none is set."""
        return replace(self, tokens=self.tokens or spec.tokens)

    @abstractmethod
    def opened(self, by: WordTargets) -> Steers:
        """Load the model, in the process that writes."""

    def __post_init__(self) -> None:
        _validate.count(drafts=self.drafts)
        _validate.not_negative(matches=self.matches, tokens=self.tokens)
        _validate.positive(temperature=self.temperature)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordTargets:
    """The data that steer a model: noisy numbers and public text. They can be sent to a process.

    There is an entry for each label, or one for all texts. Where texts follow columns, there are more: one for each
    cell of these columns, with labels one for all texts, and one for each group of rows. A group has no numbers of its
    own: its shift is that of all texts and what each of its values adds by itself.
    """

    settings: HowSteered
    names: tuple[str, ...]  #: the name of each entry, as a prompt has it
    labels: tuple[str, ...]
    examples: tuple[tuple[str, str | None], ...]
    lexicon: Lexicon
    numbers: Floats  #: noisy numbers of marks, `(entries before groups, width)`
    units: Floats  #: noisy numbers of units, `(entries before groups,)`
    deviations: Floats  #: of the noise of a number of marks, `(entries before groups,)`
    usual: Floats  #: rates of words as marks of public texts, `(entries before groups, width)`
    bins: LengthBins  #: bins of lengths; one if no lengths are measured
    lengths: Floats  #: shares of the bins among the texts of each entry, `(entries, bins)`
    groups: tuple[tuple[int, ...], ...] = ()  #: of each group the entries of its label, if any, and of its cells
    together: Floats | None = None  #: how often values go together, `(values, values)`, as `Effects` has it

    @classmethod
    def of(cls, summary: Summary, settings: HowSteered, rows: DrawnRows | None = None) -> Self:
        """Return what steers the writer of this summary, in the order of its labels; or of `rows`, by groups."""
        settings = settings.of_summary(summary.spec)
        spec, public, words, sizes = summary.spec, summary.public, summary.known[WORDS], summary.sizes
        assert public.lexicon is not None and public.rates is not None  # noqa: S101, PT018 (words were measured)
        examples = tuple((each.text, each.label) for each in public.examples)
        deviations = np.full(len(sizes), words.deviation)
        found = cls(
            settings, spec.shown, spec.labels, examples, public.lexicon, words.numbers, sizes, deviations, public.rates,
            spec.bins, summary.lengths,
        )  # fmt: skip
        return found if rows is None else found._by_groups(summary, rows)

    def _by_groups(self, summary: Summary, rows: DrawnRows) -> Self:
        names, numbers, units, deviations = [*self.names], [self.numbers], [self.units], [self.deviations]
        starts = list[int]()
        for column in summary.spec.followed:
            starts.append(len(names))
            declared, known = summary.spec.axes.columns[column.axes[0] - 1], summary.known[block_of(WORDS, column)]
            names += [f"{declared.name} {cell}" for cell in declared.names]
            numbers.append(known.numbers)
            units.append(summary.cell_sizes(column))
            deviations.append(np.full(column.size, known.deviation))
        if self.labels:
            names.append(_ANY)
            numbers.append(self.numbers.sum(axis=0, keepdims=True))
            units.append(np.array([self.units.sum()]))
            deviations.append(np.array([self.deviations[0] * np.sqrt(len(self.units))]))
        others = len(names) - len(self.names)
        usual = [self.usual, *[np.average(self.usual, axis=0, weights=self.units)[None]] * others]
        starts = [0, *starts] if self.labels else starts
        groups = tuple(
            tuple(start + cell for start, cell in zip(starts, values, strict=True))
            for values in rows.followed(summary).tolist()
        )
        of_all = np.average(self.lengths, axis=0, weights=self.units)[None]
        lengths = [self.lengths, *[of_all] * others, self.lengths[rows.values[:, 0]]]
        return replace(
            self, names=(*names, *(", ".join(names[entry] for entry in entries) for entries in groups)),
            numbers=np.concatenate(numbers), units=np.concatenate(units), deviations=np.concatenate(deviations),
            usual=np.concatenate(usual), lengths=np.concatenate(lengths), groups=groups,
            together=effects_of(summary).together,
        )  # fmt: skip

    @property
    def first_group(self) -> int:
        """The entry of the first group: the number of entries that have numbers of their own."""
        return len(self.names) - len(self.groups)

    def moved_by(self, entries: Iterable[int]) -> list[int]:
        """Return the entries whose shifts move texts of these entries."""
        if not self.groups:
            return [*entries]
        return sorted({self._whole, *(part for entry in entries for part in self.groups[entry - self.first_group])})

    @property
    def _whole(self) -> int:
        """The entry of all texts, where texts follow columns."""
        return self.first_group - 1 if self.labels else 0

    def combined(self, entries: Sequence[int], shifts: Mapping[int, Floats]) -> dict[int, Floats]:
        """Return the shift of texts of each of these entries, from those of the entries that move them."""
        if self.together is None:
            return {entry: shifts[entry] for entry in entries}
        whole, values = shifts[self._whole], [entry for entry in shifts if entry != self._whole]
        apart = np.array([shifts[entry] - whole for entry in values])
        first = 0 if self.labels else 1  # the values' first entry
        places = np.array(values) - first
        effects = Effects(self.together[np.ix_(places, places)], ()).alone(apart.reshape(len(values), -1), LITTLE_NOISE)
        by_value = dict(zip(values, effects.reshape(apart.shape), strict=True))
        own = {entry: self.groups[entry - self.first_group] for entry in entries}
        found = {entry: whole + sum(by_value[value] for value in parts) for entry, parts in own.items()}
        return {entry: np.asarray(np.clip(shift, -_LARGEST, _LARGEST)) for entry, shift in found.items()}

    def opened(self) -> Steers:
        """Load the model. ConfigError, MissingExtraError: it cannot be loaded."""
        return self.settings.opened(self)
