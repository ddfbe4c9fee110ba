"""The writer with a language model: new texts, steered by the noisy numbers of words in a summary.

The model writes public drafts, which show how often it writes each word. The noise of the summary says how far each
noisy number is believed. Log-probabilities of tokens are then shifted until drafts have the words as often. A text
leaves under the label that it was written for. Nothing here reads private text, so any number of texts can be written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, Self

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.kernels.processors import processors
from dptext.language.reading import load_language_model
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis.blocks import POINTS, WORDS
from dptext.synthesis.desks import WritingProgress, desk
from dptext.synthesis.drawn import DrawnRows
from dptext.synthesis.judging import labelled
from dptext.synthesis.kept_writing import KeptDesk, KeptWriting, WritingDesk
from dptext.synthesis.pool import apportioned, shuffled
from dptext.synthesis.spec import Progress, Synthetic
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.synthesis.word_shifts import Steered, plain
from dptext.synthesis.word_targets import HowSteered, WordTargets
from dptext.synthesis.writer import Writer, too_few
from dptext.types import Integers, Json

ROUNDS: Final = 3  #: most rounds of writing, as texts can be repeats or not readable
_STRANGE: Final = 0.4  # nats a token, from which on texts read badly
_PARALLEL: Final = 512  # texts from which on several processes write


@dataclass(frozen=True, slots=True, kw_only=True)
class FromLanguage(HowSteered):
    """Settings of a writer with a language model, besides those of `HowSteered`.

    Attributes:
        size: number of texts.
    """

    #: What follows the writer's name and a colon, such as "PATH"; empty if nothing does.
    takes: ClassVar[str] = ""
    #: The largest number of texts of a task, which is kept when it is done.
    part: ClassVar[int] = 128
    #: Settings that change nothing of what is written: a run that was stopped may go on with others.
    means: ClassVar[tuple[str, ...]] = ()

    size: int = 1_000

    def __post_init__(self) -> None:
        HowSteered.__post_init__(self)
        _validate.count(size=self.size)
        _validate.texts(size=self.size)

    @classmethod
    def at(cls, place: str) -> dict[str, Json]:
        """Return the settings that a place names, which follows the writer's name and a colon."""
        return {"model": place}

    def drafted(self, labels: int) -> int:
        """Return the number of drafts for this number of labels."""
        return labels * self.drafts * (self.matches + 1 if self.steered else 1)

    def workers(self, texts: int) -> int:
        """Return the number of processes that write this number of texts; 1 may be this process."""
        return 1

    def said(self) -> dict[str, Json]:
        """Return the settings as the certificate has them. A model in a folder is named by the folder alone."""
        return {**asdict(self), "model": Path(self.model).name}

    def require_words(self, summary: Summary) -> None:
        """Raise ConfigError if the summary has no words, which steer the model."""
        if WORDS not in summary.known or summary.public.lexicon is None:
            raise ConfigError("Expected a summary of words, found none: measure --with words, or take the writer pool.")

    def require_place(self) -> None:
        """Raise ConfigError if the place that follows the writer's name has no model; before anything is read."""

    def notes(self, way: Mapping[str, Json]) -> Iterator[str]:
        """Yield sentences on what was not checked. `way` is what was found out of a server, if one was asked."""
        yield from ()

    def asks(self, summary: Summary, price: tuple[float, float] | None) -> Iterator[str]:
        """Yield sentences on what would be asked of whom. `price` is that of a million tokens read, and written."""
        require_price(price)
        self.require_words(summary)
        drafts = self.drafted(self.moving(summary))
        yield (
            f"{self.size + drafts:,} texts of at most {self.tokens} tokens would be written by {self.model} on this "
            f"machine, {drafts:,} of them drafts. Nothing leaves it."
        )
        if price is not None:
            yield "Nothing is paid for them, as no server is asked: --price is for endpoint:BASE_URL#MODEL."

    def write(
        self,
        summary: Summary,
        source: Randomness,
        *,
        on_progress: Progress | None = None,
        apart: bool = False,
        kept: KeptWriting | None = None,
    ) -> Synthetic:
        """Return new texts with labels, and the digest of the model.

        `apart` says that fresh processes alone write, as this one has read private text; else few texts are written in
        this process. The texts are the same. `kept` has what a run that was stopped has written.

        ConfigError: the summary has no words, or the model no room for a prompt, or see `load_language_model`.
        """
        spec = summary.spec
        self.require_words(summary)
        rows = self._drawn(summary, source)
        by, wanted = self._planned(summary, rows)
        made = self.written(by, wanted, source, on_progress, apart=apart, kept=kept)
        leaving, cells = [own[:n] for own, n in zip(made.texts, wanted.tolist(), strict=True)], None
        if rows is None:
            flat = [(text, c) for c, own in enumerate(leaving) for text in own]
            flat = [flat[i] for i in shuffled(len(flat), source)]
        else:
            there, own = rows.filled(leaving[by.first_group :])
            flat, cells = list(zip(own, rows.labels[there].tolist(), strict=True)), rows.cells_of(there)
            wanted = np.bincount(rows.labels, minlength=len(summary.shares))
            leaving = [[text for text, label in flat if label == c] for c in range(len(wanted))]
        given = tuple(spec.labels[c] if spec.labels else None for _, c in flat)
        said = (*self.notes(made.way), *_said(summary, wanted, leaving, made), *summary.report.sentences())
        texts = tuple(text for text, _ in flat)
        return Synthetic(texts, given, summary.report, said, weights=made.weights, cells=cells, way=made.way)

    def planned(self, summary: Summary) -> tuple[WordTargets, Integers]:
        """Return what would steer the model, and about how many texts each of its entries would get, `(entries,)`."""
        return self._planned(summary, self._drawn(summary, seeded(0)))

    def _drawn(self, summary: Summary, source: Randomness) -> DrawnRows | None:
        return DrawnRows.of(summary, self.size, source) if summary.spec.followed else None

    def _planned(self, summary: Summary, rows: DrawnRows | None) -> tuple[WordTargets, Integers]:
        by = WordTargets.of(summary, self, rows)
        if rows is None:
            return by, apportioned(summary.shares, self.size)
        return by, np.concatenate([np.zeros(by.first_group, np.int64), rows.numbers])

    def moving(self, summary: Summary) -> int:
        """Return about how many shifts would be found, each by its drafts."""
        by, wanted = self.planned(summary)
        return len(by.moved_by(np.flatnonzero(wanted).tolist()))

    def written(
        self,
        by: WordTargets,
        numbers: Integers,
        source: Randomness,
        on_progress: Progress | None,
        *,
        apart: bool = False,
        kept: KeptWriting | None = None,
    ) -> ModelTexts:
        """Return the distinct readable texts of each entry, about `numbers` `(entries,)` of them.

        A text that was written for several entries is one of the entry that it was first written for.
        """
        labels, whole = np.flatnonzero(numbers).tolist(), int(numbers.sum())
        moving = by.moved_by(labels)
        progress, own, theirs = WritingProgress(self.drafted(len(moving)) + whole, on_progress), _Likely(), _Likely()
        progress.begin()
        found, seen = [list[str]() for _ in numbers], set[str]()
        most = self.workers(whole)
        with desk(by, most if apart or most > 1 else 0, progress) as at_work:
            writers: WritingDesk = at_work
            if kept is not None:
                kept.require(at_work.weights)
                at_work.keep(kept)
                writers = KeptDesk(at_work, kept, progress.add, self.drafted(1))
            seeds, found_shifts = _seeds(len(moving), source), {}
            for label, (shift, likely, tokens) in writers.shifts(zip(moving, seeds, strict=True)):
                found_shifts[label] = shift
                own.add(likely, tokens)
            shifts = by.combined(labels, found_shifts)
            for _ in range(ROUNDS):
                missing = {label: int(numbers[label]) - len(found[label]) for label in labels}
                parts = [(label, n) for label, left in missing.items() for n in _parts(left, self.part)]
                tasks = [(*each, seed) for each, seed in zip(parts, _seeds(len(parts), source), strict=True)]
                for label, (texts, likely, tokens) in writers.texts(tasks, shifts):
                    theirs.add(likely, tokens)
                    new = [text for text in dict.fromkeys(texts) if text not in seen]
                    found[label] += new
                    seen.update(new)
            return ModelTexts(found, own.mean - theirs.mean, writers.weights, at_work.way)


