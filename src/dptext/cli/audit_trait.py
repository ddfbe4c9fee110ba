"""`dptext audit trait`: from which of two sets does a redacted text come?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dptext import _validate
from dptext.audits.inference.sets import LINEAR, MLP, TFIDF, SetSplit, TrainAttacker, split_sets, standard_attackers
from dptext.audits.inference.trait import Releases, TraitReport, infer_trait_from_releases, release_sets
from dptext.audits.membership.members import shared_texts
from dptext.cli.audit import REFUTED, progress
from dptext.cli.fit import check_label_field, fitted_on
from dptext.cli.privatize import fitted
from dptext.cli.progress import WatchedEncoder, say
from dptext.cli.utility import NOT_PRIVATE, read_back
from dptext.errors import ConfigError
from dptext.mechanism import Learns, Mechanism, Spec
from dptext.runs.streaming import require_guarantee
from dptext.sampling.randomness import seeded
from dptext.text.files import Target
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record
from dptext.types import Json

#: Attackers by the name of --attacker; the transformer is slow.
ATTACKERS: Final = {"tfidf": TFIDF, "linear": LINEAR, "mlp": MLP}
TRANSFORMER: Final = "transformer"


@dataclass(frozen=True, slots=True)
class Trait:
    """Settings of the attack.

    Attributes:
        training: texts of each set to train on.
        attacked: texts of each set to attack.
        attackers: names of --attacker.
        epochs: of the transformer.
        top_layers: layers of the transformer that learn.
        delta: that epsilon is for.
        claim: epsilon of the two sets that is held against the attack, if any.
        seed: of everything.
    """

    training: int
    attacked: int
    attackers: tuple[str, ...]
    epochs: int
    top_layers: int
    delta: float
    claim: float | None
    seed: int

    def __post_init__(self) -> None:
        _validate.count(training=self.training, attacked=self.attacked, epochs=self.epochs, top_layers=self.top_layers)
        _validate.probability(delta=self.delta)
        if self.claim is not None:
            _validate.not_negative(claim=self.claim)
        unknown = [name for name in self.attackers if name not in {*ATTACKERS, TRANSFORMER}]
        if unknown or not self.attackers or len(set(self.attackers)) < len(self.attackers):
            raise ConfigError(
                f"Expected each --attacker once, of {', '.join((*ATTACKERS, TRANSFORMER))}, found {self.attackers!r}."
            )


@dataclass(frozen=True, slots=True)
class Sources:
    """Files: two sets, and what was or is to be made of them.

    Attributes:
        first, second: originals of the two sets.
        released: releases of all originals of both, in their order, instead of a mechanism.
        public: records that the mechanism is to be fitted on.
    """

    first: Path
    second: Path
    released: tuple[Path | None, Path | None]
    public: Path | None


def run(
    sources: Sources,
    chosen: Spec | Path | None,
    settings: Trait,
    *,
    fields: Fields,
    without_guarantee: bool,
    out: Target | None,
    as_json: bool,
) -> int:
    """Tell apart what a mechanism makes of two sets, or releases in files, and print how often that succeeds.

    Returns:
        1 where the attack refutes the epsilon of --claim for the two sets, else 0.

    Raises:
        ConfigError: options that do not fit together, or too few texts.
        DataError: a record cannot be read.
        NoGuaranteeError: the mechanism guarantees nothing and nobody said that this is meant.
        MissingExtraError: a package is not installed.
    """
    if (chosen is None) == (sources.released == (None, None)):
        raise ConfigError(
            "Expected one of --mechanism NAME, --spec FILE.toml, --model MODEL, and --released-a FILE with "
            "--released-b FILE, the releases of all records of A and of B in their order."
        )
    if chosen is None:
        if sources.public is not None or fields.label is not None:
            raise ConfigError("Expected --public and --label-field with a mechanism only.")
        sets = _sets(sources, fields)
        split = _split(sets, settings)
        released = _read(sources.released, sets, split)
    else:
        split, mechanism = _prepared(sources, chosen, settings, fields=fields, without_guarantee=without_guarantee)
        with progress("releases") as advance:
            released = release_sets(mechanism, split, randomness=seeded(settings.seed), on_progress=advance)
    found = _attack(split, released, settings)
    refuted = settings.claim is not None and found.refutes(settings.claim)
    stated: dict[str, Json] = {"claim": settings.claim, "refuted": refuted, "note": NOT_PRIVATE}
    data = json.dumps({**found.to_dict(), **stated}, indent=2)
    if out is not None:
        out.write(f"{data}\n".encode())
    if as_json:
        print(data)
    else:
        print(found.to_markdown())
        if settings.claim is not None:
            print(_verdict(settings.claim, settings.delta, refuted))
        print(f"{split.duplicates:,} duplicates removed first.")
    return REFUTED if refuted else 0


def _prepared(
    sources: Sources, chosen: Spec | Path, settings: Trait, *, fields: Fields, without_guarantee: bool
) -> tuple[SetSplit, Mechanism[str]]:
    """The split of the originals and the mechanism, which is fitted last: that may take long."""
    if isinstance(chosen, Path) or chosen.traits.learns is Learns.NOTHING:
        ready = fitted(chosen)
        if sources.public is not None:
            raise ConfigError("Expected --public with a mechanism that is to be fitted on it, or no --public.")
        return _checked_split(sources, ready.spec, settings, fields, without_guarantee), ready
    if chosen.traits.takes_private:
        raise ConfigError(
            f"Expected --model with a fitted one: {chosen.kind} is trained on private text, and here no text may be in "
            "the training that is attacked later."
        )
    if sources.public is None:
        raise ConfigError(f"Expected --public FILE: {chosen.kind} learns from public text. Or give --model MODEL.")
    if chosen.traits.learns_labels and fields.label is None:
        raise ConfigError(f"Expected --label-field NAME: {chosen.kind} learns from the labels of public text.")
    split = _checked_split(sources, chosen, settings, fields, without_guarantee)
    known = list(read_records(sources.public, Fields(text=fields.text, label=fields.label)))
    own = [record for sides in (split.training, split.attacked) for side in sides for record in side]
    if common := shared_texts(known, own):
        say(f"{common} of the texts are in --public, too: no mechanism was made to protect those.")
    return split, fitted_on(chosen, public=known, seed=settings.seed)


def _checked_split(sources: Sources, spec: Spec, settings: Trait, fields: Fields, without_guarantee: bool) -> SetSplit:
    if not spec.traits.learns_labels:
        check_label_field(spec, fields.label, needed=spec.traits.reads_labels)
    require_guarantee(spec, without_guarantee)
    own_label = fields.label if spec.traits.reads_labels else None
    return _split(_sets(sources, Fields(fields.text, label=own_label, author=fields.author)), settings)


def _sets(sources: Sources, fields: Fields) -> tuple[list[Record], list[Record]]:
    return list(read_records(sources.first, fields)), list(read_records(sources.second, fields))


def _split(sets: tuple[list[Record], list[Record]], settings: Trait) -> SetSplit:
    return split_sets(*sets, training=settings.training, attacked=settings.attacked, seed=settings.seed)


def _read(
    paths: tuple[Path | None, Path | None], sets: tuple[list[Record], list[Record]], split: SetSplit
) -> tuple[Releases, Releases]:
    """The releases of the attacked texts and of the training texts."""
    first, second = paths
    if first is None or second is None:
        raise ConfigError("Expected both --released-a FILE and --released-b FILE.")
    a, b = (
        {release.id: release for release in read_back(path, own, labelled=False)}
        for path, own in zip((first, second), sets, strict=True)
    )
    attacked, training = (
        ([a[record.id] for record in sides[0]], [b[record.id] for record in sides[1]])
        for sides in (split.attacked, split.training)
    )
    return attacked, training


def _attack(split: SetSplit, released: tuple[Releases, Releases], settings: Trait) -> TraitReport:
    from dptext.embeddings.sentence_encoder import load_sentence_encoder

    say(NOT_PRIVATE)
    attacked, training = released
    return infer_trait_from_releases(
        split,
        released=attacked,
        training_released=training,
        embedder=WatchedEncoder(load_sentence_encoder()),
        attackers=_attackers(settings),
        seed=settings.seed,
        delta=settings.delta,
        on_attacker=_trained,
    )


def _attackers(settings: Trait) -> dict[str, TrainAttacker]:
    known = standard_attackers()
    found = {ATTACKERS[name]: known[ATTACKERS[name]] for name in settings.attackers if name != TRANSFORMER}
    if TRANSFORMER in settings.attackers:
        from dptext.neural.classifiers.fine_tuned import FineTuning, train_transformer

        schedule = FineTuning(epochs=settings.epochs, top_layers=settings.top_layers)
        name = f"transformer, top layers {settings.top_layers}, epochs {settings.epochs}"
        found[name] = train_transformer(schedule, on_epoch=_epoch)
    return found


def _epoch(epoch: int, epochs: int, loss: float) -> None:
    say(f"transformer: epoch {epoch} of {epochs}, loss {loss:.3f}")


def _trained(done: int, total: int) -> None:
    say(f"attackers: {done} of {total} trained")


def _verdict(claim: float, delta: float, refuted: bool) -> str:
    stated = f"the claim of epsilon {claim:.6g} at delta {delta:g} for the two sets"
    return f"REFUTED: {stated} is false." if refuted else f"Not refuted: {stated} survives, which proves nothing more."


def named(attackers: Sequence[str] | None) -> tuple[str, ...]:
    """The attackers of --attacker; those that are quick by default."""
    return tuple(ATTACKERS) if not attackers else tuple(attackers)
