"""The private summary: what a corpus says, measured once, with noise. Every use of it afterwards is free.

`SummarySpec` has the public settings, `FittedSummary` what is public besides, and `Summary` the noisy numbers with all
that is public, so that a writer needs nothing else.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, Protocol, Self, runtime_checkable

import numpy as np

from dptext.errors import ConfigError, DataError
from dptext.frozen import Frozen
from dptext.mechanism import OnProgress, settings
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis.agreement import Known, least_squares
from dptext.synthesis.blocks import COUNTS, LENGTHS, TOPICS, UNLIKE, WORDS
from dptext.synthesis.column_numbers import column_numbers, mean_of
from dptext.synthesis.fitting import fit_public
from dptext.synthesis.label_words import LabelWords
from dptext.synthesis.labelling import class_sizes
from dptext.synthesis.lengths import LengthNumbers, length_shares
from dptext.synthesis.lexicon import rate_texts, untelling_words
from dptext.synthesis.marginals import AUTO, Marginal
from dptext.synthesis.measured import MeasuredSpec
from dptext.synthesis.measuring import OnePass
from dptext.synthesis.pool import PublicPool
from dptext.synthesis.pool_findings import CorpusFit
from dptext.synthesis.public import Public
from dptext.synthesis.readings import Corpus
from dptext.synthesis.report import Topics
from dptext.synthesis.rows import RowModel
from dptext.synthesis.space import UNLIKE_SHARE
from dptext.synthesis.spec import Fitted, Progress, Synthetic
from dptext.synthesis.sums import Draws
from dptext.text.records import Record
from dptext.types import Floats, Json

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySpec(MeasuredSpec):
    """Settings of a summary: what is measured, and at what noise.

    Use:
        Take it to measure a corpus once, and to write any number of corpora from it afterwards.
        Set first: labels, epsilon, about, marks (words) and topics.

    Guarantee:
        Every unit adds one vector of length at most 1. A document adds its count, its point in the row of its label,
        one number for each of its `marks`, one for its nearest topic, one for its length, one if it is unlike the pool,
        and one in each marginal of its columns. Its point and marks count again in the cell of each column that texts
        follow. All documents of an author are added up and scaled by one factor. The sum has discrete Gaussian noise.
        Everything else reads the noisy sum and public text alone.
    """

    writes: ClassVar[bool] = False
    tells: ClassVar[bool] = True
    suffix: ClassVar[str] = ".summary"
    command: ClassVar[str] = "summarize"

    kind: Literal["summary"] = field(default="summary", init=False)

    def fit(
        self, *, public: Iterable[Record], seed: int | None = None, on_progress: OnProgress | None = None
    ) -> FittedSummary:
        """Read the pool. Labels of the pool serve as examples alone; a text that occurs twice counts once.

        `on_progress` is called as a language model writes public drafts, and as the encoder reads public texts.
        """
        if self.added:
            raise ConfigError("Expected added to be empty: dptext summary add adds summaries.")
        found = fit_public(self, public, seed=seed, on_progress=on_progress)
        return FittedSummary(self, found.without_pool() if self.without_pool else found)

    def written(self, summary: Summary, source: Randomness, on_progress: Progress | None = None) -> Synthetic:
        """Return the report; no text leaves, and `data` is the summary as a file. Nothing else is used."""
        report = summary.report
        return Synthetic((), (), report, report.sentences(), summary.to_bytes())

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document, by author with lengths, without points, and without labels."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(
            labels=labels, encoder="glove", words=8, dim=8, about=200, topics=4, marks=3, vocabulary=60, drafts=0
        )
        return (
            small,
            replace(small, words=0, unit="author", relation="replace_one", lengths=(4, 8)),
            replace(small, points=False, topics=0),
            replace(small, labels=(), words=0, marks=0, unit="author"),
            replace(
                small,
                columns=("stars: 1..5 by 1", "where?: north|south"),
                pairs=("stars+where", "stars+topics"),
                text_follows=(AUTO,),
            ),
        )


def _otherwise_written(found: object) -> DataError:
    """Return the error of a summary in another format. ValueError: that is no number of a format."""
    if type(found) is not int or found < _FORMAT:
        raise ValueError("Expected the number of a format.")
    return DataError(f"Expected a summary of format {_FORMAT}, found {found}: update dptext to read it.")


def _spec_of(values: Mapping[str, Json]) -> SummarySpec:
    """Return the settings that `settings` described."""
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    if given.pop("kind") != "summary":
        raise ValueError("Expected the settings of a summary.")
    return SummarySpec(**given)  # type: ignore[arg-type]


def _require_whole(spec: SummarySpec, public: Public, known: Mapping[str, Known]) -> None:
    """Raise ValueError unless all parts of a stored summary are there and fit together."""
    space, topics, lexicon = public.pool.space, public.pool.topics, public.lexicon
    dim, width = 0 if space is None else space.dim, 0 if lexicon is None else len(lexicon)
    layout, rows, n = spec.layout(dim=dim, width=width), max(1, len(spec.labels)), len(public.pool.texts)
    numbers = {name: each.numbers.shape for name, each in known.items()}
    arrays = [*(each.numbers for each in known.values()), public.pool.points]
    fits = [
        numbers == {each.name: (each.rows, each.width) for each in layout.blocks},
        all(math.isfinite(each.deviation) and each.deviation > 0 for each in known.values()),
        all(isinstance(text, str) for text in public.texts),
        public.pool.points.shape == (n, dim),
        spec.without_pool == (public.left_out is not None),
        len(public.n_drafts) in (0, rows),
        (space is not None, topics is not None, lexicon is not None)
        == (spec.reads_points, spec.topics > 0, spec.marks > 0),
    ]
    if space is not None:
        features = sum(reader.dim for reader in space.readers)
        shapes = space.directions.shape, space.anchors.shape[1:]
        fits += [shapes == ((features, dim), (space.encoder.dim,)), space.exact]
        arrays += [space.directions, space.middle, space.anchors]
    if topics is not None:
        named = len(topics.described) == spec.topics and bool((topics.of_pool < spec.topics).all())
        fits += [topics.centres.shape == (spec.topics, dim), topics.of_pool.shape == (n,), named]
        arrays.append(topics.centres)
    for array, shape in ((public.centre, (rows, dim)), (public.rates, (rows, width))):
        if array is not None:
            fits.append(array.shape == shape)
            arrays.append(array)
    if not (all(fits) and all(np.isfinite(array).all() for array in arrays)):
        raise ValueError("Expected parts that fit together.")


class FittedSummary(Frozen):
    """A `SummarySpec` with what is public."""

    __slots__ = ("public", "spec")

    def __init__(self, spec: SummarySpec, public: Public) -> None:
        self.spec, self.public = spec, public

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"

    @property
    def measures(self) -> Self:
        """The summary that is measured: this one."""
        return self

    @property
    def pool(self) -> PublicPool:
        """The pool."""
        return self.public.pool

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of everything public that is fitted."""
        return self.public.digests

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """Measure the corpus; no text leaves, and `data` is the summary as a file."""
        return self.spec.written(self.measure(corpus, draws), draws.randomness)

    def rehearse(self, nothing: Corpus) -> None:
        """Measure an empty corpus with fixed randomness."""
        if self.public.pool.space is not None:
            self.public.pool.space.features([""])  # those of a stored summary are loaded when they read a text
        self.synthesize(nothing, Draws(seeded(0)))

    def measure(self, corpus: Corpus, draws: Draws, share: float = 1.0) -> Summary:
        """Return the summary of a corpus: one pass, one sum, one noise at this share of rho."""
        spec, public = self.spec, self.public
        space, width = public.pool.space, 0 if public.lexicon is None else len(public.lexicon)
        layout = spec.layout(dim=0 if space is None else space.dim, width=width, share=share)
        measure = OnePass(
            layout, public.reader, public.pool.topics, spec.labels, spec.unit == "author", spec.noise(share)
        )
        return Summary(spec, public, measure.of(corpus, draws))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Summary:
    """Noisy numbers of a corpus, with all that is public.

    Attributes:
        spec: the settings.
        public: what is public.
        known: noisy numbers of each block, `(labels or 1, width)`, and their deviation, by the names of blocks.
        releases: digests of the releases that are added up; empty if the summary is one release.
        wanted: shares of the labels in what is written; empty takes the noisy shares.
        rounded: whether the values of rows are apportioned by largest remainders, not drawn.
        drop_other: whether rows have the listed values of columns alone.
    """

    spec: SummarySpec
    public: Public
    known: Mapping[str, Known]
    releases: tuple[str, ...] = ()
    wanted: tuple[float, ...] = ()
    rounded: bool = False
    drop_other: bool = False

    def __repr__(self) -> str:
        return f"Summary({', '.join(self.known)})"

    @property
    def counts(self) -> Known:
        """Noisy numbers of units by label, `(labels or 1,)`."""
        known = self.known[COUNTS]
        if self.spec.labels or not self.spec.axes.columns:
            return Known(known.numbers[:, 0], known.deviation)
        # The number of all units is known by each marginal, too.
        wholes = [known, *(self.known[each.name] for each in self.spec.marginals)]
        deviations = [each.deviation * math.sqrt(each.numbers.size) for each in wholes]
        whole = mean_of([np.array([each.numbers.sum()]) for each in wholes], deviations)
        return Known(whole, 1 / math.sqrt(sum(1 / deviation**2 for deviation in deviations)))

    @property
    def sizes(self) -> Floats:
        """The numbers of units by label that every writer takes, `(labels or 1,)`; each at least 1.

        They are the least-squares numbers of the report, pulled towards their mean by the share of noise in them.
        """
        counts, cells = self.counts, self.known.get(TOPICS)
        found = counts if cells is None else least_squares(cells, counts).by_label
        return class_sizes(found.numbers, found.deviation)

    @property
    def shares(self) -> Floats:
        """The shares of the labels in what is written, `(labels or 1,)`: those `wanted`, or those of `sizes`."""
        sizes = self.sizes
        return np.array(self.wanted) if self.wanted else np.asarray(sizes / sizes.sum())

    @property
    def lengths(self) -> Floats:
        """The shares of the bins of lengths among the texts of each label, `(labels or 1, bins)`; 1 without lengths."""
        if LENGTHS not in self.known:
            return np.ones((len(self.counts.numbers), 1))
        return length_shares(self.known[LENGTHS], self.sizes)

    @property
    def rows(self) -> RowModel:
        """The model of rows of the declared columns, as they are written."""
        found = replace(self.noisy_rows, rounded=self.rounded)
        return found.without_other() if self.drop_other else found

    @property
    def noisy_rows(self) -> RowModel:
        """The model of rows as the noisy numbers have them."""
        spec = self.spec
        return RowModel.of(spec.axes, spec.marginals, self.known, Known(self.sizes, self.counts.deviation))

    def cell_sizes(self, column: Marginal) -> Floats:
        """The numbers of units by the cells of one column, `(cells,)`; each at least 1."""
        return np.asarray(np.maximum(self.noisy_rows.shares[column.axes[0]] * self.sizes.sum(), 1))

    @property
    def fit(self) -> CorpusFit | None:
        """The fit of the pool; None if texts have no points."""
        if UNLIKE not in self.known or self.public.pool.space is None:
            return None
        unlike, counts, compared = self.known[UNLIKE], self.counts, self.public.pool.space.compared
        return CorpusFit.of(
            float(unlike.numbers[0, 0]), unlike.deviation, float(counts.numbers.sum()),
            counts.deviation * math.sqrt(len(counts.numbers)), usual=UNLIKE_SHARE, compared=compared,
        )  # fmt: skip

    @property
    def report(self) -> Topics:
        """Noisy numbers by label and topic, and words by label."""
        spec, topics, counts = self.spec, self.public.pool.topics, self.counts
        own = (counts.numbers, counts.deviation)
        if topics is None:
            found = Topics.of(spec.labels, counts.numbers[:, None], counts.deviation, (), spec.unit, self.fit)
        else:
            cells = self.known[TOPICS]
            found = Topics.of(spec.labels, cells.numbers, cells.deviation, topics.described, spec.unit, self.fit, own)
        long = self.known.get(LENGTHS)
        lengths = None if long is None else LengthNumbers.of(spec.bins, long)
        found = replace(found, names=spec.names, words=self._words(), lengths=lengths, about=spec.about)
        if not spec.axes.columns:
            return found
        columns = column_numbers(spec.axes, spec.marginals, self.known)
        return replace(found, columns=columns, followed=self.rows.followed)

    @property
    def has_stated_noise(self) -> bool:
        """Whether the deviations follow from the settings."""
        stated = self.spec.deviations()
        return all(math.isclose(known.deviation, stated[name]) for name, known in self.known.items())

    @property
    def digest(self) -> str:
        """The name of the release: sha256 of its noisy numbers."""
        found = hashlib.sha256()
        for name in sorted(self.known):
            found.update(name.encode() + self.known[name].numbers.tobytes())
        return found.hexdigest()

    def to_bytes(self) -> bytes:
        """Return the summary as the bytes of a safetensors file, which `of_bytes` reads."""
        from safetensors.numpy import save  # noqa: PLC0415 (slow to load)

        described, arrays = self.public.stored()
        deviations = {name: known.deviation for name, known in self.known.items()}
        head = {"format": _FORMAT, "settings": settings(self.spec), "deviations": deviations}
        written = json.dumps({**head, "releases": list(self.releases), "public": described})
        arrays |= {f"numbers.{name}": known.numbers for name, known in self.known.items()}
        arrays["described"] = np.frombuffer(written.encode(), np.uint8)
        return bytes(save({name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}))

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Return the summary that `to_bytes` wrote. DataError: these are other bytes."""
        from safetensors import SafetensorError  # noqa: PLC0415 (slow to load)
        from safetensors.numpy import load  # noqa: PLC0415

        try:
            arrays = load(data)
            head = json.loads(arrays["described"].tobytes())
            if (found := head["format"]) != _FORMAT:
                raise _otherwise_written(found)
            spec = _spec_of(head["settings"])
            public = Public.of_stored(
                head["public"],
                arrays,
                encoder=spec.encoder,
                marks=spec.marks,
                bins=spec.bins,
                columns=spec.axes.columns,
            )
            known = {
                name: Known(np.asarray(arrays[f"numbers.{name}"], np.float64), float(deviation))
                for name, deviation in head["deviations"].items()
            }
            _require_whole(spec, public, known)
            return cls(spec, public, known, tuple(map(str, head["releases"])))
        except DataError:
            raise
        except (SafetensorError, LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise DataError("This is not a summary that dptext wrote.") from None

    def with_pool(self, texts: tuple[str, ...]) -> Summary:
        """Return the summary with the pool of these distinct texts. ConfigError: its pool has other texts."""
        return replace(self, public=self.public.with_pool(texts))

    def mixed(self, mix: Mapping[str, float]) -> Summary:
        """Return the summary with these shares of labels in the place of the noisy ones, for a writer.

        Labels that are not named keep their noisy shares of the rest. ConfigError: a label is unknown, or shares exceed
        1.
        """
        labels, sizes = self.spec.labels, self.sizes
        if not labels:
            raise ConfigError("Expected no shares of labels: this summary has no labels.")
        if unknown := [name for name in mix if name not in labels]:
            raise ConfigError(f"Expected shares of {', '.join(labels)}, found {unknown[0]!r}.")
        if any(share < 0 for share in mix.values()) or (given := sum(mix.values())) > 1 + 1e-9:
            raise ConfigError("Expected shares of labels from 0 to 1 that add up to at most 1.")
        rest = np.array([0.0 if name in mix else n for name, n in zip(labels, sizes, strict=True)])
        if not rest.any() and given < 1 - 1e-6:
            raise ConfigError(f"Expected shares of all labels to add up to 1, found {given:.3g}.")
        rest *= max(0.0, 1 - given) / max(rest.sum(), 1e-12)
        shares = np.array([mix.get(name, share) for name, share in zip(labels, rest, strict=True)])
        return replace(self, wanted=tuple(shares / shares.sum()))

    def _words(self) -> LabelWords | None:
        """Return the words that each label has more often than public text, by more than chance explains."""
        lexicon, rates = self.public.lexicon, self.public.rates
        if lexicon is None or rates is None:
            return None
        dull = untelling_words(self.public.language)
        telling = np.array([word not in dull for word in lexicon.words])
        texts = rate_texts(self.public.n_texts, self.public.n_drafts or [0] * len(self.counts.numbers))
        return LabelWords.of(lexicon.words, self.known[WORDS], self.counts, rates, texts, telling)


@runtime_checkable
class WritesFromSummary(Protocol):
    """Settings of a synthesis that measures one summary first, and then writes from that summary alone.

    Its fitted synthesis has the `FittedSummary` as `measures`. A run to files keeps the summary before it writes, so
    that a run that dies in writing goes on from the same noisy numbers. `synthesize` returns what `written` returns for
    the summary that `measures.measure` returns.

    Settings with `CorpusSpec.tells` also take `on_progress`, which `written` calls with the number of texts written so
    far and of all texts.
    """

    def written(self, summary: Summary, source: Randomness) -> Synthetic:
        """Return what is written from a summary. `source` is for choices that depend on noisy numbers at most."""
        ...


def measured_first(fitted: Fitted) -> tuple[FittedSummary, WritesFromSummary] | None:
    """Return what a synthesis measures first, and what writes from it; None if it does not measure one summary."""
    measures, spec = getattr(fitted, "measures", None), fitted.spec
    if isinstance(measures, FittedSummary) and isinstance(spec, WritesFromSummary):
        return measures, spec
    return None
