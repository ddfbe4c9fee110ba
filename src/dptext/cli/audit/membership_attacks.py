"""Membership attacks on a classifier behind a mechanism, and on the model of a mechanism itself."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from dptext.audits.membership.attacks import PROXY, Measure, MembershipResult, from_scores, shokri
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
    split_members,
    train_on,
)
from dptext.cli.chosen import fitted_on
from dptext.cli.progress import counted, say
from dptext.cli.utility.table import chosen_classifier
from dptext.errors import ConfigError
from dptext.mechanism import HasReconstruction, Mechanism, Spec
from dptext.sampling.source import seeded
from dptext.text.records import Record, Release
from dptext.types import Floats
from dptext.utility.classification import train_named

_MODEL_ITSELF: Final = "The model itself was attacked, not what it releases."
_UNTRAINED: Final = (
    "There is no trained control: permuted membership tests the counting alone. What the two files differ in shows in "
    "the attacker that does not look; that one file is easier to write for any model shows in no number here."
)


def reconstructing(mechanism: Mechanism[str]) -> HasReconstruction:
    """The mechanism, which has reconstruction losses."""
    if not isinstance(mechanism, HasReconstruction):
        raise ConfigError(
            f"Expected a mechanism with reconstruction losses: {mechanism.spec.kind} has none. Attack a classifier "
            "behind it: --attack shokri, lira or loss."
        )
    return mechanism


def attack_classifier(
    split: MemberSplit, mechanism: Mechanism[str] | None, *, attack: str, classifier: str, seed: int, shadows: int = 0
) -> dict[str, MembershipResult]:
    """Attack a classifier that is trained on records, or on what a mechanism makes of them; by shokri, lira or loss.

    The shadow models, of which lira trains `shadows`, are classifiers of the same name. The results go by name; the
    name of the only one is empty.
    """
    named = train_named(chosen_classifier(classifier))
    # In the attack of shokri the attacker has the other half of the records for models of its own.
    target = split_members(split.members, seed=seed + 1) if attack == "shokri" else split
    check_members(target.members, target.non_members)
    transform = None if mechanism is None else partial(_privatized, mechanism)

    def train(texts: Sequence[str], labels: Sequence[str], number: int) -> Scorer:
        return named(texts, labels, seed=number)

    say(f"attack {attack}: {len(target.members):,} members, as many others; classifier {classifier}")
    model = train_on(target.members, train=train, transform=transform, seed=seed)
    with counted(attack, "models") as tell:
        shared: dict[str, Any] = {"train": train, "seed": seed, "transform": transform, "on_progress": tell}
        match attack:
            case "shokri":
                own = split_members(split.non_members, seed=seed + 2)
                shared |= {"shadow_train": own.members, "shadow_out": own.non_members}
                return {"": shokri(model, target.members, target.non_members, **shared)}
            case "lira":
                both = lira(model, target.members, target.non_members, shadows=shadows, **shared)
                return {"online": both.online, "offline": both.offline}
            case _:
                return {"": _loss(model, target, train, transform, seed)}


def _privatized(mechanism: Mechanism[str], records: Sequence[Record], seed: int) -> Sequence[Release[str]]:
    return mechanism.privatize(records, seeded(seed))


def _loss(
    model: Scorer, target: MemberSplit, train: Trainer, transform: Transform | None, seed: int
) -> MembershipResult:
    """The loss threshold of Yeom et al. 2018."""
    rng = np.random.default_rng(seed)
    both = halves_of_both(target.members, target.non_members, rng)
    control = train_on(both, train=train, transform=transform, seed=int(rng.integers(2**31)))
    scores = [(logit_confidence(m, target.members), logit_confidence(m, target.non_members)) for m in (model, control)]
    return _found("loss threshold", target, scores, seed, [PROXY])


def attack_model(spec: Spec, split: MemberSplit, public: list[Record], seed: int) -> MembershipResult:
    """Reconstruction loss as the score, of a model trained on the members; the control is trained on half of both."""
    both = halves_of_both(split.members, split.non_members, np.random.default_rng(seed))
    scores = []
    for title, texts in (("training on the members", split.members), ("training the control", both)):
        model = reconstructing(fitted_on(spec, public=public, private=texts, seed=seed, title=title))
        scores.append(_scores(model, split))
    return _found(f"reconstruction loss of {spec.kind}", split, scores, seed, [_MODEL_ITSELF, PROXY])


def attack_given(mechanism: Mechanism[str], split: MemberSplit, seed: int) -> MembershipResult:
    """Reconstruction loss of a fitted model as the score. Nothing is trained, and so there is no control."""
    taken = "That RECORDS trained it is taken from you: with other records the attack finds nothing."
    name = f"reconstruction loss of the given {mechanism.spec.kind}"
    scores = [_scores(reconstructing(mechanism), split)]
    return _found(name, split, scores, seed, [_MODEL_ITSELF, taken, _UNTRAINED, PROXY])


def _found(
    name: str, split: MemberSplit, scores: Sequence[tuple[Floats, Floats]], seed: int, notes: list[str]
) -> MembershipResult:
    """The result by the scores of the attack, and of a trained control where there is one."""
    return from_scores(
        *scores[0],
        name=name,
        control=scores[1] if len(scores) > 1 else None,
        baselines={"no look at the model": blind_scores(split.members, split.non_members, seed=seed)},
        measure=Measure(seed=seed),
        notes=notes,
    )


def _scores(model: HasReconstruction, split: MemberSplit) -> tuple[Floats, Floats]:
    """The scores of members and of others, the higher the more like a member."""
    return -model.reconstruction_losses(split.members), -model.reconstruction_losses(split.non_members)
