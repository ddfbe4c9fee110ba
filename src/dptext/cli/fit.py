"""`dptext fit`: from records to a model in a folder."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

from typer import Option

from dptext.cli import options
from dptext.cli.chosen import Settings, check_label_field, fitted_on, kinds, load_encoder
from dptext.cli.terminal import advising, say
from dptext.errors import ConfigError
from dptext.mechanism import HasRemarks, HasTraining, Learns, Spec, Traits, settings
from dptext.privacy.guarantee import Basis, format_delta, format_epsilon
from dptext.runs.models import save_model
from dptext.text.files import require_free
from dptext.types import Json


@options.spread
def fit(
    *,
    target: Annotated[Path, options.folder_option("--out", metavar="MODEL", help="New folder of the model.")],
    named: Settings,
    public: options.PublicOption = None,
    private: Annotated[
        Path | None, options.file_option(help="Private records to train on, where the mechanism is made for it.")
    ] = None,
    pool: Annotated[
        Path | None, options.file_option(help="Public records to choose among; default: those of --public.")
    ] = None,
    stand_in: Annotated[
        Path | None,
        options.file_option(help="Texts like the private ones that need no protection: do public ones fit them?"),
    ] = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    seed: Annotated[int | None, Option(help="Seed of the training. It is public, no secret.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Fit a mechanism, save it, and say what it guarantees."""
    wanted = named.chosen_spec()
    seed = options.seed_of(seed)
    if not wanted.traits.learns_labels:
        check_label_field(wanted, label_field, needed=wanted.traits.releases_labels)
    elif label_field is None:
        raise ConfigError(
            f"Expected --label-field NAME: {wanted.kind} learns from public labels which words tell most."
        )
    _check_texts(wanted, public, private, pool)
    if stand_in is not None and (pool or public) is None:
        raise ConfigError("Expected --public FILE with --stand-in: whether public texts fit is asked.")
    require_free(target)
    others = layout.read_public(stand_in, label=label_field)  # before the work
    with advising(lambda: f"Of an unfinished fit nothing is kept: there is no {target}. Run the command again."):
        model = fitted_on(
            wanted,
            public=layout.read_public(None if wanted.traits.learns is Learns.NOTHING else public, label=label_field),
            private=[] if private is None else layout.read(private, label=label_field),
            pool=None if pool is None else layout.read_public(pool, label=label_field),
            seed=seed,
        )
        fit_of_pool = None
        if stand_in is not None:
            from dptext.utility.pool_fit import pool_fit

            chosen_among = layout.read_public(pool or public, label=label_field)
            fit_of_pool = pool_fit(chosen_among, others, embedder=load_encoder())
        save_model(model, target)
    promised = [wanted.guarantee(unit) for unit in wanted.units]
    if private is not None:
        _warn(wanted)
    if as_json:
        data: dict[str, Json] = {
            "model": str(target),
            "settings": settings(wanted),
            "digests": dict(model.digests),
            "guarantees": [guarantee.to_dict() for guarantee in promised],
            **(model.remarks().numbers if isinstance(model, HasRemarks) else {}),
            **({} if fit_of_pool is None else {"stand_in": fit_of_pool.to_dict()}),
        }
        print(json.dumps(data, indent=2))
        return
    print("\n\n".join(guarantee.explain() for guarantee in promised))
    if isinstance(model, HasRemarks):
        print(model.remarks().text)
    if fit_of_pool is not None:
        print("\n".join(["", *fit_of_pool.sentences()]))
    label = None if wanted.traits.learns_labels else label_field
    asked = all(guarantee.basis is Basis.NONE for guarantee in promised)
    more = options.as_typed(model=target, label_field=label, without_guarantee=asked) + layout.typed()
    print(f"\nModel: {target}\nNext: dptext privatize IN OUT {shlex.join(more)}")


def _check_texts(spec: Spec, public: Path | None, private: Path | None, pool: Path | None) -> None:
    if private is not None and not spec.traits.takes_private:
        _refuse("private", spec, "learns from public text alone", lambda traits: traits.takes_private)
    if pool is not None and not spec.traits.takes_pool:
        _refuse("pool", spec, "chooses among no candidates", lambda traits: traits.takes_pool)
    if spec.traits.learns is Learns.NOTHING:
        if public is not None:
            say(f"{spec.kind} learns from no text: --public is not read.")
    elif spec.traits.learns is Learns.PRIVATE and public is not None and private is None:
        raise ConfigError(  # its guarantee would count a training on private text that did not take place
            f"Expected --private FILE: {spec.kind} is trained on private text. For a model of public text alone take "
            "--mechanism adept, which promises more."
        )
    elif public is None and (private is None or spec.traits.learns is Learns.PRIVATE):
        raise ConfigError(f"Expected --public FILE: {spec.kind} learns from public text.")


def _refuse(option: str, spec: Spec, why: str, has: Callable[[Traits], bool]) -> NoReturn:
    raise ConfigError(f"Expected no --{option}: {spec.kind} {why}. Others: {kinds(has)}.")


def _warn(spec: Spec) -> None:
    if not isinstance(spec, HasTraining):
        say("Trained on private text: the model is as private as that text. Keep it where the text is kept.")
        return
    training = spec.training_guarantee()
    say(
        "Trained on private text, and no ledger charged it. Whoever sees the model learns of that text up to epsilon "
        f"{format_epsilon(training.epsilon)} at delta {format_delta(training.delta)} (replacing one document). What is "
        "said below is about training and one release together."
    )
