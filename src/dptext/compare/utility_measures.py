"""The utilities of one cell. `dptext.compare.measure` says what each metric means."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext.compare.corpora import Corpus
from dptext.compare.experiment import Experiment
from dptext.compare.lens import Lens
from dptext.compare.released import Measurement, Released
from dptext.errors import ConfigError, needing
from dptext.estimates import Estimate
from dptext.text.records import Record
from dptext.types import Floats
from dptext.utility.balance import balance_error
from dptext.utility.classification import evaluate, train_named
from dptext.utility.fidelity import fidelity
from dptext.utility.stylometry import StyleSpace

_FIDELITY: Final = (
    "label_kept", "cosine", "own_first", "tokens_kept", "distinct_texts", "distinct_1", "distinct_2", "repetition",
)  # fmt: skip


def utility_measures(
    name: str, released: Released, corpus: Corpus, experiment: Experiment, lens: Lens, seed: int
) -> Iterator[Measurement]:
    """The numbers of the utility of this name; none where the corpus or the releases do not have what it reads."""
    if name == "embedding":
        if corpus.labels:
            yield from _read_by_public(released, corpus, lens, seed)
        return
    if name == "balance":
        if corpus.labels and released.labelled:
            true, given = ([item.label for item in side] for side in (corpus.private, released.releases))
            yield Measurement.of("balance.l1_error", balance_error(true, given, corpus.labels, seed=seed))
        return
    if not released.written:
        return
    if name == "classification" and corpus.labels:
        yield from _classified(released, corpus, experiment, seed)
    if name == "fidelity":
        kept = fidelity(corpus.private, released.releases, embedder=lens.embedder(), seed=seed)
        for key in _FIDELITY:
            value: Estimate | float | None = getattr(kept, key)
            if value is not None:
                yield Measurement.of(f"fidelity.{key}", value)
    if name == "stylometry":
        space = StyleSpace.fit(corpus.public)
        yield Measurement.of("stylometry.distance", space.distance(corpus.private, released.releases, seed=seed))


def _classified(released: Released, corpus: Corpus, experiment: Experiment, seed: int) -> Iterator[Measurement]:
    pairs = [
        (release.output, release.label if released.labelled else record.label)
        for record, release in zip(corpus.private, released.releases, strict=True)
    ]
    known = [(text, label) for text, label in pairs if label is not None]
    texts, labels = [text for text, _ in known], [label for _, label in known]
    found = evaluate(train_named(experiment.settings.classifier)(texts, labels, seed=seed), corpus.test, seed=seed)
    suffix = "" if released.labelled else "_true_labels"
    yield Measurement.of(f"classification.accuracy{suffix}", found.accuracy)
    yield Measurement.of(f"classification.macro_f1{suffix}", found.macro_f1)


@dataclass(frozen=True, slots=True, eq=False)
class _Linear:
    """A classifier of vectors in the form that `evaluate` reads: a text is the number of a vector.

    Attributes:
        labels: of the columns.
        given: probabilities `(n_vectors, n_labels)`.
    """

    labels: tuple[str, ...]
    given: Floats = field(repr=False)

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """The probabilities `(n_texts, n_labels)`."""
        return np.asarray(self.given[[int(text) for text in texts]])


def _read_by_public(released: Released, corpus: Corpus, lens: Lens, seed: int) -> Iterator[Measurement]:
    embedder = lens.embedder()
    if released.written:
        vectors = embedder.embed([release.output for release in released.releases])
    else:
        vectors = np.array([release.vector for release in released.releases], np.float64)
    if vectors.shape[1] != embedder.dim:
        raise ConfigError(
            f"Expected released vectors of {embedder.dim} numbers, as {embedder.name} gives, found {vectors.shape[1]}: "
            "choose the embedder of the mechanism."
        )
    with needing("The metric embedding.accuracy", "audit"):
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 (an extra)
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    public = [record for record in corpus.public if record.label is not None]
    model = LogisticRegression(C=10.0, max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an almost converged classifier is as good
        model.fit(embedder.embed([record.text for record in public]), [record.label for record in public])
    reader = _Linear(tuple(map(str, model.classes_)), np.asarray(model.predict_proba(vectors), np.float64))
    rows = [Record(record.id, str(i), record.label) for i, record in enumerate(corpus.private)]
    found = evaluate(reader, rows, seed=seed)
    yield Measurement.of("embedding.accuracy", found.accuracy)
    yield Measurement.of("embedding.macro_f1", found.macro_f1)
