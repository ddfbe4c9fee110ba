"""The run of one cell, from the fit to its numbers, and the cell as data for its file. Rows hold no text.

Fits, splits, classifiers and intervals follow the experiment's seed, which is public. Releases draw secret bits, unless
the experiment is seeded, which voids every guarantee. Beside its numbers a cell keeps four samples made from *public*
records. A mechanism that has learned from private text may repeat that text on any input, so its cell has no such
samples. Samples of private records are kept only on request.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.mechanism import Answers, Mechanism
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.recommend.measured import REFUTED
from dptext.runs.private import Private
from dptext.runs.results import privatize
from dptext.runs.specs import spec_from_settings, synthesis_from_settings
from dptext.runs.streaming import SEEDED
from dptext.runs.synthesizing import run
from dptext.sampling.randomness import Randomness, secure, seeded
from dptext.synthesis.pool import OnPool
from dptext.synthesis.report import Topics
from dptext.synthesis.spec import Fitted
from dptext.text.records import Fields, Record, Release
from dptext.types import Json
from dptext.utility.balance import observed_balance
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, baselines
from dptext_lab.compare.cells import SAMPLES, Cell, Lens, Measurement, SharedFits
from dptext_lab.compare.corpora import SplitCorpus
from dptext_lab.compare.experiment import Experiment
from dptext_lab.compare.grid import lifted
from dptext_lab.compare.measure import Released, classified, corpus_measures, limit_of_cosine, measured
from dptext_lab.compare.stored import TableRow

#: Position at which the stream of the samples begins, far from the stream of the private records.
_APART: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one cell; `document` is the epsilon of a document if it is finite.

    `samples` are pairs of originals and releases: of public records, unless the mechanism has learned from private
    text. `private_samples` are of private records, if they are to be kept.
    """

    numbers: tuple[Measurement, ...]
    guarantee: Guarantee | None
    document: float | None
    samples: tuple[tuple[str, str], ...] = field(repr=False)
    private_samples: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def refuted(self) -> list[str]:
        """The audits that refute the guarantee."""
        return [n.metric.partition(".")[0] for n in self.numbers if n.metric.endswith(REFUTED) and n.value == 1]


def run_cell(
    cell: Cell, experiment: Experiment, corpus: SplitCorpus, lens: Lens, *, fits: SharedFits, private_samples: bool
) -> Outcome:
    """Fit, release, measure; ConfigError for unusable records or settings. Shared fits change no number."""
    seed = experiment.seed + cell.trial
    source = seeded(seed) if experiment.seeded else secure()
    if cell.answers is Answers.CORPUS:
        numbers, stated = synthesized(cell, experiment, corpus, lens, fits=fits, source=source, seed=seed)
        return Outcome(tuple(numbers), stated, None, ())  # no text of a synthesis has an original for a sample
    mechanism: Mechanism[str] | None = None
    guarantee: Guarantee | None = None
    document = None if cell.row == ORIGINAL else 0.0
    labelled, written = bool(corpus.labels), True
    if cell.kind:
        spec = spec_from_settings(cell.settings)
        mechanism = fits.fitted(cell, spec, corpus, seed=seed)
        labelled, written = spec.traits.releases_labels, spec.traits.releases_text
        guarantee, whole = spec.guarantee(Unit(cell.unit), cell.delta), lifted(spec, cell.delta)
        document = None if whole is None else whole.epsilon
        if not source.is_secure:
            guarantee, document = guarantee.voided(SEEDED), None

    def draw(records: Sequence[Record], bits: Randomness, number: int) -> Sequence[Release[str]]:
        if mechanism is None:
            return baselines(records, corpus.public, labels=corpus.labels, seed=number)[cell.row]
        # The table states the basis of every row, so no confirmation is needed here.
        return list(privatize(records, mechanism, randomness=bits, without_guarantee=True))

    def again(records: Sequence[Record], number: int) -> Sequence[Release[str]]:
        return draw(records, seeded(number), number)

    judged = corpus.public if cell.row == PUBLIC_ONLY and "corpus" in experiment.utilities else ()
    drawn, pairs = draw(corpus.private, source, seed), [(record.text, record.label) for record in judged]
    released = Released(drawn, mechanism, guarantee, again, labelled, written, pairs)
    numbers = measured(released, corpus, experiment, lens, seed=seed)
    if "fidelity" in experiment.utilities and guarantee is not None and document and not guarantee.delta:
        numbers += limit_of_cosine(corpus, lens, document)
    public = corpus.public[:SAMPLES] if cell.trains_on == "public" else ()
    samples = _pairs(public, draw(public, source.at(_APART), seed)) if public else ()
    kept = _pairs(corpus.private[:SAMPLES], released.releases) if private_samples else ()
    return Outcome(tuple(numbers), guarantee, document, samples, kept)


