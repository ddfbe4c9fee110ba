"""The writer with a language model: new texts, steered by the noisy numbers of words in a summary.

The model writes public drafts, which show how often it writes each word. The noise of the summary says how far each
noisy number is believed. Log-probabilities of tokens are then shifted until drafts have the words as often. A text
leaves under the label that it was written for. Nothing here reads private text, so any number of texts can be written.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.language.reading import SMOLLM2, LanguageModel, load_language_model
from dptext.language.writing import OnWritten
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis.blocks import POINTS, WORDS
from dptext.synthesis.judging import believed, labelled
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.pool import apportioned, shuffled
from dptext.synthesis.spec import MIX, Progress, Synthetic
from dptext.synthesis.summary import Summary
from dptext.synthesis.writer import Writer
from dptext.text.records import Record
from dptext.types import Floats, Integers

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

_LEAST_RATE: Final = 1e-6
_USUAL: Final = 2.0  # pseudo-count: as if this many more drafts had each word, as a mark
_STEP: Final = 0.7  # factor of each update of a shift after the first
_LARGEST: Final = 10.0  # bound on the size of a shift
_FEWEST: Final = 0.02  # a token keeps at least this part of its expected number
_ROUNDS: Final = 3  # most rounds of writing, as texts can be repeats or not readable
_AT_ONCE: Final = 128  # texts of a task
_STRANGE: Final = 0.4  # nats a token, from which on texts read badly
_PARALLEL: Final = 512  # texts from which on several processes write
_LOOK_SECONDS: Final = 0.5  # after which the number of texts that the processes have written is looked at again

#: Called with the number of texts that were written since the last call, drafts among them.
_More = Callable[[int], None]
Result = TypeVar("Result")
#: A shift, or texts; then the sum of the log-probabilities of their tokens without shift, and the number of tokens.
_Shift = tuple[Floats, float, int]
_Texts = tuple[list[str], float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FromModel:
    """Settings of the writer `builtin`.

    Attributes:
        size: number of texts.
        model: a language model, as `dptext.language.reading.load_language_model` takes it.
        tokens: largest number of tokens of a text; 0 takes that of the drafts.
        temperature: temperature of all choices of tokens.
        options: number of tokens among which one is chosen.
        drafts: number of texts for each label that show how often the model writes each word.
        matches: number of times that drafts are written anew to match the noisy numbers.
        processes: number of processes that write; 0 takes one for each processor.
    """

    size: int = 1_000
    model: str = SMOLLM2
    tokens: int = 0
    temperature: float = 0.7
    options: int = 512
    drafts: int = 32
    matches: int = 3
    processes: int = 0

    def __post_init__(self) -> None:
        _validate.count(size=self.size, drafts=self.drafts)
        _validate.not_negative(matches=self.matches, tokens=self.tokens, processes=self.processes)
        _validate.positive(temperature=self.temperature)
        _validate.within(2, 4096, options=self.options)

    @property
    def weights(self) -> str:
        """sha256 of the weights of the model. ConfigError, MissingExtraError: see `load_language_model`."""
        return load_language_model(self.model).digest

    def write(self, summary: Summary, source: Randomness, *, on_progress: Progress | None = None) -> Synthetic:
        """Return new texts with labels. ConfigError: the summary has no words, or the model no room for a prompt."""
        spec, counts = summary.spec, summary.counts
        if WORDS not in summary.known or summary.public.lexicon is None:
            raise ConfigError("Expected a summary of words, found none: measure --with words, or take the writer pool.")
        wanted = apportioned(summary.shares(np.maximum(counts.numbers, counts.deviation)), self.size)
        texts, stranger = self.written(summary, wanted, source, on_progress)
        kept = [own[:n] for own, n in zip(texts, wanted.tolist(), strict=True)]
        flat = [(text, spec.labels[c] if spec.labels else None) for c, own in enumerate(kept) for text in own]
        flat = [flat[i] for i in shuffled(len(flat), source)]
        said = _said(summary, wanted, kept, stranger)
        report = summary.report
        return Synthetic(
            tuple(text for text, _ in flat), tuple(label for _, label in flat), report, (*said, *report.sentences())
        )

    def written(
        self, summary: Summary, numbers: Integers, source: Randomness, on_progress: Progress | None
    ) -> tuple[list[list[str]], float]:
        """Return the distinct readable texts of each label, about `numbers` `(labels or 1,)` of them.

        The second value says by how many nats a token of theirs is less likely to the model than one of its own drafts.
        """
        labels, whole = np.flatnonzero(numbers).tolist(), int(numbers.sum())
        drafted = len(labels) * self.drafts * (self.matches + 1)
        progress, own, theirs = _Progress(drafted + whole, on_progress), _Likely(), _Likely()
        progress.begin()
        found: list[list[str]] = [[] for _ in numbers]
        processes = self.processes or os.cpu_count() or 1
        with _desk(WordTargets.of(summary, self), processes if whole >= _PARALLEL else 1, progress) as desk:
            seeds = _seeds(len(labels), source)
            shifts = {}
            for label, (shift, likely, tokens) in desk.shifts(zip(labels, seeds, strict=True)):
                shifts[label] = shift
                own.add(likely, tokens)
            for _ in range(_ROUNDS):
                missing = {label: int(numbers[label]) - len(found[label]) for label in labels}
                parts = [(label, n) for label, left in missing.items() for n in _parts(left)]
                tasks = [(*each, seed) for each, seed in zip(parts, _seeds(len(parts), source), strict=True)]
                for label, (texts, likely, tokens) in desk.texts(tasks, shifts):
                    found[label] += texts
                    theirs.add(likely, tokens)
                found = [list(dict.fromkeys(each)) for each in found]
        return found, own.mean - theirs.mean


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordTargets:
    """What steers the model: noisy numbers and public text. It holds no open file, and can be sent to a process."""

    settings: FromModel
    names: tuple[str, ...]
    labels: tuple[str, ...]
    examples: tuple[tuple[str, str | None], ...]
    lexicon: Lexicon
    numbers: Floats  #: noisy numbers of marks, `(labels or 1, width)`
    units: Floats  #: noisy numbers of units, `(labels or 1,)`
    deviation: float  #: of the noise of a number of marks
    tokens: int

    @classmethod
    def of(cls, summary: Summary, settings: FromModel) -> WordTargets:
        """Return what steers the writer of this summary."""
        spec, public, counts, words = summary.spec, summary.public, summary.counts, summary.known[WORDS]
        assert public.lexicon is not None  # noqa: S101 (words were measured)
        units = np.maximum(counts.numbers, counts.deviation)
        examples = tuple((each.text, each.label) for each in public.examples)
        tokens = settings.tokens or spec.tokens
        return cls(
            settings, spec.shown, spec.labels, examples, public.lexicon, words.numbers, units, words.deviation, tokens
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Steered:
    """A loaded model with its drafts, for one process."""

    by: WordTargets
    writer: Writer
    spelled: Spellings = field(repr=False)

    @classmethod
    def of(cls, by: WordTargets) -> Steered:
        """Load the model. ConfigError, MissingExtraError: see `load_language_model` and `Writer.of`."""
        set_, model = by.settings, load_language_model(by.settings.model).fast()
        examples = [Record(str(i), text, label) for i, (text, label) in enumerate(by.examples)]
        writer = Writer.of(
            model, by.names, by.labels, examples, tokens=by.tokens, temperature=set_.temperature, options=set_.options
        )
        return cls(by, writer, Spellings.of(model, by.lexicon.words))

    def texts(self, label: int, n: int, seed: int, shift: Floats, more: _More | None = None) -> _Texts:
        """Return at most `n` distinct readable texts of a label, with log-probabilities moved by `shift` `(size,)`.

        Sum and number of the log-probabilities of their tokens without shift follow. `more` is called as texts are
        written.
        """
        found = self.writer.shifted(label, n, shift, seeded(seed), _steps(more))
        return self.writer.readable(found.texts), found.likely, found.drawn

    def shift(self, label: int, seed: int, more: _More | None = None) -> _Shift:
        """Return the shift of log-probabilities `(size,)` by which drafts have the words as often as is believed.

        Sum and number of the log-probabilities of the tokens of drafts without shift follow. `more` is called as drafts
        are written.
        """
        by, set_, shift, source = self.by, self.by.settings, np.zeros(self.writer.model.size), seeded(seed)
        first = self.writer.shifted(label, set_.drafts, shift, source, _steps(more))
        expected, marked = first.expected, self._marked(first.texts)
        now = np.maximum(self.spelled.rates(expected) * marked, _LEAST_RATE)
        wanted = believed(by.numbers[label], float(by.units[label]), now, by.deviation)
        for time in range(set_.matches + 1):
            step = self.spelled.steps(expected, (wanted - now) / marked) * (_STEP if time else 1.0)
            shift = np.clip(shift + step, -_LARGEST, _LARGEST)
            if time < set_.matches:
                expected = self.writer.shifted(label, set_.drafts, shift, source, _steps(more)).expected
                now = np.maximum(self.spelled.rates(expected) * marked, _LEAST_RATE)
        return shift, first.likely, first.drawn

    def _marked(self, written: Sequence[Sequence[int]]) -> Floats:
        """Return the share of texts with a word in which it is a mark, `(width,)`, by drafts."""
        lexicon, texts = self.by.lexicon, [self.writer.model.text(tokens) for tokens in written]
        marks = lexicon.marks(texts)
        there = np.bincount([place for text in texts for place in lexicon.known(text)], minlength=len(lexicon))
        return np.asarray((np.bincount(marks[marks >= 0], minlength=len(lexicon)) + _USUAL) / (there + _USUAL))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Spellings:
    """How a model spells the words of a list within a text: after a space, in small letters or with a capital.

    `tokens` holds the tokens of all spellings one after the other. `starts` `(spellings,)` is where each begins, and
    `words` `(spellings,)` the word that it spells.
    """

    tokens: Integers
    starts: Integers
    words: Integers
    width: int

    @classmethod
    def of(cls, model: LanguageModel, words: Sequence[str]) -> Spellings:
        """Return the spellings of words by this model."""
        spelled = [(i, model.tokens(f" {each}")) for i, word in enumerate(words) for each in {word, word.capitalize()}]
        spelled = sorted((i, tokens) for i, tokens in spelled if tokens)
        lengths = [len(tokens) for _, tokens in spelled]
        flat = np.array([token for _, tokens in spelled for token in tokens], np.int64)
        return cls(flat, np.cumsum([0, *lengths[:-1]]), np.array([i for i, _ in spelled], np.int64), len(words))

    def _each(self, expected: Floats) -> Floats:
        """Return how often each spelling is expected: as often as its rarest token."""
        return np.asarray(np.minimum.reduceat(expected[self.tokens], self.starts))

    def rates(self, expected: Floats) -> Floats:
        """Return how often a text is expected to have each word `(width,)`, from the numbers of its tokens."""
        return np.asarray(np.bincount(self.words, self._each(expected), minlength=self.width), np.float64)

    def steps(self, expected: Floats, more: Floats) -> Floats:
        """Return the steps of log-probabilities `(size,)` that give texts `more` `(width,)` of each word."""
        each = self._each(expected) + _LEAST_RATE
        part = each / np.bincount(self.words, each, minlength=self.width)[self.words]  # of a word in this spelling
        owner = np.repeat(np.arange(len(self.starts)), np.diff([*self.starts.tolist(), len(self.tokens)]))
        gained = np.bincount(self.tokens, (more[self.words] * part)[owner], minlength=len(expected))
        usual = np.maximum(expected, _LEAST_RATE)
        return np.asarray(np.clip(np.log(np.maximum(usual + gained, _FEWEST * usual) / usual), -2.0, 3.0))


class _Desk:
    """Writes in this process."""

    def __init__(self, steered: Steered, progress: _Progress) -> None:
        self._steered, self._progress = steered, progress

    def shifts(self, tasks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, _Shift]]:
        """Yield label and shift for each label with its seed."""
        for label, seed in tasks:
            yield label, self._steered.shift(label, seed, self._progress.add)

    def texts(
        self, tasks: Iterable[tuple[int, int, int]], shifts: Mapping[int, Floats]
    ) -> Iterator[tuple[int, _Texts]]:
        """Yield label and texts for each label with its number and seed, in the order of the tasks."""
        for label, n, seed in tasks:
            yield label, self._steered.texts(label, n, seed, shifts[label], self._progress.add)


class _Desks:
    """Writes in several processes. A fresh process has no private file open."""

    def __init__(self, pool: ProcessPoolExecutor, count: Synchronized[int], progress: _Progress) -> None:
        self._pool, self._count, self._progress = pool, count, progress

    def shifts(self, tasks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, _Shift]]:
        """Yield label and shift for each label with its seed, in the order of the tasks."""
        running = [(label, self._pool.submit(_shift, label, seed)) for label, seed in tasks]
        for label, each in running:
            yield label, self._result(each)

    def texts(
        self, tasks: Iterable[tuple[int, int, int]], shifts: Mapping[int, Floats]
    ) -> Iterator[tuple[int, _Texts]]:
        """Yield label and texts for each label with its number and seed, in the order of the tasks."""
        running = [(label, self._pool.submit(_texts, label, n, seed, shifts[label])) for label, n, seed in tasks]
        for label, each in running:
            yield label, self._result(each)

    def _result(self, running: Future[Result]) -> Result:
        """Wait for a result, and tell meanwhile how many texts all processes have written."""
        while True:
            there = wait([running], _LOOK_SECONDS).done
            self._progress.to(self._count.value)
            if there:
                return running.result()


@contextmanager
def _desk(steering: WordTargets, processes: int, progress: _Progress) -> Iterator[_Desk | _Desks]:
    if processes < 2:
        yield _Desk(Steered.of(steering), progress)
        return
    fresh = multiprocessing.get_context("spawn")
    count = fresh.Value("q", 0)
    with ProcessPoolExecutor(processes, mp_context=fresh, initializer=_begin, initargs=(steering, count)) as pool:
        yield _Desks(pool, count, progress)


_STEERED: list[tuple[Steered, _More]] = []  # of this process


def _begin(steering: WordTargets, count: Synchronized[int]) -> None:
    def more(n: int) -> None:
        with count.get_lock():
            count.value += n

    _STEERED[:] = [(Steered.of(steering), more)]


def _shift(label: int, seed: int) -> _Shift:
    ((steered, more),) = _STEERED
    return steered.shift(label, seed, more)


def _texts(label: int, n: int, seed: int, shift: Floats) -> _Texts:
    ((steered, more),) = _STEERED
    return steered.texts(label, n, seed, shift, more)


def _steps(more: _More | None) -> OnWritten | None:
    """Return a function that is called with the number of texts so far, and tells how many more they are."""
    if more is None:
        return None
    before = 0

    def told(done: int) -> None:
        nonlocal before
        more(done - before)
        before = done

    return told


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


@dataclass(slots=True)
class _Progress:
    whole: int
    tell: Progress | None
    done: int = 0

    def begin(self) -> None:
        """Tell that nothing is written yet."""
        if self.tell is not None:
            self.tell(0, self.whole)

    def add(self, n: int) -> None:
        """Tell that `n` more texts are written, drafts among them."""
        self.to(self.done + n)

    def to(self, done: int) -> None:
        """Tell that `done` texts are written. Those that are written in the place of repeats do not count."""
        if (done := min(done, self.whole)) > self.done:
            self.done = done
            if self.tell is not None:
                self.tell(self.done, self.whole)


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
    stranger: float,
) -> Iterator[str]:
    """Yield sentences on what the corpus is worth: scarce labels, own labels, copies of public texts, and fluency."""
    spec, size = summary.spec, int(wanted.sum())
    named = zip(spec.labels, wanted.tolist(), kept, strict=False)
    few = [(name, n, len(own)) for name, n, own in named if len(own) < n]
    if sum(n - made for _, n, made in few) > MIX / 2 * size:
        each = "; ".join(f"{name}: {n:,} wanted, {made:,} written" for name, n, made in few)
        yield f"The released mix of labels is not the noisy one: too few different texts were written for it. {each}."
    if (agreed := _own_label(summary, kept)) is not None:
        yield f"The noisy class means read {agreed:.0%} of the texts as the label that they were written for."
    public = {_plain(text) for text in summary.public.pool.texts}
    flat = [_plain(text) for own in kept for text in own]
    copies = sum(text in public for text in flat)
    yield f"Copies of public texts: {copies:,} of {len(flat):,}."
    if stranger > _STRANGE:
        yield (
            f"Good for training, not for reading: a token is {stranger:.1f} nats less likely to the model than in its "
            "own drafts."
        )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
