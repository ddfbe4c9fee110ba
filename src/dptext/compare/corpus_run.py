"""A synthesis in one cell, and what is measured of a corpus whose texts have no record of their own.

* `classification.accuracy`, `.macro_f1`: of a classifier that is trained on the corpus, judged on the test part.
* `classification.gap_closed`: (its accuracy - public-only) / (original - public-only), added to the table by `gaps`.
* `corpus.*`: as `dptext.utility.corpus.CorpusKept`, whose real texts are the test part.
* `corpus.reported_mix_l1`, `.reported_topics_tv`: errors of the noisy shares of labels and topics in the report.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dptext.compare.cells import Cell, Lens, Measurement, SharedFits
from dptext.compare.corpora import Corpus
from dptext.compare.experiment import Experiment
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Guarantee
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.synthesizing import Private, run
from dptext.sampling.source import Randomness
from dptext.synthesis.pool import OnPool
from dptext.synthesis.report import Topics
from dptext.synthesis.spec import Fitted
from dptext.text.records import Fields
from dptext.utility.balance import observed_balance
from dptext.utility.classification import evaluate, train_named
from dptext.utility.corpus import corpus_kept

#: A text and its label, of a corpus without records.
Labelled = tuple[str, str | None]


def synthesized(
    cell: Cell, experiment: Experiment, corpus: Corpus, lens: Lens, *, fits: SharedFits, source: Randomness, seed: int
) -> tuple[list[Measurement], Guarantee]:
    """The numbers and the guarantee of a synthesis; ConfigError where the corpus lacks what it reads."""
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


def classified(
    pairs: Sequence[Labelled], corpus: Corpus, experiment: Experiment, seed: int, suffix: str = ""
) -> Iterator[Measurement]:
    """How well a classifier learns from texts and labels."""
    known = [(text, label) for text, label in pairs if label is not None]
    train = train_named(experiment.settings.classifier)
    found = evaluate(
        train([text for text, _ in known], [label for _, label in known], seed=seed), corpus.test, seed=seed
    )
    yield Measurement.of(f"classification.accuracy{suffix}", found.accuracy)
    yield Measurement.of(f"classification.macro_f1{suffix}", found.macro_f1)


def corpus_measures(pairs: Sequence[Labelled], corpus: Corpus, lens: Lens, seed: int) -> Iterator[Measurement]:
    """What a corpus keeps of the private one; nothing where no text leaves."""
    if pairs:
        kept = corpus_kept(
            [text for text, _ in pairs],
            [label for _, label in pairs],
            private=corpus.private,
            real=corpus.test,
            pool=corpus.pool or corpus.public,
            labels=corpus.labels,
            embedder=lens.embedder,
            seed=seed,
        )
        for name, value in kept.cells():
            yield Measurement.of(f"corpus.{name}", value)


def _reported(report: Topics, fitted: Fitted, corpus: Corpus) -> Iterator[Measurement]:
    if report.labels:
        true = observed_balance([record.label for record in corpus.private], report.labels)
        yield Measurement.of("corpus.reported_mix_l1", float(np.abs(_shares(report.by_label[0]) - true).sum()))
    if report.topics and isinstance(fitted, OnPool):
        topics = fitted.topics.nearest(fitted.pool.space.points([record.text for record in corpus.private]))
        shares = _shares(report.by_topic[0])
        true = np.bincount(topics, minlength=len(shares)) / len(topics)
        yield Measurement.of("corpus.reported_topics_tv", float(np.abs(shares - true).sum() / 2))


def _shares(noisy: Sequence[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    kept = np.maximum(np.asarray(noisy, np.float64), 0.0)
    return np.asarray(kept / kept.sum() if kept.sum() else np.full(len(kept), 1 / len(kept)))