@dataclass(frozen=True, slots=True, kw_only=True)
class FromModel(FromLanguage):
    """Settings of the writer `builtin`, besides those of `FromLanguage`: SmolLM2, or another of the Llama family.

    Attributes:
        model: a language model, as `dptext.language.reading.load_language_model` takes it; empty takes that of the
            summary.
        options: number of tokens among which one is chosen.
        processes: number of processes that write; 0 takes one for each processor that this process may use.
    """

    means: ClassVar[tuple[str, ...]] = ("processes",)

    options: int = 512
    processes: int = 0

    def __post_init__(self) -> None:
        FromLanguage.__post_init__(self)
        _validate.within(2, 4096, options=self.options)
        _validate.not_negative(processes=self.processes)

    def of_summary(self, spec: SummarySpec) -> Self:
        """Return the settings with the model and the number of tokens of a summary, where none are set."""
        return replace(FromLanguage.of_summary(self, spec), model=self.model or spec.model)

    def opened(self, by: WordTargets) -> Steered:
        """Load the model. ConfigError, MissingExtraError: see `load_language_model` and `LineWriter.of`."""
        return Steered.of(by, load_language_model(self.model).fast(), Writer, self.options)

    def workers(self, texts: int) -> int:
        """Return the number of processes that write this number of texts; few are written in this process."""
        return (self.processes or processors()) if texts >= _PARALLEL else 1


