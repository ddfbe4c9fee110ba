"""`dptext audit authorship`: guess who wrote a privatized text."""

from pathlib import Path
from typing import Annotated, Any

from dptext import _validate
from dptext._wording import NOT_PRIVATE
from dptext.audits.inference.authorship import attribute_releases, release_split, split_authors
from dptext.audits.inference.findings import AuthorshipReport
from dptext.audits.report import is_about
from dptext.cli import answers, options
from dptext.cli.answers import Printing
from dptext.cli.audit import EXIT_REFUTED
from dptext.cli.audit.attacked import (
    check_form,
    check_options,
    made_ready,
    own_label,
    public_records,
    say_trained,
    show_attacks,
)
from dptext.cli.chosen import MechanismOptions, as_public, load_encoder
from dptext.cli.grouped import measures
from dptext.cli.terminal import counted, say
from dptext.cli.utility import read_back
from dptext.errors import ConfigError
from dptext.mechanism import Spec
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.sampling.randomness import seeded
from dptext.types import Json


def authorship(
    *,
    records: Annotated[
        Path, options.records_argument(metavar="RECORDS", help="Texts of known authors, several by each.")
    ],
    wanted: MechanismOptions,
    epsilon: options.EpsilonOption = None,
    public: options.PublicOption = None,
    released: Annotated[
        Path | None, options.records_option(help="Releases of all RECORDS in their order, instead of a mechanism.")
    ] = None,
    layout: options.Layout,
    author_field: options.AuthorFieldOption = None,
    label_field: options.LabelFieldOption = None,
    train_texts: Annotated[int, measures(help="Texts of each author to learn from.")] = 20,
    attacked_texts: Annotated[int, measures(help="Texts of each author to attack.")] = 10,
    bundle: Annotated[int, measures(help="Texts of one author to attribute together.")] = 1,
    delta: options.DeltaOption = 0.0,
    seed: options.SeedOption = None,
    without_guarantee: options.WithoutGuaranteeOption = False,
    printing: Printing,
) -> int:
    choice = wanted.chosen_if_any(epsilon=epsilon)
    _validate.count(train_texts=train_texts, attacked_texts=attacked_texts, bundle=bundle)
    _validate.probability(delta=delta)
    if bundle > attacked_texts:
        raise ConfigError(f"Expected --bundle {bundle} <= --attacked-texts {attacked_texts}: make it smaller.")
    seed = options.seed_of(seed)
    if author_field is None:
        raise ConfigError("Expected --author-field NAME: the attackers learn who wrote what.")
    if (choice is None) == (released is None):
        raise ConfigError(
            "Expected one of --mechanism NAME, --spec FILE.toml, --model MODEL and --released FILE, the releases of "
            "all records in their order."
        )
    check_form(public, layout)
    check_options(choice, public, label_field, voided=without_guarantee)
    own = as_public(layout.read(records, label=own_label(choice, label_field), author=author_field), choice)
    split = split_authors(own, training=train_texts, attacked=attacked_texts, seed=seed)
    if released is not None:
        by_id = {release.id: release for release in read_back(released, own, labelled=False)}
        of_attacked, of_training = ([by_id[record.id] for record in side] for side in (split.attacked, split.training))
    elif choice is not None:
        known = public_records(public, layout, label_field, [*split.training, *split.attacked])
        ready = made_ready(choice, known, seed)
        with counted("releases", "texts") as tell:
            of_attacked, of_training = release_split(ready, split, randomness=seeded(seed), on_progress=tell)
    say(NOT_PRIVATE)
    given: dict[str, Any] = {"released": of_attacked, "training_released": of_training, "embedder": load_encoder()}
    given |= {"bundle": bundle, "seed": seed, "delta": delta, "on_attacker": say_trained}
    found = attribute_releases(split.training, split.attacked, **given)
    claim = None if choice is None else _claim(choice.spec, delta, found)
    refuted = claim is not None and found.report.refutes(claim)
    stated: dict[str, Json] = {"claim": claim.to_dict() if claim else None, "refuted": refuted, "note": NOT_PRIVATE}
    data = {**found.to_dict(), "duplicates": split.duplicates, **stated}
    show_attacks(printing, answers.authorship(found, claim), found, split.duplicates, data)
    return EXIT_REFUTED if refuted else 0


def _claim(spec: Spec, delta: float, found: AuthorshipReport) -> Guarantee | None:
    if Unit.DOCUMENT not in spec.units:
        return None
    claim = spec.guarantee(Unit.DOCUMENT, delta)
    return claim if is_about(found.report, claim) else None
