"""What is measured on the releases of a cell: every number with its interval, under a name `utility.number`.

* `classification.accuracy`, `.macro_f1`: a classifier trained on the releases and their labels, on the test part. Where
  a mechanism releases no label, it is trained with the labels of the originals, which nothing protects then:
  `classification.accuracy_true_labels`, `.macro_f1_true_labels`.
* `fidelity.*`: as `dptext.utility.fidelity.Fidelity`. `stylometry.distance`: `dptext.utility.stylometry`.
* `balance.l1_error`: of the class balance of the private records, read off the labels of the releases as they are.
* `embedding.accuracy`, `.macro_f1`: a linear classifier of public texts, on the vectors of the releases (of their texts
  where they are texts); right is the label of the original.
* `authorship.static`, `.adaptive`: share of the releases given to their authors, by the better of two attackers, its
  interval widened for the choice; `.chance`, `.similarity`, `.epsilon_lower_bound` for a document.
* `membership.auc`, `.control`: the shadow attack of the ADePT paper on a classifier trained on the releases.
* `distinguish.epsilon_lower_bound`: the black-box trial on the worst pairs that are known for the unit.

A refuted guarantee is the number 1 under `authorship.refuted` or `distinguish.refuted`, one that survives is 0.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext.audits.inference.authors import split_authors
from dptext.audits.inference.authorship import attribute_releases
from dptext.audits.inference.authorship_report import AttributionRow
from dptext.audits.membership.attacks import shokri
from dptext.audits.membership.members import split_members
from dptext.audits.membership.scorers import train_on
from dptext.audits.report import Report
from dptext.audits.trials.distinguishing import distinguish
from dptext.compare.corpora import Corpus
from dptext.compare.experiment import Measures
from dptext.embeddings.vectors import Embedder, load_vectors, load_word_vectors
from dptext.errors import ConfigError, IncomparableError, MissingExtraError
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.mechanism import Mechanism
from dptext.privacy.guarantee import Basis, Guarantee, Trust
from dptext.text.records import Record, Release
from dptext.types import Floats, Singles
from dptext.utility.balance import balance_error
from dptext.utility.classification import Classifier, evaluate, train_named
from dptext.utility.fidelity import fidelity
from dptext.utility.stylometry import StyleSpace

#: Releases of any records, drawn by a seed; what attacks on training sets need.
Transform = Callable[[Sequence[Record], int], Sequence[Release[str]]]

_GLOVE_WORDS: Final = 50_000
_REMEMBERED: Final = 50_000
_NAMES: Final = {"character n-grams": "ngrams", "sentence encoder": "encoder"}


@dataclass(frozen=True, slots=True)
class Number:
    """One measured number.

    Attributes:
        metric: its name.
        value, low, high: the number and its interval; None where there is none.
        confidence: of the interval.
    """

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None

    @classmethod
    def of(cls, metric: str, found: Estimate | float | None) -> Number:
        """An estimate, or a number without an interval; what is infinite is None."""
        if isinstance(found, Estimate):
            return cls(metric, _finite(found.value), _finite(found.low), _finite(found.high), found.confidence)
        return cls(metric, None if found is None else _finite(found))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Released:
    """The releases of one cell, with what made them.

    Attributes:
        releases: one for each private record, in order.
        mechanism: that made them; None for rows without one.
        guarantee: as it is stated in the table; None likewise.
        again: releases of any records by the same way, for attacks that need more of them.
        labelled: whether labels are released, too.
        written: whether texts are, and not vectors alone.
    """

    releases: Sequence[Release[str]] = field(repr=False)
    mechanism: Mechanism[str] | None
    guarantee: Guarantee | None
    again: Transform = field(repr=False)
    labelled: bool
    written: bool


class Lens:
    """The public models of a process, loaded when first asked for. Embeddings of public benchmarks stay in memory."""

    def __init__(self, measures: Measures) -> None:
        self._named = measures.embedder
        self._embedder: _Remembering | None = None

    def embedder(self) -> _Remembering:
        """The embedder behind cosines and attackers.

        Raises:
            ConfigError: the word vectors cannot be used.
            MissingExtraError: a package is not installed.
        """
        if self._embedder is None:
            self._embedder = _Remembering(_load_embedder(self._named))
        return self._embedder


class _Remembering:
    """An embedder that embeds a text once, as long as there is room."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.name, self.dim = inner.name, inner.dim
        self._known: dict[str, Singles] = {}

    def embed(self, texts: Sequence[str]) -> Floats:
        """Vectors `(n_texts, dim)`."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if len(self._known) + len(fresh) > _REMEMBERED:
            self._known.clear()
            fresh = list(dict.fromkeys(texts))
        found = np.asarray(self._inner.embed(fresh), np.float32) if fresh else np.empty((0, self.dim), np.float32)
        self._known.update(zip(fresh, found, strict=True))
        return np.asarray([self._known[text] for text in texts], np.float64).reshape(len(texts), self.dim)


def _load_embedder(name: str) -> Embedder:
    try:
        from dptext.embeddings import sentence_encoder  # noqa: PLC0415 (an extra, slow to load)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"embedder={name!r} needs the package {error.name}. Run: pip install torch==2.13.0 'dptext[sbert]'"
        ) from error
    if name == "sentence":
        return sentence_encoder.load_sentence_encoder()
    return sentence_encoder.load_word_mean(
        load_word_vectors(name, _GLOVE_WORDS) if name == "glove" else load_vectors(name)
    )


def measured(released: Released, corpus: Corpus, measures: Measures, lens: Lens, *, seed: int) -> list[Number]:
    """All numbers of one cell. What a corpus has no labels or authors for is left out.

    Raises:
        ConfigError: too few records of a kind, or releases that none of the utilities reads.
        MissingExtraError: a package is not installed.
    """
    found: list[Number] = []
    for name in measures.utilities:
        found += _utility(name, released, corpus, measures, lens, seed)
    for name in measures.audits:
        found += _audit(name, released, corpus, measures, lens, seed)
    if not found:
        why = "" if released.written else " This mechanism releases no text: add 'embedding' for its vectors."
        raise ConfigError(
            f"Expected utilities or audits that find something to measure in the corpus {corpus.name!r}: name the "
            f"fields of labels or authors, or add 'fidelity'.{why}"
        )
    return found


# ------------------------------------------------------------------------------------------------ utilities


def _utility(
    name: str, released: Released, corpus: Corpus, measures: Measures, lens: Lens, seed: int
) -> Iterator[Number]:
    if name == "embedding":
        if corpus.labels:
            yield from _read_by_public(released, corpus, lens, seed)
        return
    if name == "balance":
        if corpus.labels and released.labelled:
            true, given = ([item.label for item in side] for side in (corpus.private, released.releases))
            yield Number.of("balance.l1_error", balance_error(true, given, corpus.labels, seed=seed))
        return
    if not released.written:
        return
    if name == "classification" and corpus.labels:
        yield from _classified(released, corpus, measures, seed)
    if name == "fidelity":
        kept = fidelity(corpus.private, released.releases, embedder=lens.embedder(), seed=seed)
        for key, value in (
            ("label_kept", kept.label_kept),
            ("cosine", kept.cosine),
            ("own_first", kept.own_first),
            ("tokens_kept", kept.tokens_kept),
            ("distinct_texts", kept.distinct_texts),
            ("distinct_1", kept.distinct_1),
            ("distinct_2", kept.distinct_2),
            ("repetition", kept.repetition),
        ):
            if value is not None:
                yield Number.of(f"fidelity.{key}", value)
    if name == "stylometry":
        space = StyleSpace.fit(corpus.public)
        yield Number.of("stylometry.distance", space.distance(corpus.private, released.releases, seed=seed))


def _classified(released: Released, corpus: Corpus, measures: Measures, seed: int) -> Iterator[Number]:
    pairs = [
        (release.output, release.label if released.labelled else record.label)
        for record, release in zip(corpus.private, released.releases, strict=True)
    ]
    known = [(text, label) for text, label in pairs if label is not None]
    texts, labels = [text for text, _ in known], [label for _, label in known]
    found = evaluate(train_named(measures.classifier)(texts, labels, seed=seed), corpus.test, seed=seed)
    suffix = "" if released.labelled else "_true_labels"
    yield Number.of(f"classification.accuracy{suffix}", found.accuracy)
    yield Number.of(f"classification.macro_f1{suffix}", found.macro_f1)


@dataclass(frozen=True, slots=True, eq=False)
class _Linear:
    """A linear classifier of vectors, as `evaluate` reads it: the texts are names of rows."""

    labels: tuple[str, ...]
    given: Floats = field(repr=False)

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Those of the rows `(n_texts, n_labels)`."""
        return np.asarray(self.given[[int(text) for text in texts]])


