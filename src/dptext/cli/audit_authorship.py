"""`dptext audit authorship`: who of the known authors wrote a privatized text?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dptext import _validate
from dptext.audits.inference.authorship import (
    AuthorshipReport,
    AuthorSplit,
    attribute_releases,
    release_split,
    split_authors,
)
from dptext.audits.membership.members import shared_texts
from dptext.cli.audit import REFUTED, progress
from dptext.cli.fit import check_label_field, fitted_on
from dptext.cli.privatize import fitted
from dptext.cli.progress import WatchedEncoder, say
from dptext.cli.utility import NOT_PRIVATE, read_back
from dptext.errors import ConfigError
from dptext.mechanism import Learns, Mechanism, Spec
from dptext.privacy.guarantee import Basis, Guarantee, Trust, Unit
from dptext.runs.streaming import require_guarantee
from dptext.sampling.randomness import seeded
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record, Release
from dptext.types import Json


@dataclass(frozen=True, slots=True)
class Authorship:
    """Settings of the attack.

    Attributes:
        training: texts of each author to train on.
        attacked: texts of each author to attack.
        bundle: texts that are attributed together.
        delta: of the bound on epsilon, and of the claim that it is held against.
        seed: of everything.
    """

    training: int
    attacked: int
    bundle: int
    delta: float
    seed: int

    def __post_init__(self) -> None:
        _validate.count(train_texts=self.training, attacked_texts=self.attacked, bundle=self.bundle)
        _validate.probability(delta=self.delta)
        if self.bundle > self.attacked:
            raise ConfigError(f"Expected --bundle {self.bundle} <= --attacked-texts {self.attacked}: make it smaller.")


def run(
    records: Path,
    chosen: Spec | Path | None,
    settings: Authorship,
    *,
    public: Path | None,
    released: Path | None,
    fields: Fields,
    without_guarantee: bool,
    as_json: bool,
) -> int:
    """Attribute what a mechanism makes of texts, or releases in a file, and print how often that succeeds.

    Returns:
        1 where the bound on epsilon refutes the mechanism's claim for replacing one document, else 0.

    Raises:
        ConfigError: options that do not fit together, or authors with too few texts.
        DataError: a record cannot be read.
        NoGuaranteeError: the mechanism guarantees nothing and nobody said that this is meant.
        MissingExtraError: a package is not installed.
    """
    _check(chosen, public, released, fields)
    own = list(read_records(records, fields))
    split = split_authors(own, training=settings.training, attacked=settings.attacked, seed=settings.seed)
    claim: Guarantee | None = None
    if chosen is None and released is not None:
        by_id = {release.id: release for release in read_back(released, own, labelled=False)}
        released_of = [[by_id[record.id] for record in side] for side in (split.attacked, split.training)]
        found = _attribute(split, *released_of, settings=settings)
    elif chosen is not None:
        known = [] if public is None else list(read_records(public, Fields(text=fields.text, label=fields.label)))
        if common := shared_texts(known, [*split.training, *split.attacked]):
            say(f"{common} of the texts are in --public, too: no mechanism was made to protect those.")
        mechanism = _mechanism(chosen, known, settings.seed, without_guarantee)
        check_label_field(mechanism.spec, fields.label, needed=mechanism.spec.traits.reads_labels)
        with progress("releases") as advance:
            both = release_split(mechanism, split, randomness=seeded(settings.seed), on_progress=advance)
        found = _attribute(split, *both, settings=settings)
        claim = _claim(mechanism, settings.delta, found)
    else:
        raise ConfigError("Expected a mechanism or --released FILE.")
    refuted = claim is not None and found.report.refutes(claim)
    if as_json:
        stated: dict[str, Json] = {
            "duplicates": split.duplicates,
            "claim": claim.to_dict() if claim else None,
            "refuted": refuted,
            "note": NOT_PRIVATE,
        }
        print(json.dumps({**found.to_dict(), **stated}, indent=2))
    else:
        print(found.to_markdown())
        print(_verdict(claim, refuted))
        print(f"{split.duplicates:,} duplicates removed first.")
    return REFUTED if refuted else 0


def _check(chosen: Spec | Path | None, public: Path | None, released: Path | None, fields: Fields) -> None:
    """The options, before anything is read."""
    if fields.author is None:
        raise ConfigError("Expected --author-field NAME: the attackers learn who wrote what.")
    if (chosen is None) == (released is None):
        raise ConfigError(
            "Expected one of --mechanism NAME, --spec FILE.toml, --model MODEL and --released FILE, the releases of "
            "all records in their order."
        )
    if chosen is None or isinstance(chosen, Path) or chosen.traits.learns is Learns.NOTHING:
        if public is not None:
            raise ConfigError("Expected --public with a mechanism that is to be fitted on it, or no --public.")
    elif chosen.traits.takes_private:
        raise ConfigError(
            f"Expected --model with a fitted one: {chosen.kind} is trained on private text, and here no text may be in "
            "the training that is attacked later."
        )
    elif public is None:
        raise ConfigError(f"Expected --public FILE: {chosen.kind} learns from public text. Or give --model MODEL.")
    if chosen is not None and not isinstance(chosen, Path):
        check_label_field(chosen, fields.label, needed=chosen.traits.reads_labels)


def _mechanism(chosen: Spec | Path, known: Sequence[Record], seed: int, voided: bool) -> Mechanism[str]:
    if isinstance(chosen, Path) or chosen.traits.learns is Learns.NOTHING:
        mechanism = fitted(chosen)
        require_guarantee(mechanism.spec, voided)
        return mechanism
    require_guarantee(chosen, voided)
    return fitted_on(chosen, public=known, seed=seed)


def _attribute(
    split: AuthorSplit,
    released: Sequence[Release[str]],
    training_released: Sequence[Release[str]],
    *,
    settings: Authorship,
) -> AuthorshipReport:
    from dptext.embeddings.sentence_encoder import load_sentence_encoder

    say(NOT_PRIVATE)
    return attribute_releases(
        split.training,
        split.attacked,
        released=released,
        training_released=training_released,
        embedder=WatchedEncoder(load_sentence_encoder()),
        bundle=settings.bundle,
        seed=settings.seed,
        delta=settings.delta,
        on_attacker=_trained,
    )


def _trained(done: int, total: int) -> None:
    say(f"attackers: {done} of {total} trained")


def _claim(mechanism: Mechanism[str], delta: float, found: AuthorshipReport) -> Guarantee | None:
    """What the mechanism guarantees for documents, where the bound on epsilon speaks of the same neighbours."""
    spec, trial = mechanism.spec, found.report
    if Unit.DOCUMENT not in spec.units:
        return None
    claim = spec.guarantee(Unit.DOCUMENT, delta)
    same = claim.meaning == (trial.unit, trial.relation, trial.metric) and not claim.reveals
    # Under central trust all releases hang on one model that was trained on private text: hits are not independent.
    local = claim.trust is Trust.LOCAL and claim.basis is not Basis.NONE
    return claim if same and local and claim.delta <= trial.delta else None


def _verdict(claim: Guarantee | None, refuted: bool) -> str:
    if claim is None:
        return "No claim for replacing one document by any other, at this delta, was there to be tried."
    stated = f"the claim of epsilon {claim.epsilon:.6g} for one document"
    return f"REFUTED: {stated} is false." if refuted else f"Not refuted: {stated} survives, which proves nothing more."
