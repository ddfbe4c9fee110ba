"""The audits of one cell. `dptext.compare.measure` says what each metric means."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from dptext.audits.inference.authors import split_authors
from dptext.audits.inference.authorship import attribute_releases
from dptext.audits.inference.authorship_report import AttributionRow
from dptext.audits.membership.attacks import shokri
from dptext.audits.membership.members import split_members
from dptext.audits.membership.scorers import train_on
from dptext.audits.report import Report
from dptext.audits.trials.distinguishing import distinguish
from dptext.compare.corpora import Corpus
from dptext.compare.experiment import Experiment
from dptext.compare.lens import Lens
from dptext.compare.released import Measurement, Released
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.privacy.guarantee import Basis, Guarantee, Trust
from dptext.utility.classification import Classifier, train_named

_SHORT_NAMES: Final = {"character n-grams": "ngrams", "sentence encoder": "encoder"}


def audit_measures(
    name: str, released: Released, corpus: Corpus, experiment: Experiment, lens: Lens, seed: int
) -> Iterator[Measurement]:
    """The numbers of the audit of this name; none where the corpus or the releases do not have what it reads."""
    if name == "authorship" and corpus.authors and released.written:
        yield from _attributed(released, corpus, experiment, lens, seed)
    if name == "membership" and corpus.labels and released.written:
        yield from _members(released, corpus, experiment, seed)
    if name == "distinguish" and released.mechanism is not None:
        yield from _distinguished(released, experiment)


def _attributed(
    released: Released, corpus: Corpus, experiment: Experiment, lens: Lens, seed: int
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
        yield Measurement.of(f"authorship.{knowledge}", _best(rows))
        for row in rows:
            short = _SHORT_NAMES[row.name.partition(",")[0]]
            yield Measurement.of(f"authorship.{short}_{knowledge}", row.accuracy)
    yield Measurement.of("authorship.chance", 1 / report.authors)
    yield Measurement.of("authorship.similarity", report.attacks[0].similarity)
    if wanted.bundle == 1:
        yield _bound("authorship", report.report)
        if (claim := released.guarantee) is not None and _tried(claim, report.report):
            yield Measurement.of("authorship.refuted", float(report.report.refutes(claim)))


def _best(rows: Sequence[AttributionRow]) -> Estimate:
    """The most successful attacker's accuracy, with an interval that holds for all of them together."""
    best = max(rows, key=lambda row: row.accuracy.value)
    hits = round(best.accuracy.value * best.attributed)
    confidence = best.accuracy.confidence
    wide = clopper_pearson(hits, best.attributed, confidence=1 - bonferroni(confidence, len(rows)))
    return Estimate(wide.value, wide.low, wide.high, confidence)


def _tried(claim: Guarantee, trial: Report) -> bool:
    """Whether the trial is about the neighbours of the claim: one replaced document, on which nothing was trained."""
    same = claim.meaning == (trial.unit, trial.relation, trial.metric) and not claim.reveals
    return same and claim.trust is Trust.LOCAL and claim.basis is not Basis.NONE and claim.delta <= trial.delta


def _bound(name: str, report: Report) -> Measurement:
    """A lower bound, stored as the low end of an interval that has no upper end."""
    bound = report.epsilon_lower_bound
    shown = bound if math.isfinite(bound) else None
    return Measurement(f"{name}.epsilon_lower_bound", shown, shown, None, report.confidence)


def _members(released: Released, corpus: Corpus, experiment: Experiment, seed: int) -> Iterator[Measurement]:
    trainer = train_named(experiment.settings.classifier)

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
        return  # no pair of neighbours is known for what this guarantee reveals
    yield _bound("distinguish", report)
    if claim.basis is not Basis.NONE:
        yield Measurement.of("distinguish.refuted", float(report.refutes(claim)))
