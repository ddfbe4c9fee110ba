"""Measurements on the releases of a cell.

Every number has a name `utility.number`, and an interval if one is known. `dptext_lab.compare.report.summary.MEANINGS`
explains each number. Further facts:

* `classification.*`: the classifier is judged on the test part; with the utility "corpus", the classifier of
  *public-only* learns from all of the public part. If a mechanism releases no label, the classifier learns from the
  labels of the originals, which nothing protects: `classification.accuracy_true_labels`, `.macro_f1_true_labels`. The
  table adds `classification.gap_closed`: (its accuracy - public-only) / (original - public-only).
* `fidelity.limit`: the limit of any mechanism that replaces each record by a public text at the epsilon of a document,
  solved on the originals; high is its bound. The others are those of `dptext.utility.fidelity.Fidelity`.
* `balance.l1_error`: error of the private records' balance, estimated by the labels of the releases.
* `embedding.*`: the vectors are those of the releases, or the embeddings of their texts. The classifier is linear.
* `corpus.*`: `dptext.utility.corpus.CorpusKept`, whose real texts are the test part; `corpus.reported_mix_l1` and
  `.reported_topics_tv` are errors of the noisy shares of labels and topics in the report of a synthesis.
* `stylometry.distance`: `dptext.utility.stylometry`.
* `authorship.static`, `.adaptive`: accuracy of the better of two attackers; the interval is widened for the choice. The
  lower bound on epsilon is for a document.
* `membership.*`: the shadow attack of the ADePT paper. `distinguish.*`: on the worst pairs known for the unit.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from dptext.audits.inference.authorship import attribute_releases, split_authors
from dptext.audits.membership.attacks import shokri
from dptext.audits.membership.members import Transform, split_members, train_on
from dptext.audits.report import Report, is_about
from dptext.audits.trials.distinguishing import distinguish
from dptext.embeddings.embedder import embed_distinct
from dptext.embeddings.tfidf import fit_quietly
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import Estimate, best_share
from dptext.mechanism import Mechanism
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.sampling.envelope import limit
from dptext.text.records import Record, Release
from dptext.utility.balance import balance_error
from dptext.utility.classification import Classifier, evaluate, train_named
from dptext.utility.corpus import corpus_kept
from dptext.utility.fidelity import fidelity
from dptext.utility.stylometry import StyleSpace
from dptext_lab.compare.cells import Lens, Measurement
from dptext_lab.compare.corpora import SplitCorpus
from dptext_lab.compare.experiment import Experiment

_FIDELITY: Final = (
    "label_kept", "cosine", "own_first", "tokens_kept", "distinct_texts", "distinct_1", "distinct_2", "repetition",
)  # fmt: skip
_SHORT_NAMES: Final = {"character n-grams": "ngrams", "sentence encoder": "encoder"}


#: A text and its label, in a corpus without records.
Labelled = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Released:
    """The releases of one cell, one for each private record, and their mechanism: None for references.

    `again` draws releases of any records in the same way, for attacks. `labelled` and `written` say whether labels and
    texts are released; a mechanism without texts releases vectors. `whole`, if not empty, is judged as a corpus instead
    of the releases.
    """

    releases: Sequence[Release[str]] = field(repr=False)
    mechanism: Mechanism[str] | None
    guarantee: Guarantee | None
    again: Transform = field(repr=False)
    labelled: bool
    written: bool
    whole: Sequence[Labelled] = field(default=(), repr=False)

    def corpus(self, originals: Sequence[Record]) -> Sequence[Labelled]:
        """Return texts and labels; without released labels the labels of the originals."""
        return self.whole or [
            (release.output, release.label if self.labelled else record.label)
            for record, release in zip(originals, self.releases, strict=True)
        ]


def measured(
    released: Released, corpus: SplitCorpus, experiment: Experiment, lens: Lens, *, seed: int
) -> list[Measurement]:
    """Return all numbers of a cell that its labels, authors and releases allow; ConfigError if there are none."""
    found: list[Measurement] = []
    for utility in experiment.utilities:
        found += _utility_measures(utility, released, corpus, experiment, lens, seed)
    for audit in experiment.audits:
        if audit == "authorship" and corpus.authors and released.written:
            found += _attributed(released, corpus, experiment, lens, seed)
        if audit == "membership" and corpus.labels and released.written:
            found += _members(released, corpus, experiment, seed)
        if audit == "distinguish":
            found += _distinguished(released, experiment)
    if not found:
        why = "" if released.written else " This mechanism releases no text: add 'embedding' for its vectors."
        raise ConfigError(
            f"Expected utilities or audits that find something to measure in the corpus {corpus.name!r}: name the "
            f"fields of labels or authors, or add 'fidelity'.{why}"
        )
    return found


def limit_of_cosine(corpus: SplitCorpus, lens: Lens, epsilon: float) -> list[Measurement]:
    """The largest mean cosine of any mechanism that replaces each text by a public text, with its upper bound."""
    sides = ([record.text for record in part] for part in (corpus.private, corpus.public))
    private, public = (embed_distinct(texts, lens.embedder).at(texts) for texts in sides)
    found = limit(private @ public.T, epsilon=epsilon)
    return [Measurement("fidelity.limit", found.value, found.value, found.bound)]


def _utility_measures(
    name: str, released: Released, corpus: SplitCorpus, experiment: Experiment, lens: Lens, seed: int
) -> Iterator[Measurement]:
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
        suffix = "" if released.labelled else "_true_labels"
        yield from classified(released.corpus(corpus.private), corpus, experiment, seed, suffix)
    if name == "corpus":
        pairs = released.corpus(corpus.private)
        yield from corpus_measures(pairs if released.labelled else [(t, None) for t, _ in pairs], corpus, lens, seed)
    if name == "fidelity":
        kept = fidelity(corpus.private, released.releases, embedder=lens.embedder, seed=seed)
        for key in _FIDELITY:
            value: Estimate | float | None = getattr(kept, key)
            if value is not None:
                yield Measurement.of(f"fidelity.{key}", value)
    if name == "stylometry":
        space = StyleSpace.fit(corpus.public)
        yield Measurement.of("stylometry.distance", space.distance(corpus.private, released.releases, seed=seed))


def classified(
    pairs: Sequence[Labelled], corpus: SplitCorpus, experiment: Experiment, seed: int, suffix: str = ""
) -> Iterator[Measurement]:
    """Measure how well a classifier learns from texts and labels."""
    known = [(text, label) for text, label in pairs if label is not None]
    train = train_named(experiment.settings.classifier)
    learned = train([text for text, _ in known], [label for _, label in known], seed=seed)
    found = evaluate(learned, corpus.test, seed=seed)
    yield Measurement.of(f"classification.accuracy{suffix}", found.accuracy)
    yield Measurement.of(f"classification.macro_f1{suffix}", found.macro_f1)


def corpus_measures(pairs: Sequence[Labelled], corpus: SplitCorpus, lens: Lens, seed: int) -> Iterator[Measurement]:
    """Measure how much of the private corpus a corpus keeps; nothing if no text is released."""
    if pairs:
        texts, given = [text for text, _ in pairs], [label for _, label in pairs]
        parts = {"private": corpus.private, "real": corpus.test, "pool": corpus.pool or corpus.public}
        kept = corpus_kept(texts, given, **parts, labels=corpus.labels, embedder=lens.embedder, seed=seed)
        for name, value in kept.cells():
            yield Measurement.of(f"corpus.{name}", value)


def _read_by_public(released: Released, corpus: SplitCorpus, lens: Lens, seed: int) -> Iterator[Measurement]:
    embedder = lens.embedder
    if released.written:
        vectors = embedder.embed([release.output for release in released.releases])
    else:
        vectors = np.array([release.vector for release in released.releases], np.float64)
    if vectors.shape[1] != embedder.dim:
        raise ConfigError(
            f"Expected released vectors of {embedder.dim} numbers, as {embedder.name} gives, found {vectors.shape[1]}: "
            "choose the embedder of the mechanism."
        )
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 (slow to load)

    public = [record for record in corpus.public if record.label is not None]
    model = LogisticRegression(C=10.0, max_iter=300, random_state=seed)
    fit_quietly(model, embedder.embed([record.text for record in public]), [record.label for record in public])
    given = np.asarray(model.predict_proba(vectors), np.float64)
    # `evaluate` reads texts: here each text is the index of a vector.
    reader: Any = SimpleNamespace(
        labels=tuple(map(str, model.classes_)), probabilities=lambda texts: given[[int(text) for text in texts]]
    )
    rows = [Record(record.id, str(i), record.label) for i, record in enumerate(corpus.private)]
    found = evaluate(reader, rows, seed=seed)
    yield Measurement.of("embedding.accuracy", found.accuracy)
    yield Measurement.of("embedding.macro_f1", found.macro_f1)


def _attributed(
    released: Released, corpus: SplitCorpus, experiment: Experiment, lens: Lens, seed: int
) -> Iterator[Measurement]:
    wanted = experiment.settings.authorship
    counts = Counter(record.author for record in corpus.private if record.author is not None)
    able = sorted(author for author, count in counts.items() if count >= wanted.training + wanted.attacked)
    chosen = set(able[: wanted.authors] if wanted.authors else able)
    if len(chosen) < 2:
        raise ConfigError(
            f"Expected at least 2 authors with training + attacked = {wanted.training + wanted.attacked} private "
            f"texts, found {len(chosen)}: ask for fewer texts in [settings.authorship]."
        )
    own = [record for record in corpus.private if record.author in chosen]
    split = split_authors(own, training=wanted.training, attacked=wanted.attacked, seed=seed)
    by_id = {release.id: release for release in released.releases}
    tried, taught = ([by_id[record.id] for record in side] for side in (split.attacked, split.training))
    given: dict[str, Any] = {"released": tried, "training_released": taught, "embedder": lens.embedder}
    delta = 0.0 if released.guarantee is None else released.guarantee.delta
    report = attribute_releases(split.training, split.attacked, bundle=wanted.bundle, seed=seed, delta=delta, **given)
    for knowledge in ("static", "adaptive"):
        rows = [row for row in report.attacks if row.name.endswith(knowledge)]
        yield Measurement.of(f"authorship.{knowledge}", best_share([(row.accuracy, row.attributed) for row in rows]))
        for row in rows:
            short = _SHORT_NAMES[row.name.partition(",")[0]]
            yield Measurement.of(f"authorship.{short}_{knowledge}", row.accuracy)
    yield Measurement.of("authorship.chance", 1 / report.authors)
    yield Measurement.of("authorship.similarity", report.attacks[0].similarity)
    if wanted.bundle == 1:
        yield _bound("authorship", report.report)
        if (claim := released.guarantee) is not None and is_about(report.report, claim):
            yield Measurement.of("authorship.refuted", float(report.report.refutes(claim)))


def _bound(name: str, report: Report) -> Measurement:
    """Store a lower bound as the low end of an interval without an upper end."""
    bound = report.epsilon_lower_bound
    shown = bound if math.isfinite(bound) else None
    return Measurement(f"{name}.epsilon_lower_bound", shown, shown, None, report.confidence)


def _members(released: Released, corpus: SplitCorpus, experiment: Experiment, seed: int) -> Iterator[Measurement]:
    trainer = train_named(experiment.settings.classifier)

    def train(texts: Sequence[str], labels: Sequence[str], number: int) -> Classifier:
        return trainer(texts, labels, seed=number)

    halves = split_members(corpus.private, seed=seed)
    target = split_members(halves.members, seed=seed + 1)
    own = split_members(halves.non_members, seed=seed + 2)
    by_id = {release.id: release for release in released.releases}
    model = train_on(target.members, train=train, transform=lambda some, _: [by_id[r.id] for r in some], seed=seed)
    sides: dict[str, Any] = {"shadow_train": own.members, "shadow_out": own.non_members}
    found = shokri(model, target.members, target.non_members, **sides, train=train, seed=seed, transform=released.again)
    yield Measurement.of("membership.auc", found.main.auc)
    yield Measurement.of("membership.control", found.control.auc)
    for attack in found.baselines:
        yield Measurement.of(f"membership.{attack.name.replace(' ', '_')}", attack.auc)


def _distinguished(released: Released, experiment: Experiment) -> Iterator[Measurement]:
    mechanism, claim = released.mechanism, released.guarantee
    if mechanism is None or claim is None:
        return
    try:
        report = distinguish(mechanism, claim=claim, delta=claim.delta, trials=experiment.settings.distinguish.trials)
    except IncomparableError:
        return  # no known pair of neighbours agrees on the facts that this guarantee reveals
    yield _bound("distinguish", report)
    if claim.basis is not Basis.NONE:
        yield Measurement.of("distinguish.refuted", float(report.refutes(claim)))