def _read_by_public(released: Released, corpus: Corpus, lens: Lens, seed: int) -> Iterator[Number]:
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
    try:
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 (an extra)
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Classifiers need scikit-learn. Install it: pip install 'dptext[audit]'") from error
    public = [record for record in corpus.public if record.label is not None]
    model = LogisticRegression(C=10.0, max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # almost converged is as good
        model.fit(embedder.embed([record.text for record in public]), [record.label for record in public])
    reader = _Linear(tuple(map(str, model.classes_)), np.asarray(model.predict_proba(vectors), np.float64))
    rows = [Record(record.id, str(i), record.label) for i, record in enumerate(corpus.private)]
    found = evaluate(reader, rows, seed=seed)
    yield Number.of("embedding.accuracy", found.accuracy)
    yield Number.of("embedding.macro_f1", found.macro_f1)


# --------------------------------------------------------------------------------------------------- audits


def _audit(
    name: str, released: Released, corpus: Corpus, measures: Measures, lens: Lens, seed: int
) -> Iterator[Number]:
    if name == "authorship" and corpus.authors and released.written:
        yield from _attributed(released, corpus, measures, lens, seed)
    if name == "membership" and corpus.labels and released.written:
        yield from _members(released, corpus, measures, seed)
    if name == "distinguish" and released.mechanism is not None:
        yield from _distinguished(released, measures)


def _attributed(released: Released, corpus: Corpus, measures: Measures, lens: Lens, seed: int) -> Iterator[Number]:
    wanted = measures.authorship
    counts = Counter(record.author for record in corpus.private if record.author is not None)
    able = sorted(author for author, count in counts.items() if count >= wanted.training + wanted.attacked)
    chosen = set(able[: wanted.authors] if wanted.authors else able)
    if len(chosen) < 2:
        raise ConfigError(
            f"Expected at least 2 authors with training + attacked = {wanted.training + wanted.attacked} private "
            f"texts, found {len(chosen)}: ask for fewer texts in [settings.authorship]."
        )
    split = split_authors(
        [record for record in corpus.private if record.author in chosen],
        training=wanted.training,
        attacked=wanted.attacked,
        seed=seed,
    )
    by_id = {release.id: release for release in released.releases}
    report = attribute_releases(
        split.training,
        split.attacked,
        released=[by_id[record.id] for record in split.attacked],
        training_released=[by_id[record.id] for record in split.training],
        embedder=lens.embedder(),
        bundle=wanted.bundle,
        seed=seed,
        delta=0.0 if released.guarantee is None else released.guarantee.delta,
    )
    for knowledge in ("static", "adaptive"):
        rows = [row for row in report.attacks if row.name.endswith(knowledge)]
        yield Number.of(f"authorship.{knowledge}", _best(rows))
        for row in rows:
            short = _NAMES[row.name.partition(",")[0]]
            yield Number.of(f"authorship.{short}_{knowledge}", row.accuracy)
    yield Number.of("authorship.chance", 1 / report.authors)
    yield Number.of("authorship.similarity", report.attacks[0].similarity)
    if wanted.bundle == 1:
        yield _bound("authorship", report.report)
        if (claim := released.guarantee) is not None and _tried(claim, report.report):
            yield Number.of("authorship.refuted", float(report.report.refutes(claim)))


def _best(rows: Sequence[AttributionRow]) -> Estimate:
    """The most successful attacker's accuracy, with an interval that holds for all of them together."""
    best = max(rows, key=lambda row: row.accuracy.value)
    hits = round(best.accuracy.value * best.attributed)
    confidence = best.accuracy.confidence
    wide = clopper_pearson(hits, best.attributed, confidence=1 - bonferroni(confidence, len(rows)))
    return Estimate(wide.value, wide.low, wide.high, confidence)


def _tried(claim: Guarantee, trial: Report) -> bool:
    """Whether the trial speaks of the claim's own neighbours: replacing one document, nobody trained on it."""
    same = claim.meaning == (trial.unit, trial.relation, trial.metric) and not claim.reveals
    return same and claim.trust is Trust.LOCAL and claim.basis is not Basis.NONE and claim.delta <= trial.delta


def _bound(name: str, report: Report) -> Number:
    """A lower bound is the low end of an interval without an upper one."""
    bound = report.epsilon_lower_bound
    shown = bound if math.isfinite(bound) else None
    return Number(f"{name}.epsilon_lower_bound", shown, shown, None, report.confidence)


def _members(released: Released, corpus: Corpus, measures: Measures, seed: int) -> Iterator[Number]:
    trainer = train_named(measures.classifier)

    def train(texts: Sequence[str], labels: Sequence[str], number: int) -> Classifier:
        return trainer(texts, labels, seed=number)

    halves = split_members(corpus.private, seed=seed)
    target = split_members(halves.members, seed=seed + 1)
    own = split_members(halves.non_members, seed=seed + 2)
    by_id = {release.id: release for release in released.releases}
    model = train_on(target.members, train=train, transform=lambda some, _: [by_id[r.id] for r in some], seed=seed)
    found = shokri(
        model,
        target.members,
        target.non_members,
        shadow_train=own.members,
        shadow_out=own.non_members,
        train=train,
        seed=seed,
        transform=released.again,
    )
    yield Number.of("membership.auc", found.main.auc)
    yield Number.of("membership.control", found.control.auc)
    for attack in found.baselines:
        yield Number.of(f"membership.{attack.name.replace(' ', '_')}", attack.auc)


def _distinguished(released: Released, measures: Measures) -> Iterator[Number]:
    mechanism, claim = released.mechanism, released.guarantee
    if mechanism is None or claim is None:
        return
    try:
        report = distinguish(mechanism, claim=claim, delta=claim.delta, trials=measures.trials)
    except IncomparableError:
        return  # no pair of neighbours is known for what this guarantee reveals
    yield _bound("distinguish", report)
    if claim.basis is not Basis.NONE:
        yield Number.of("distinguish.refuted", float(report.refutes(claim)))
