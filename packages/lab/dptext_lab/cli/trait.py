"""`dptext audit trait`: guess from which of two sets a redacted text comes."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from dptext import _validate
from dptext._wording import NOT_PRIVATE
from dptext.cli import options
from dptext.cli.answers import Printing
from dptext.cli.audit import EXIT_REFUTED, refuse_ignored
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
from dptext.cli.grouped import measures, promises, reads
from dptext.cli.terminal import counted, say
from dptext.cli.utility import read_back
from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.types import Json
from dptext_lab.cli import answers, sets
from dptext_lab.redaction.trait import (
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

#: Attackers by the name of --attacker. The transformer, which is slow, is a further attacker.
ATTACKERS: Final = {"tfidf": TFIDF, "linear": LINEAR, "mlp": MLP}
TRANSFORMER: Final = "transformer"


def trait(
    *,
    first: sets.FirstSet,
    second: sets.SecondSet,
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
    epochs: Annotated[int | None, measures(help="Epochs of the transformer. Default: 1.")] = None,
    top_layers: Annotated[
        int | None, measures(help="Number of top layers of the transformer that learn. Default: 2.")
    ] = None,
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
    _validate.count(training=training, attacked=attacked)
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
    check_form(public, layout)
    check_options(choice, public, label_field, voided=without_guarantee)
    label = own_label(choice, label_field)
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
    given |= {"attackers": attackers, "seed": seed, "delta": delta, "on_attacker": say_trained}
    found = infer_trait_from_releases(split, **given)
    refuted = claim is not None and found.refutes(claim)
    data: dict[str, Json] = {**found.to_dict(), "claim": claim, "refuted": refuted, "note": NOT_PRIVATE}
    answer = answers.trait(found, claim)
    if target is not None:
        target.write(f"{json.dumps({'answer': answer, **data}, indent=2)}\n".encode())
    show_attacks(printing, answer, found, split.duplicates, data)
    return EXIT_REFUTED if refuted else 0


def _attackers(names: list[str], epochs: int | None, top_layers: int | None) -> dict[str, TrainAttacker]:
    if not {*names} <= {*ATTACKERS, TRANSFORMER} or len({*names}) < len(names):
        raise ConfigError(f"Expected each --attacker once, of {', '.join((*ATTACKERS, TRANSFORMER))}, found {names!r}.")
    if TRANSFORMER not in names:
        refuse_ignored(f"--attacker {', '.join(names)}", epochs=epochs, top_layers=top_layers)
    epochs, top_layers = 1 if epochs is None else epochs, 2 if top_layers is None else top_layers
    _validate.count(epochs=epochs, top_layers=top_layers)
    known = standard_attackers()
    found = {ATTACKERS[name]: known[ATTACKERS[name]] for name in names if name != TRANSFORMER}
    if TRANSFORMER in names:
        from dptext_lab.classifiers.fine_tuning import FineTuning, train_transformer

        found[f"transformer, top layers {top_layers}, epochs {epochs}"] = train_transformer(
            FineTuning(epochs=epochs, top_layers=top_layers),
            on_epoch=lambda epoch, _, loss: say(f"transformer: epoch {epoch} of {epochs}, loss {loss:.3f}"),
        )
    return found
