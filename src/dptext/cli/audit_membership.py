"""`dptext audit membership`: was this record in the training data? Measured, and no verdict on a guarantee."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np

from dptext.audits.membership.attacks import PROXY, Attack, Measure, MembershipResult, from_scores, shokri
from dptext.audits.membership.lira import lira
from dptext.audits.membership.members import (
    MemberSplit,
    Scorer,
    Trainer,
    Transform,
    blind_scores,
    check_members,
    halves_of_both,
    logit_confidence,
    match_members,
    shared_texts,
    split_members,
    train_on,
)
from dptext.cli.audit import progress
from dptext.cli.fit import check_label_field, fitted_on, kinds
from dptext.cli.privatize import fitted
from dptext.cli.progress import say
from dptext.cli.utility import chosen_classifier
from dptext.errors import ConfigError
from dptext.mechanism import Learns, Mechanism, Spec
from dptext.runs.streaming import require_guarantee
from dptext.sampling.randomness import seeded
from dptext.text.files import Target
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record
from dptext.types import Floats, Json
from dptext.utility.classification import train_named

_UNTRAINED: Final = (
    "There is no trained control: permuted membership tests the counting alone. What the two files differ in shows in "
    "the attacker that does not look; that one file is easier to write for any model shows in no number here."
)
ATTACKS: Final = ("shokri", "lira", "loss", "reconstruction")


@runtime_checkable
class Reconstructs(Protocol):
    """A mechanism that can say how well its auto-encoder writes a record."""

    def reconstruction_losses(self, records: Sequence[Record]) -> Floats:
        """Loss per token `(n,)`."""
        ...


@dataclass(frozen=True, slots=True)
class Membership:
    """Settings of one attack.

    Attributes:
        attack: one of `ATTACKS`.
        classifier: what is attacked, and what shadows are.
        shadows: of lira.
        seed: of everything.
    """

    attack: str
    classifier: str
    shadows: int
    seed: int

    def __post_init__(self) -> None:
        if self.attack not in ATTACKS:
            raise ConfigError(f"Expected --attack {self.attack!r} to be one of {', '.join(ATTACKS)}.")
        chosen_classifier(self.classifier)


def run(
    records: Path,
    chosen: Spec | Path | None,
    settings: Membership,
    *,
    public: Path | None,
    others: Path | None,
    fields: Fields,
    figure: Target | None,
    without_guarantee: bool,
    as_json: bool,
) -> None:
    """Attack a classifier trained on records or on what a mechanism makes of them, or the mechanism's own model.

    With others the model is given, the records are its members and the others are not.

    Raises:
        ConfigError: options that do not fit together, too few records, or records without labels.
        DataError: a record cannot be read.
        NoGuaranteeError: the mechanism guarantees nothing and nobody said that this is meant.
        MissingExtraError: a package is not installed.
    """
    _check(chosen, settings, public, others, fields)
    given = chosen if others is not None and isinstance(chosen, Path) else None
    model = None if given is None else _given_model(given, fields, without_guarantee)
    known = [] if public is None else list(read_records(public, fields))
    split = (
        split_members(read_records(records, fields), seed=settings.seed)
        if others is None
        else match_members(read_records(records, fields), read_records(others, fields), seed=settings.seed)
    )
    if common := shared_texts(known, [*split.members, *split.non_members]):
        say(f"{common} of the records have a text that is in --public, too: no mechanism was made to protect those.")
    attacked: dict[str, MembershipResult]
    if model is not None:
        attacked = {"": attack_given(model, split, settings.seed)}
    elif settings.attack == "reconstruction" and chosen is not None and not isinstance(chosen, Path):
        attacked = {"": attack_model(chosen, split, known, settings.seed, without_guarantee)}
    else:
        attacked = attack_classifier(split, _mechanism(chosen, known, settings, without_guarantee), settings)
    if figure is not None:
        _draw(attacked, figure)
    if as_json:
        data: dict[str, Json] = {
            "attack": settings.attack,
            "classifier": None if settings.attack == "reconstruction" else settings.classifier,
            "duplicates": split.duplicates,
            "left_over": split.left_over,
            "note": PROXY,
            "results": {name or settings.attack: found.to_dict() for name, found in attacked.items()},
        }
        print(json.dumps(data, indent=2))
        return
    removed = (
        f"{split.duplicates:,} duplicates removed first, {split.left_over:,} records left out to make the sides equal."
    )
    print("\n\n".join([*(found.explain() for found in attacked.values()), removed]))


def _check(
    chosen: Spec | Path | None, settings: Membership, public: Path | None, others: Path | None, fields: Fields
) -> None:
    """The options, before anything is read."""
    spec = None if isinstance(chosen, Path) else chosen
    given = settings.attack == "reconstruction" and isinstance(chosen, Path)
    if others is not None and not given:
        raise ConfigError("Expected --others with --attack reconstruction and --model MODEL, or no --others.")
    if given:
        if others is None:
            raise ConfigError(
                "Expected --others FILE with --attack reconstruction and --model MODEL: records that the model was "
                "not trained on, beside RECORDS, on which it was."
            )
        if public is not None:
            raise ConfigError("Expected no --public with --model: it is fitted.")
        return
    if settings.attack == "reconstruction":
        if spec is None or not spec.traits.takes_private:
            able = kinds(lambda traits: traits.takes_private)
            raise ConfigError(
                f"Expected --mechanism with --attack reconstruction to be one of {able}: they are trained on private "
                "text, here on the members. A fitted model is attacked with --model MODEL --others FILE."
            )
        if public is None and spec.traits.learns is Learns.PRIVATE:
            raise ConfigError(f"Expected --public FILE: {spec.kind} learns from public text first.")
        check_label_field(spec, fields.label, needed=spec.traits.reads_labels)
        return
    if fields.label is None:
        raise ConfigError("Expected --label-field NAME: the attacked classifier learns labels.")
    if spec is not None and spec.traits.takes_private:
        raise ConfigError(
            f"Expected --attack reconstruction, or --model with a fitted one: {spec.kind} is trained on the records "
            "that it rewrites, so that the control and every shadow would need a model of their own."
        )
    if spec is None or spec.traits.learns is Learns.NOTHING:
        if public is not None:
            raise ConfigError("Expected --public with a mechanism that is to be fitted on it, or no --public.")
    elif public is None:
        raise ConfigError(f"Expected --public FILE: {spec.kind} learns from public text. Or give --model MODEL.")


def _given_model(folder: Path, fields: Fields, voided: bool) -> Mechanism[str]:
    """The model that is attacked itself, checked before any record is read."""
    mechanism = fitted(folder)
    require_guarantee(mechanism.spec, voided)
    _losses(mechanism)
    check_label_field(mechanism.spec, fields.label, needed=mechanism.spec.traits.reads_labels)
    return mechanism


def _losses(mechanism: Mechanism[str]) -> Callable[[Sequence[Record]], Floats]:
    if not isinstance(mechanism, Reconstructs):
        raise ConfigError(
            f"Expected a mechanism with reconstruction losses: {mechanism.spec.kind} has none. Attack a classifier "
            "behind it: --attack shokri, lira or loss."
        )
    return mechanism.reconstruction_losses


def _mechanism(
    chosen: Spec | Path | None, known: list[Record], settings: Membership, voided: bool
) -> Mechanism[str] | None:
    """What the training texts of the classifiers go through."""
    if chosen is None:
        return None
    if isinstance(chosen, Path) or chosen.traits.learns is Learns.NOTHING:
        mechanism = fitted(chosen)
        require_guarantee(mechanism.spec, voided)
        return mechanism
    require_guarantee(chosen, voided)
    return fitted_on(chosen, public=known, seed=settings.seed)


def _target(split: MemberSplit, settings: Membership) -> MemberSplit:
    """Members and non-members to attack; the attacker of shokri has the other half of the records for its own."""
    return split if settings.attack != "shokri" else split_members(split.members, seed=settings.seed + 1)


def attack_classifier(
    split: MemberSplit, mechanism: Mechanism[str] | None, settings: Membership
) -> dict[str, MembershipResult]:
    """The results of an attack on a classifier, by name."""
    named, seed = train_named(chosen_classifier(settings.classifier)), settings.seed
    target = _target(split, settings)
    check_members(target.members, target.non_members)
    transform = None if mechanism is None else _transform(mechanism)

    def train(texts: Sequence[str], labels: Sequence[str], number: int) -> Scorer:
        return named(texts, labels, seed=number)

    say(f"attack {settings.attack}: {len(target.members):,} members, as many others; classifier {settings.classifier}")
    model = train_on(target.members, train=train, transform=transform, seed=seed)
    with progress(settings.attack) as advance:
        match settings.attack:
            case "shokri":
                own = split_members(split.non_members, seed=seed + 2)
                found = shokri(
                    model,
                    target.members,
                    target.non_members,
                    shadow_train=own.members,
                    shadow_out=own.non_members,
                    train=train,
                    seed=seed,
                    transform=transform,
                    on_progress=advance,
                )
                return {"": found}
            case "lira":
                both = lira(
                    model,
                    target.members,
                    target.non_members,
                    train=train,
                    seed=seed,
                    shadows=settings.shadows,
                    transform=transform,
                    on_progress=advance,
                )
                return {"online": both.online, "offline": both.offline}
            case _:
                return {"": _loss(model, target, train, transform, seed)}


def _transform(mechanism: Mechanism[str]) -> Transform:
    privatize = mechanism.privatize
    return lambda records, seed: privatize(records, seeded(seed))


def _loss(
    model: Scorer, target: MemberSplit, train: Trainer, transform: Transform | None, seed: int
) -> MembershipResult:
    """The loss threshold of Yeom et al. 2018."""
    rng = np.random.default_rng(seed)
    both = halves_of_both(target.members, target.non_members, rng)
    control = train_on(both, train=train, transform=transform, seed=int(rng.integers(2**31)))
    return from_scores(
        logit_confidence(model, target.members),
        logit_confidence(model, target.non_members),
        name="loss threshold",
        control=(logit_confidence(control, target.members), logit_confidence(control, target.non_members)),
        baselines={"no look at the model": blind_scores(target.members, target.non_members, seed=seed)},
        measure=Measure(seed=seed),
        notes=[PROXY],
    )


def attack_model(
    spec: Spec, split: MemberSplit, public: list[Record], seed: int, without_guarantee: bool
) -> MembershipResult:
    """Reconstruction loss as the score, by a model trained on the members; the control's saw half of both."""
    require_guarantee(spec, without_guarantee)
    both = halves_of_both(split.members, split.non_members, np.random.default_rng(seed))
    scores = []
    for title, texts in (("training on the members", split.members), ("training the control", both)):
        mechanism = fitted_on(spec, public=public, private=texts, seed=seed, title=title)
        losses = _losses(mechanism)
        scores.append((-losses(split.members), -losses(split.non_members)))
    return from_scores(
        *scores[0],
        name=f"reconstruction loss of {spec.kind}",
        control=scores[1],
        baselines={"no look at the model": blind_scores(split.members, split.non_members, seed=seed)},
        measure=Measure(seed=seed),
        notes=["The model itself was attacked, not what it releases.", PROXY],
    )


def attack_given(mechanism: Mechanism[str], split: MemberSplit, seed: int) -> MembershipResult:
    """Reconstruction loss of a fitted model as the score; nothing is trained, so that no control is either."""
    losses = _losses(mechanism)
    return from_scores(
        -losses(split.members),
        -losses(split.non_members),
        name=f"reconstruction loss of the given {mechanism.spec.kind}",
        baselines={"no look at the model": blind_scores(split.members, split.non_members, seed=seed)},
        measure=Measure(seed=seed),
        notes=[
            "The model itself was attacked, not what it releases.",
            "That RECORDS trained it is taken from you: with other records the attack finds nothing.",
            _UNTRAINED,
            PROXY,
        ],
    )


def _draw(attacked: Mapping[str, MembershipResult], figure: Target) -> None:
    from dptext.report import roc_figure

    first = next(iter(attacked.values()))
    shown: dict[str, Attack] = {" ".join(["attack", name]).strip(): found.main for name, found in attacked.items()}
    shown["control"] = first.control
    for attack in first.baselines[: 4 - len(shown)]:
        shown[attack.name] = attack
    roc_figure({name: attack.roc for name, attack in shown.items()}, figure)
    say(f"Written: {figure.path}")