@dataclass(frozen=True, slots=True, repr=False)
class ModelTexts:
    """Texts that a model wrote.

    Attributes:
        texts: the texts of each label.
        stranger: by how many nats a token of theirs is less likely to the model than one of its own drafts.
        weights: sha256 of the weights of the model.
        way: what was found out of a server, as the certificate has it; empty if none was asked.
    """

    texts: list[list[str]]
    stranger: float
    weights: str
    way: Mapping[str, Json] = field(default_factory=dict)


@dataclass(slots=True)
class _Likely:
    """The mean log-probability of tokens."""

    summed: float = 0.0
    tokens: int = 0

    def add(self, summed: float, tokens: int) -> None:
        """Add the sum of the log-probabilities of some tokens."""
        self.summed += summed
        self.tokens += tokens

    @property
    def mean(self) -> float:
        return self.summed / max(1, self.tokens)


def require_price(price: tuple[float, float] | None) -> None:
    """Raise ConfigError unless the prices of a million tokens read, and written, are numbers of at least 0, or None."""
    if price is not None and not all(math.isfinite(each) and each >= 0 for each in price):
        raise ConfigError(f"Expected --price to be two prices of a million tokens, such as 0.15,0.60, found {price}.")


def _seeds(n: int, source: Randomness) -> list[int]:
    return [int(seed) for seed in uniform_below(1 << 32, n, source)]


def _parts(n: int, most: int) -> list[int]:
    """Divide a number into parts of at most `most`."""
    return [min(most, n - start) for start in range(0, n, most)]


def _own_label(summary: Summary, texts: Sequence[Sequence[str]]) -> float | None:
    """Return the share of texts that noisy class means read as the label that they were written for.

    It is None without class means. Words would say more of their own label than is true, as they steered the model.
    """
    space = summary.public.pool.space
    flat = [text for own in texts for text in own]
    if POINTS not in summary.known or space is None or not flat:
        return None
    written = np.repeat(np.arange(len(texts)), [len(own) for own in texts])
    return float((labelled(summary, space.points(flat))[0].argmax(axis=1) == written).mean())


def _lengths(summary: Summary, wanted: Integers, kept: Sequence[Sequence[str]]) -> str:
    """Return a sentence with the shares of the lengths as they were written, and as they were wanted."""
    bins, flat = summary.spec.bins, [text for own in kept for text in own]
    made = np.bincount(bins.of(flat), minlength=len(bins)) / max(1, len(flat))
    asked = wanted @ summary.lengths / max(1, int(wanted.sum()))
    each = (f"{name} {a:.0%} ({b:.0%})" for name, a, b in zip(bins.lengths, made, asked, strict=True))
    return f"Lengths as written (wanted): {'; '.join(each)}."


def _said(
    summary: Summary,
    wanted: Integers,
    kept: Sequence[Sequence[str]],
    made: ModelTexts,
) -> Iterator[str]:
    """Yield sentences on what the corpus is worth: scarce labels, lengths, own labels, copies, and fluency."""
    yield from too_few(summary.spec.labels, wanted, kept)
    if len(summary.spec.bins) > 1:
        yield _lengths(summary, wanted, kept)
    if (agreed := _own_label(summary, kept)) is not None:
        yield f"The noisy class means read {agreed:.0%} of the texts as the label that they were written for."
    public = {plain(text) for text in summary.public.pool.texts}
    flat = [plain(text) for own in kept for text in own]
    copies = sum(text in public for text in flat)
    yield f"Copies of public texts: {copies:,} of {len(flat):,}."
    drafted = summary.public.model
    if drafted and made.weights and made.weights != drafted:
        yield (
            f"Another model wrote than that of the summary's public drafts: sha256 {made.weights[:12]}..., not "
            f"{drafted[:12]}..."
        )
    if made.stranger > _STRANGE:
        yield (
            f"Read some before others do: a token is {made.stranger:.1f} nats less likely to the model than in its own "
            "drafts. What they teach, and whether they are told from real texts, says `dptext utility corpus`."
        )
