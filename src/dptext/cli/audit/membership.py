"""`dptext audit membership`: guess whether a record was in the training data. There is no verdict on a guarantee."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np

from dptext._wording import markdown_table
from dptext.audits.membership import members
from dptext.audits.membership.attacks import PROXY, Measure, MembershipResult, from_scores, shokri
from dptext.audits.membership.lira import lira
from dptext.audits.membership.members import MemberSplit, Scorer, Trainer, Transform
from dptext.audits.subjects import METHODS
from dptext.cli import answers, options
from dptext.cli.answers import Printing, interval
from dptext.cli.audit import refuse_ignored
from dptext.cli.audit.attacked import check_form, check_public, made_ready, public_records
from dptext.cli.chosen import Choice, MechanismOptions, as_public, check_label_field, fitted_on, kinds
from dptext.cli.grouped import measures
from dptext.cli.terminal import counted, say, waiting
from dptext.cli.utility import chosen_classifier
from dptext.errors import ConfigError
from dptext.mechanism import HasReconstruction, Learns, Mechanism, Spec
from dptext.runs.streaming import require_guarantee
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from dptext.types import Floats, Json
from dptext.utility.classification import train_named

_MODEL_ITSELF: Final = "The model itself was attacked, not what it releases."
_UNTRAINED: Final = (
    "There is no trained control: permuted membership tests the counting alone. The attacker that does not look at the "
    "model shows how the two files differ. No number shows whether one file is easier to write for any model."
)


def reconstructing(mechanism: Mechanism[str]) -> HasReconstruction:
    if not isinstance(mechanism, HasReconstruction):
        raise ConfigError(
            f"Expected a mechanism with reconstruction_losses(records): {mechanism.spec.kind} has none. "
            f"Attack a classifier behind it: --attack shokri, lira or loss.{METHODS}"
        )
    return mechanism


def attack_classifier(
    split: MemberSplit, mechanism: Mechanism[str] | None, *, attack: str, classifier: str, seed: int, shadows: int = 0
) -> dict[str, MembershipResult]:
    """Attack a classifier that is trained on records, or on a mechanism's releases of them, by shokri, lira or loss.

    The shadow models are classifiers of the same kind; lira trains `shadows` of them. Results are returned by name. A
    single result has an empty name.
    """
    named = train_named(chosen_classifier(classifier))
    # In the attack of shokri, the attacker trains its own models on the other half of the records.
    target = members.split_members(split.members, seed=seed + 1) if attack == "shokri" else split
    members.check_members(target.members, target.non_members)
    transform = None if mechanism is None else lambda some, number: mechanism.privatize(some, seeded(number))

    def train(texts: Sequence[str], labels: Sequence[str], number: int) -> Scorer:
        return named(texts, labels, seed=number)

    say(f"attack {attack}: {len(target.members):,} members, as many others; classifier {classifier}")
    with waiting("Training the model that is attacked."):
        model = members.train_on(target.members, train=train, transform=transform, seed=seed)
    if attack == "loss":
        with waiting("Training the control."):
            return {"": _loss(model, target, train, transform, seed)}
    with counted(attack, "models") as tell:
        shared: dict[str, Any] = {"train": train, "seed": seed, "transform": transform, "on_progress": tell}
        if attack == "shokri":
            own = members.split_members(split.non_members, seed=seed + 2)
            shared |= {"shadow_train": own.members, "shadow_out": own.non_members}
            return {"": shokri(model, target.members, target.non_members, **shared)}
        if attack == "lira":
            both = lira(model, target.members, target.non_members, shadows=shadows, **shared)
            return {"online": both.online, "offline": both.offline}
    raise ConfigError(f"Expected the attack to be shokri, lira or loss, found {attack!r}.")


def _loss(
    model: Scorer, target: MemberSplit, train: Trainer, transform: Transform | None, seed: int
) -> MembershipResult:
    """Attack by the loss threshold of Yeom et al. 2018."""
    rng, sure = np.random.default_rng(seed), members.logit_confidence
    both = members.halves_of_both(target.members, target.non_members, rng)
    control = members.train_on(both, train=train, transform=transform, seed=int(rng.integers(2**31)))
    scores = [(sure(each, target.members), sure(each, target.non_members)) for each in (model, control)]
    return _found("loss threshold", target, scores, seed, [PROXY])


def attack_model(spec: Spec, split: MemberSplit, public: list[Record], seed: int) -> MembershipResult:
    """Attack a model trained on the members by its reconstruction loss. The control trains on half of each side."""
    both = members.halves_of_both(split.members, split.non_members, np.random.default_rng(seed))
    scores = []
    for title, texts in (("training on the members", split.members), ("training the control", both)):
        model = reconstructing(fitted_on(spec, public=public, private=texts, seed=seed, title=title))
        scores.append(_scores(model, split))
    return _found(f"reconstruction loss of {spec.kind}", split, scores, seed, [_MODEL_ITSELF, PROXY])


def attack_given(mechanism: Mechanism[str], split: MemberSplit, seed: int) -> MembershipResult:
    """Attack a fitted model by its reconstruction loss. Nothing is trained, so there is no control."""
    taken = "The audit assumes that RECORDS trained the model: with other records the attack finds nothing."
    name = f"reconstruction loss of the given {mechanism.spec.kind}"
    scores = [_scores(reconstructing(mechanism), split)]
    return _found(name, split, scores, seed, [_MODEL_ITSELF, taken, _UNTRAINED, PROXY])


def _found(
    name: str, split: MemberSplit, scores: Sequence[tuple[Floats, Floats]], seed: int, notes: list[str]
) -> MembershipResult:
    control, measure = scores[1] if len(scores) > 1 else None, Measure(seed=seed)
    plain = {"no look at the model": members.blind_scores(split.members, split.non_members, seed=seed)}
    return from_scores(*scores[0], name=name, control=control, baselines=plain, measure=measure, notes=notes)


def _scores(model: HasReconstruction, split: MemberSplit) -> tuple[Floats, Floats]:
    return -model.reconstruction_losses(split.members), -model.reconstruction_losses(split.non_members)


ATTACKS: Final = ("shokri", "lira", "loss", "reconstruction")


def membership(
    *,
    records: Annotated[
        Path,
        options.file_argument(
            metavar="RECORDS", help="Half of the records become members. With --others all are members."
        ),
    ],
    wanted: MechanismOptions,
    epsilon: options.EpsilonOption = None,
    public: options.PublicOption = None,
    others: Annotated[
        Path | None,
        options.file_option(help="Records that --model was not trained on, for --attack reconstruction."),
    ] = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    attack: Annotated[
        str,
        measures(help="The attack: shokri, lira or loss of a classifier, or reconstruction of the mechanism's model."),
    ] = "shokri",
    classifier: Annotated[
        str | None,
        measures(help="The attacked classifier: tfidf (linear, quick; the default) or bilstm (that of ADePT's paper)."),
    ] = None,
    shadows: Annotated[int | None, measures(help="Number of shadow models of lira. Default: 16.")] = None,
    seed: options.SeedOption = None,
    figure: Annotated[Path | None, options.output_option(help="SVG of the ROC curves, on log scales.")] = None,
    force: options.ForceOption = False,
    without_guarantee: options.WithoutGuaranteeOption = False,
    printing: Printing,
) -> None:
    """Attack a classifier trained on records or on a mechanism's releases of them, or the mechanism's own model.

    With --others, the model is given. RECORDS are its training data; the other records are not.
    """
    choice = wanted.chosen_if_any(epsilon=epsilon)
    if attack not in ATTACKS:
        raise ConfigError(f"Expected --attack {attack!r} to be one of {', '.join(ATTACKS)}.")
    if attack == "reconstruction":
        refuse_ignored(f"--attack {attack}", classifier=classifier)
    if attack != "lira":
        refuse_ignored(f"--attack {attack}", shadows=shadows)
    classifier, shadows = classifier or "tfidf", 16 if shadows is None else shadows
    chosen_classifier(classifier)
    seed = options.seed_of(seed)
    svg = options.target_of(figure, records, wanted.spec, wanted.model, public, others, force=force)
    check_form(public, layout)
    _check(choice, attack, public, others, label_field)
    if choice is not None:
        require_guarantee(choice.spec, without_guarantee)
    given = None
    if attack == "reconstruction" and choice is not None and choice.model is not None:
        given = choice.fitted()
        reconstructing(given)
        check_label_field(given.spec, label_field, needed=given.spec.traits.reads_labels)
    own = as_public(layout.read(records, label=label_field), choice)
    if others is None:
        split = members.split_members(own, seed=seed)
    else:
        split = members.match_members(own, as_public(layout.read(others, label=label_field), choice), seed=seed)
    known = public_records(public, layout, label_field, [*split.members, *split.non_members])
    if given is not None:
        attacked = {"": attack_given(given, split, seed)}
    elif attack == "reconstruction" and choice is not None:
        attacked = {"": attack_model(choice.spec, split, known, seed)}
    else:
        behind = None if choice is None else made_ready(choice, known, seed)
        attacked = attack_classifier(split, behind, attack=attack, classifier=classifier, seed=seed, shadows=shadows)
    name, best = max(attacked.items(), key=lambda item: item[1].main.auc.low)
    data: dict[str, Json] = {"attack": attack, "classifier": None if attack == "reconstruction" else classifier}
    data |= {"duplicates": split.duplicates, "left_over": split.left_over, "note": PROXY}
    data["results"] = {name or attack: found.to_dict() for name, found in attacked.items()}
    removed = f"{split.duplicates:,} duplicates removed first, {split.left_over:,} records left out for equal sides."
    tried = {f"attack {name}".strip(): found.main for name, found in attacked.items()}
    tried |= {"control": best.control, **{attack.name: attack for attack in best.baselines}}
    if svg is not None:
        from dptext.audits.figures import roc_figure

        roc_figure({name: attack.roc for name, attack in itertools.islice(tried.items(), 4)}, svg)
        say(f"Written: {svg.path}")
    rows = [[name, interval(attack.auc)] for name, attack in tried.items()]
    more = [*(found.explain() for found in attacked.values()), removed]
    screen = markdown_table(["who looks", "AUC, interval at 95%"], rows)
    printing.answer(answers.membership(best, name), screen, more, data)


def _check(
    choice: Choice | None, attack: str, public: Path | None, others: Path | None, label_field: str | None
) -> None:
    is_model = choice is not None and choice.model is not None
    spec = None if choice is None or is_model else choice.spec
    if others is not None and not (attack == "reconstruction" and is_model):
        raise ConfigError("Expected --others with --attack reconstruction and --model MODEL, or no --others.")
    if attack == "reconstruction" and is_model:
        if others is None:
            raise ConfigError(
                "Expected --others FILE with --attack reconstruction and --model MODEL: records that the model was "
                "not trained on, beside RECORDS, on which it was."
            )
        if public is not None:
            raise ConfigError("Expected no --public with --model: it is fitted.")
    elif attack == "reconstruction":
        if spec is None or not spec.traits.takes_private:
            able = kinds(lambda traits: traits.takes_private)
            raise ConfigError(
                f"Expected --mechanism with --attack reconstruction to be one of {able}: they are trained on private "
                "text, here on the members. A fitted model is attacked with --model MODEL --others FILE."
            )
        if public is None and spec.traits.learns is Learns.PRIVATE:
            raise ConfigError(f"Expected --public FILE: {spec.kind} learns from public text first.")
        check_label_field(spec, label_field, needed=spec.traits.reads_labels)
    elif label_field is None:
        raise ConfigError("Expected --label-field NAME: the attacked classifier learns labels.")
    elif spec is not None and spec.traits.takes_private:
        raise ConfigError(
            f"Expected --attack reconstruction, or --model with a fitted one: {spec.kind} is trained on the records "
            "that it rewrites, so that the control and every shadow would need a model of their own."
        )
    else:
        check_public(choice, public)
