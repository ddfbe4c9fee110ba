"""`dptext audit membership`: was this record in the training data? Measured, and no verdict on a guarantee."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from dptext.audits.features import shared_texts
from dptext.audits.membership.attacks import PROXY, MembershipResult
from dptext.audits.membership.members import match_members, split_members
from dptext.audits.report import markdown_table
from dptext.cli import answers, options
from dptext.cli.answers import Printing, interval
from dptext.cli.audit.inference import check_public, made_ready
from dptext.cli.audit.membership_attacks import attack_classifier, attack_given, attack_model, reconstructing
from dptext.cli.chosen import Choice, Wanted, check_label_field, kinds
from dptext.cli.progress import say
from dptext.cli.utility.table import chosen_classifier
from dptext.errors import ConfigError
from dptext.mechanism import Learns
from dptext.runs.streaming import require_guarantee
from dptext.text.files import Target
from dptext.types import Json

ATTACKS: Final = ("shokri", "lira", "loss", "reconstruction")


@options.spread
def membership(
    *,
    records: Annotated[
        Path,
        options.file_argument(
            metavar="RECORDS", help="Half become members, half non-members; with --others all are members."
        ),
    ],
    wanted: Wanted,
    public: options.PublicOption = None,
    others: Annotated[
        Path | None,
        options.file_option(
            help="Records that --model was not trained on, for --attack reconstruction of the model itself."
        ),
    ] = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    attack: Annotated[
        str, Option(help="shokri, lira, loss; or reconstruction, of the mechanism's own model.")
    ] = "shokri",
    classifier: options.ClassifierOption = "tfidf",
    shadows: Annotated[int, Option(help="Shadow models of lira.")] = 16,
    seed: options.SeedOption = None,
    figure: Annotated[Path | None, options.output_option(help="SVG of the ROC curves, on log scales.")] = None,
    force: options.ForceOption = False,
    without_guarantee: options.WithoutGuaranteeOption = False,
    printing: Printing,
) -> None:
    """Attack a classifier trained on records or on what a mechanism makes of them, or the mechanism's own model.

    With --others the model is given: RECORDS are its members, and the others are not.
    """
    choice = wanted.chosen_if_any()
    if attack not in ATTACKS:
        raise ConfigError(f"Expected --attack {attack!r} to be one of {', '.join(ATTACKS)}.")
    chosen_classifier(classifier)
    seed = options.seed_of(seed)
    svg = options.target_of(figure, records, wanted.spec, wanted.model, public, others, force=force)
    _check(choice, attack, public, others, label_field)
    if choice is not None:
        require_guarantee(choice.spec, without_guarantee)
    given = None
    if attack == "reconstruction" and choice is not None and choice.model is not None:
        given = choice.fitted()
        reconstructing(given)
        check_label_field(given.spec, label_field, needed=given.spec.traits.reads_labels)
    known = layout.read_public(public, label=label_field)
    own = layout.read(records, label=label_field)
    split = (
        split_members(own, seed=seed)
        if others is None
        else match_members(own, layout.read(others, label=label_field), seed=seed)
    )
    if common := shared_texts(known, [*split.members, *split.non_members]):
        say(f"{common} of the records have a text that is in --public, too: no mechanism was made to protect those.")
    if given is not None:
        attacked = {"": attack_given(given, split, seed)}
    elif attack == "reconstruction" and choice is not None:
        attacked = {"": attack_model(choice.spec, split, known, seed)}
    else:
        behind = None if choice is None else made_ready(choice, known, seed)
        attacked = attack_classifier(split, behind, attack=attack, classifier=classifier, seed=seed, shadows=shadows)
    if svg is not None:
        _draw(attacked, svg)
    name, best = max(attacked.items(), key=lambda item: item[1].main.auc.low)
    data: dict[str, Json] = {
        "attack": attack,
        "classifier": None if attack == "reconstruction" else classifier,
        "duplicates": split.duplicates,
        "left_over": split.left_over,
        "note": PROXY,
        "results": {name or attack: found.to_dict() for name, found in attacked.items()},
    }
    removed = (
        f"{split.duplicates:,} duplicates removed first, {split.left_over:,} records left out to make the sides equal."
    )
    tried = {f"attack {name}".strip(): found.main for name, found in attacked.items()}
    tried |= {"control": best.control, **{attack.name: attack for attack in best.baselines}}
    rows = [[name, interval(attack.auc)] for name, attack in tried.items()]
    more = [*(found.explain() for found in attacked.values()), removed]
    screen = markdown_table(["who looks", "AUC, interval at 95%"], rows)
    printing.answer(answers.membership(best, name), screen, more, data)


def _check(
    choice: Choice | None, attack: str, public: Path | None, others: Path | None, label_field: str | None
) -> None:
    is_model = choice is not None and choice.model is not None
    spec = None if choice is None or is_model else choice.spec
    given = attack == "reconstruction" and is_model
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


def _draw(attacked: Mapping[str, MembershipResult], figure: Target) -> None:
    from dptext.report import roc_figure

    first = next(iter(attacked.values()))
    shown = {f"attack {name}".strip(): found.main.roc for name, found in attacked.items()}
    shown["control"] = first.control.roc
    shown |= {attack.name: attack.roc for attack in first.baselines[: 4 - len(shown)]}
    roc_figure(shown, figure)
    say(f"Written: {figure.path}")