def _pairs(records: Sequence[Record], releases: Sequence[Release[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((record.text, release.output) for record, release in zip(records, releases, strict=False))


def synthesized(
    cell: Cell,
    experiment: Experiment,
    corpus: SplitCorpus,
    lens: Lens,
    *,
    fits: SharedFits,
    source: Randomness,
    seed: int,
) -> tuple[list[Measurement], Guarantee]:
    """Return the numbers and the guarantee of a synthesis; ConfigError if the corpus lacks a field that it reads."""
    spec = synthesis_from_settings(cell.settings)
    if spec.unit == "author" and not corpus.authors:
        raise ConfigError(f"Expected author = FIELD in [corpora.{corpus.name}], as unit='author': name the field.")
    with fits.vectors.learning():
        fitted = spec.fit(public=corpus.pool or corpus.public, seed=seed)
    found = run(Private(corpus.private, Fields(), {}), fitted, randomness=source, delta=cell.delta)
    made = [(release.output, release.label) for release in found.releases]
    numbers: list[Measurement] = []
    if "classification" in experiment.utilities and corpus.labels and spec.labels and made:
        numbers += classified(made, corpus, experiment, seed)
    if "corpus" in experiment.utilities:
        numbers += [*corpus_measures(made, corpus, lens, seed), *_reported(found.report, fitted, corpus)]
    if not numbers:
        raise ConfigError(f"Expected utilities = ['corpus'] for {spec.kind}: nothing else was found to measure.")
    return numbers, found.guarantees[-1]


def _reported(report: Topics, fitted: Fitted, corpus: SplitCorpus) -> Iterator[Measurement]:
    if report.labels:
        true = observed_balance([record.label for record in corpus.private], report.labels)
        yield Measurement.of("corpus.reported_mix_l1", float(np.abs(_shares(report.by_label[0]) - true).sum()))
    if report.topics and isinstance(fitted, OnPool) and fitted.pool.topics and fitted.pool.space:
        topics = fitted.pool.topics.nearest(fitted.pool.space.points([record.text for record in corpus.private]))
        shares = _shares(report.by_topic[0])
        true = np.bincount(topics, minlength=len(shares)) / len(topics)
        yield Measurement.of("corpus.reported_topics_tv", float(np.abs(shares - true).sum() / 2))


def _shares(noisy: Sequence[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    kept = np.maximum(np.asarray(noisy, np.float64), 0.0)
    return np.asarray(kept / kept.sum() if kept.sum() else np.full(len(kept), 1 / len(kept)))


def cell_data(
    cell: Cell, outcome: Outcome | str, *, signature: str, seconds: float, peak_mib: float
) -> dict[str, Json]:
    """A finished cell, or a single row with the reason of its failure. The peak is of the process that ran the cell."""
    row: dict[str, Json] = dict.fromkeys(("epsilon", "delta", "metric_privacy", "document_epsilon", "error"))
    row |= {name: getattr(cell, name) for name in ("corpus", "row", "kind", "trial", "unit")}
    row["settings"] = json.dumps({key: value for key, value in cell.settings.items() if key != "kind"})
    row |= {"relation": "", "basis": "", "seconds": seconds, "peak_mib": peak_mib, "signature": signature}
    data: dict[str, Json] = {"signature": signature, "cell": cell.to_dict(), "certificate": None, "samples": []}
    if isinstance(outcome, str):
        failed = _row({**row, "error": outcome}, Measurement("", None))
        return {**data, "rows": [failed], "refuted": [], "error": outcome}
    row["document_epsilon"] = outcome.document
    if (found := outcome.guarantee) is None:
        row |= {"epsilon": outcome.document, "delta": outcome.document}
    else:
        row |= {"unit": str(found.unit), "relation": str(found.relation), "basis": str(found.basis)}
        row["metric_privacy"] = found.metric
        if math.isfinite(found.epsilon):
            row |= {"epsilon": found.epsilon, "delta": found.delta}
        data["certificate"] = {**found.to_dict(), "explain": found.explain()}
    data["samples"] = _as_data(outcome.samples)
    if outcome.private_samples:
        data["private_samples"] = _as_data(outcome.private_samples)
    refuted: list[Json] = [*outcome.refuted]
    return {**data, "rows": [_row(row, number) for number in outcome.numbers], "refuted": refuted, "error": None}


def _row(shared: dict[str, Json], number: Measurement) -> dict[str, Json]:
    return TableRow.model_validate({**shared, **asdict(number)}).to_dict()


def _as_data(samples: Sequence[tuple[str, str]]) -> list[Json]:
    return [{"original": original, "released": released} for original, released in samples]
