"""`dptext audit authorship | trait`: guess who wrote a privatized text, or from which of two sets it comes."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from dptext import _validate
from dptext._wording import markdown_table
from dptext.audits.features import shared_texts
from dptext.audits.inference.authorship import attribute_releases, release_split, split_authors
from dptext.audits.inference.findings import AuthorshipReport, TraitReport
from dptext.audits.inference.trait import (
    LINEAR,
    MLP,
    TFIDF,
    SetReleases,
    TrainAttacker,
    infer_trait_from_releases,
    release_sets,
    split_sets,
    standard_attackers,
)
from dptext.cli import answers, options
from dptext.cli.answers import Lines, Printing, interval
from dptext.cli.audit import EXIT_REFUTED
from dptext.cli.chosen import Choice, MechanismOptions, as_public, check_label_field, fitted_on, load_encoder
from dptext.cli.grouped import measures, promises, reads
from dptext.cli.terminal import counted, say
from dptext.cli.utility import NOT_PRIVATE, read_back
from dptext.compare.measure import is_about
from dptext.errors import ConfigError, needing
from dptext.mechanism import Mechanism, Spec
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.runs.streaming import require_guarantee
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from dptext.types import Json


def authorship(
    *,
    records: Annotated[Path, options.file_argument(metavar="RECORDS", help="Texts of known authors, several by each.")],
    wanted: MechanismOptions,
    public: options.PublicOption = None,
    released: Annotated[
        Path | None, options.file_option(help="Releases of all RECORDS in their order, instead of a mechanism.")
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
    choice = wanted.chosen_if_any()
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
    _check_options(choice, public, label_field, voided=without_guarantee)
    own = as_public(layout.read(records, label=_own_label(choice, label_field), author=author_field), choice)
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
    given |= {"bundle": bundle, "seed": seed, "delta": delta, "on_attacker": _say_trained}
    found = attribute_releases(split.training, split.attacked, **given)
    claim = None if choice is None else _claim(choice.spec, delta, found)
    refuted = claim is not None and found.report.refutes(claim)
    stated: dict[str, Json] = {"claim": claim.to_dict() if claim else None, "refuted": refuted, "note": NOT_PRIVATE}
    data = {**found.to_dict(), "duplicates": split.duplicates, **stated}
    _show_attacks(printing, answers.authorship(found, claim), found, split.duplicates, data)
    return EXIT_REFUTED if refuted else 0


def _claim(spec: Spec, delta: float, found: AuthorshipReport) -> Guarantee | None:
    if Unit.DOCUMENT not in spec.units:
        return None
    claim = spec.guarantee(Unit.DOCUMENT, delta)
    return claim if is_about(found.report, claim) else None


def check_public(choice: Choice | None, public: Path | None) -> None:
    """Check that --public is given if, and only if, the mechanism is to be fitted on public text."""
    if choice is None or not choice.needs_fit:
        if public is not None:
            raise ConfigError("Expected --public with a mechanism that is to be fitted on it, or no --public.")
    elif choice.spec.traits.takes_private:
        raise ConfigError(
            f"Expected --model with a fitted one: {choice.spec.kind} is trained on private text, and no text of that "
            "training may be attacked here."
        )
    elif public is None:
        raise ConfigError(f"Expected --public FILE: {choice.spec.kind} learns from public text. Or give --model MODEL.")


def _check_options(choice: Choice | None, public: Path | None, label_field: str | None, *, voided: bool) -> None:
    """Check the options before a record is read. `voided` says that a mechanism without a guarantee is allowed."""
    check_public(choice, public)
    if choice is None:
        return
    spec = choice.spec
    if not spec.traits.learns_labels:
        check_label_field(spec, label_field, needed=spec.traits.reads_labels)
    elif label_field is None and public is not None:
        raise ConfigError(f"Expected --label-field NAME: {spec.kind} learns from the labels of public text.")
    require_guarantee(spec, voided)


def _own_label(choice: Choice | None, label_field: str | None) -> str | None:
    return label_field if choice is None or choice.spec.traits.reads_labels else None


def public_records(
    public: Path | None, layout: options.Layout, label_field: str | None, own: Sequence[Record]
) -> list[Record]:
    """Return the records of --public. A line on stderr says how many of the attacked texts are among them."""
    known = layout.read_public(public, label=label_field)
    if common := shared_texts(known, own):
        say(f"{common} of the texts are in --public, too: no mechanism protects public texts.")
    return known


def made_ready(choice: Choice, known: Sequence[Record], seed: int) -> Mechanism[str]:
    return fitted_on(choice.spec, public=known, seed=seed) if choice.needs_fit else choice.fitted()


def _show_attacks(
    printing: Printing, said: Lines, found: AuthorshipReport | TraitReport, duplicates: int, data: Mapping[str, Json]
) -> None:
    head = ("accuracy", "similarity")
    shown = [*sorted(found.attacks, key=lambda row: -row.accuracy.value)[:8], *found.baselines]  # a screen
    rows = [[row.name, *(interval(row.cells()[name]) for name in head)] for row in shown]
    more = [found.to_markdown(), f"{duplicates:,} duplicates removed first."]
    printing.answer(said, markdown_table(["attacker, interval at 95%", *head], rows), more, data)


def _say_trained(done: int, total: int) -> None:
    say(f"attackers: {done} of {total} trained")


#: Attackers by the name of --attacker. The transformer, which is slow, is a further attacker.
ATTACKERS: Final = {"tfidf": TFIDF, "linear": LINEAR, "mlp": MLP}
TRANSFORMER: Final = "transformer"


def trait(
    *,
    first: options.FirstSetArgument,
    second: options.SecondSetArgument,
    wanted: MechanismOptions,
    public: options.PublicOption = None,
    released_a: Annotated[
        Path | None, options.file_option(help="Releases of all of A in its order, instead of a mechanism.")
    ] = None,
    released_b: Annotated[Path | None, options.file_option(help="Releases of all of B in its order.")] = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    group_field: Annotated[
        str | None,
        reads(metavar="NAME", help="Field of the document or author. None of them is both learned from and attacked."),
    ] = None,
    attacker: Annotated[
        list[str] | None,
        measures(
            metavar="NAME",
            help="An attacker: tfidf, linear, mlp or transformer (slow). Repeatable. Default: the first three.",
        ),
    ] = None,
    training: Annotated[int, measures(help="Texts of each set to learn from.")] = 1000,
    attacked: Annotated[int, measures(help="Texts of each set to attack.")] = 500,
    epochs: Annotated[int, measures(help="Epochs of the transformer.")] = 1,
    top_layers: Annotated[int, measures(help="Number of top layers of the transformer that learn.")] = 2,
    delta: options.DeltaOption = 0.0,
    claim: Annotated[
        float | None, promises(help="Epsilon of the sets to try to refute, at --delta (for a divergence: 8e-5).")
    ] = None,
    seed: options.SeedOption = None,
    without_guarantee: options.WithoutGuaranteeOption = False,
    out: Annotated[Path | None, options.output_option(help="File for the result as JSON.")] = None,
    force: options.ForceOption = False,
    printing: Printing,
) -> int:
    choice = wanted.chosen_if_any()
    seed = options.seed_of(seed)
    _validate.count(training=training, attacked=attacked, epochs=epochs, top_layers=top_layers)
    _validate.probability(delta=delta)
    if claim is not None:
        _validate.not_negative(claim=claim)
    attackers = _attackers(attacker or list(ATTACKERS), epochs, top_layers)
    inputs = (first, second, wanted.spec, wanted.model, public, released_a, released_b)
    target = options.target_of(out, *inputs, force=force)
    if (choice is None) == (released_a is None and released_b is None):
        raise ConfigError(
            "Expected one of --mechanism NAME, --spec FILE.toml, --model MODEL, and --released-a FILE with "
            "--released-b FILE, the releases of all records of A and of B in their order."
        )
    if choice is None and (public is not None or label_field is not None):
        raise ConfigError("Expected --public and --label-field with a mechanism only.")
    _check_options(choice, public, label_field, voided=without_guarantee)
    label = _own_label(choice, label_field)
    read = partial(layout.read, label=label, author=group_field)
    sets = as_public(read(first), choice), as_public(read(second), choice)
    split = split_sets(*sets, training=training, attacked=attacked, seed=seed)
    of_attacked: SetReleases
    of_training: SetReleases
    if choice is None:
        if released_a is None or released_b is None:
            raise ConfigError("Expected both --released-a FILE and --released-b FILE.")
        given_back = zip((released_a, released_b), sets, strict=True)
        a, b = ({each.id: each for each in read_back(path, own, labelled=False)} for path, own in given_back)
        both = split.attacked, split.training
        of_attacked, of_training = (([a[r.id] for r in one], [b[r.id] for r in other]) for one, other in both)
    else:
        texts = [record for sides in (split.training, split.attacked) for side in sides for record in side]
        ready = made_ready(choice, public_records(public, layout, label_field, texts), seed)
        with counted("releases", "texts") as tell:
            of_attacked, of_training = release_sets(ready, split, randomness=seeded(seed), on_progress=tell)
    say(NOT_PRIVATE)
    given: dict[str, Any] = {"released": of_attacked, "training_released": of_training, "embedder": load_encoder()}
    given |= {"attackers": attackers, "seed": seed, "delta": delta, "on_attacker": _say_trained}
    found = infer_trait_from_releases(split, **given)
    refuted = claim is not None and found.refutes(claim)
    data: dict[str, Json] = {**found.to_dict(), "claim": claim, "refuted": refuted, "note": NOT_PRIVATE}
    answer = answers.trait(found, claim)
    if target is not None:
        target.write(f"{json.dumps({'answer': answer, **data}, indent=2)}\n".encode())
    _show_attacks(printing, answer, found, split.duplicates, data)
    return EXIT_REFUTED if refuted else 0


def _attackers(names: list[str], epochs: int, top_layers: int) -> dict[str, TrainAttacker]:
    if not {*names} <= {*ATTACKERS, TRANSFORMER} or len({*names}) < len(names):
        raise ConfigError(f"Expected each --attacker once, of {', '.join((*ATTACKERS, TRANSFORMER))}, found {names!r}.")
    known = standard_attackers()
    found = {ATTACKERS[name]: known[ATTACKERS[name]] for name in names if name != TRANSFORMER}
    if TRANSFORMER in names:
        with needing("The transformer attacker", "sbert"):
            from dptext.neural.classifiers.fine_tuning import FineTuning, train_transformer

        found[f"transformer, top layers {top_layers}, epochs {epochs}"] = train_transformer(
            FineTuning(epochs=epochs, top_layers=top_layers),
            on_epoch=lambda epoch, _, loss: say(f"transformer: epoch {epoch} of {epochs}, loss {loss:.3f}"),
        )
    return found
