"""The writer with a language model: new texts, steered by the noisy numbers of words in a summary.

The model writes public drafts, which show how often it writes each word. The noise of the summary says how far each
noisy number is believed. Log-probabilities of tokens are then shifted until drafts have the words as often. A text
leaves under the label that it was written for. Nothing here reads private text, so any number of texts can be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.kernels.processors import processors
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.synthesis.blocks import POINTS, WORDS
from dptext.synthesis.desks import WritingProgress, desk
from dptext.synthesis.judging import labelled
from dptext.synthesis.pool import apportioned, shuffled
from dptext.synthesis.spec import Progress, Synthetic
from dptext.synthesis.summary import Summary
from dptext.synthesis.word_shifts import HowSteered, WordTargets, plain
from dptext.synthesis.writer import too_few
from dptext.types import Integers

_ROUNDS: Final = 3  # most rounds of writing, as texts can be repeats or not readable
_AT_ONCE: Final = 128  # texts of a task
_STRANGE: Final = 0.4  # nats a token, from which on texts read badly
_PARALLEL: Final = 512  # texts from which on several processes write


@dataclass(frozen=True, slots=True, kw_only=True)
class FromModel(HowSteered):
    """Settings of the writer `builtin`, besides those of `HowSteered`.

    Attributes:
        size: number of texts.
        processes: number of processes that write; 0 takes one for each processor that this process may use.
    """

    size: int = 1_000
    processes: int = 0

    def __post_init__(self) -> None:
        HowSteered.__post_init__(self)
        _validate.count(size=self.size)
        _validate.not_negative(processes=self.processes)

    def write(
        self, summary: Summary, source: Randomness, *, on_progress: Progress | None = None, apart: bool = False
    ) -> Synthetic:
        """Return new texts with labels, and the digest of the model.

        `apart` says that fresh processes alone write, as this one has read private text; else few texts are written in
        this process. The texts are the same.

        ConfigError: the summary has no words, or the model no room for a prompt, or see `load_language_model`.
        """
        spec = summary.spec
        if WORDS not in summary.known or summary.public.lexicon is None:
            raise ConfigError("Expected a summary of words, found none: measure --with words, or take the writer pool.")
        wanted = apportioned(summary.shares, self.size)
        made = self.written(summary, wanted, source, on_progress, apart=apart)
        kept = [own[:n] for own, n in zip(made.texts, wanted.tolist(), strict=True)]
        flat = [(text, spec.labels[c] if spec.labels else None) for c, own in enumerate(kept) for text in own]
        flat = [flat[i] for i in shuffled(len(flat), source)]
        report, (texts, given) = summary.report, zip(*flat, strict=True) if flat else ((), ())
        said = (*_said(summary, wanted, kept, made), *report.sentences())
        return Synthetic(tuple(texts), tuple(given), report, said, weights=made.weights)

    def written(
        self,
        summary: Summary,
        numbers: Integers,
        source: Randomness,
        on_progress: Progress | None,
        *,
        apart: bool = False,
    ) -> ModelTexts:
        """Return the distinct readable texts of each label, about `numbers` `(labels or 1,)` of them.

        A text that was written for several labels is one of the label that it was first written for.
        """
        labels, whole = np.flatnonzero(numbers).tolist(), int(numbers.sum())
        drafted = len(labels) * self.drafts * (self.matches + 1 if self.steered else 1)
        progress, own, theirs = WritingProgress(drafted + whole, on_progress), _Likely(), _Likely()
        progress.begin()
        found, seen = [list[str]() for _ in numbers], set[str]()
        most = (self.processes or processors()) if whole >= _PARALLEL else 1
        with desk(WordTargets.of(summary, self), most if apart or most > 1 else 0, progress) as writers:
            seeds = _seeds(len(labels), source)
            shifts = {}
            for label, (shift, likely, tokens) in writers.shifts(zip(labels, seeds, strict=True)):
                shifts[label] = shift
                own.add(likely, tokens)
            for _ in range(_ROUNDS):
                missing = {label: int(numbers[label]) - len(found[label]) for label in labels}
                parts = [(label, n) for label, left in missing.items() for n in _parts(left)]
                tasks = [(*each, seed) for each, seed in zip(parts, _seeds(len(parts), source), strict=True)]
                for label, (texts, likely, tokens) in writers.texts(tasks, shifts):
                    theirs.add(likely, tokens)
                    new = [text for text in dict.fromkeys(texts) if text not in seen]
                    found[label] += new
                    seen.update(new)
            return ModelTexts(found, own.mean - theirs.mean, writers.weights)


@dataclass(frozen=True, slots=True, repr=False)
class ModelTexts:
    """Texts that a model wrote.

    Attributes:
        texts: the texts of each label.
        stranger: by how many nats a token of theirs is less likely to the model than one of its own drafts.
        weights: sha256 of the weights of the model.
    """

    texts: list[list[str]]
    stranger: float
    weights: str


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


def _seeds(n: int, source: Randomness) -> list[int]:
    return [int(seed) for seed in uniform_below(1 << 32, n, source)]


def _parts(n: int) -> list[int]:
    """Divide a number into parts of at most `_AT_ONCE`."""
    return [min(_AT_ONCE, n - start) for start in range(0, n, _AT_ONCE)]


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


def _said(
    summary: Summary,
    wanted: Integers,
    kept: Sequence[Sequence[str]],
    made: ModelTexts,
) -> Iterator[str]:
    """Yield sentences on what the corpus is worth: scarce labels, own labels, copies of public texts, and fluency."""
    yield from too_few(summary.spec.labels, wanted, kept)
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
            f"Good for training, not for reading: a token is {made.stranger:.1f} nats less likely to the model than in "
            "its own drafts."
        )
