"""`dptext fit`: from public records to a model in a folder."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from dptext import _validate
from dptext.cli.progress import counted, say
from dptext.cli.stopping import advising
from dptext.errors import ConfigError
from dptext.mechanism import FitProgress, HasTraining, Learns, Mechanism, Spec, Traits, settings
from dptext.mechanisms.registry import SPECS
from dptext.privacy.guarantee import Basis, format_delta, format_epsilon
from dptext.runs.models import save_model
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record
from dptext.types import Json

_SHOWN_STEPS = 20


def chosen_seed(seed: int | None) -> int:
    """The seed, or one drawn at random.

    Raises:
        ConfigError: it is not in [0, 2^32), which is what the libraries take.
    """
    if seed is None:
        return secrets.randbits(32)
    _validate.within(0, 2**32 - 1, seed=seed)
    return seed


def check_label_field(spec: Spec, label_field: str | None, *, needed: bool, copied: Sequence[str | None] = ()) -> None:
    """Refuse a label field where labels mean nothing, none where one is needed, and one that is released as it is.

    Args:
        spec: of the mechanism.
        label_field: as given.
        needed: whether labels of the records at hand are read.
        copied: names of the fields that are copied to the output.

    Raises:
        ConfigError: for each of these.
    """
    if label_field is None:
        if needed:
            raise ConfigError(f"Expected --label-field NAME: {spec.kind} reads the label together with the text.")
    elif not spec.traits.releases_labels:
        if "labels" in settings(spec):
            raise ConfigError(
                f"Expected the set of labels in the settings of {spec.kind} with --label-field {label_field!r}: it is "
                'public and read from no text. Fit with --set \'labels=["a", "b"]\', or leave the field out.'
            )
        raise ConfigError(f"Expected no --label-field: {spec.kind} does not privatize labels.")
    elif label_field in copied:
        raise ConfigError(f"Expected --label-field {label_field!r} to be no field that is copied to the output.")


def fitted_on(
    spec: Spec,
    *,
    public: Sequence[Record] = (),
    private: Sequence[Record] = (),
    pool: Sequence[Record] | None = None,
    seed: int | None = None,
    title: str = "training",
) -> Mechanism[str]:
    """The spec fitted on these records, with a bar for the epochs. What private texts did to the loss is not shown.

    Raises:
        ConfigError: the records do not do.
        MissingExtraError: torch or the sentence encoder is not installed.
    """
    fit: Callable[..., Mechanism[str]] = spec.fit
    arguments: dict[str, object] = {"public": public, "seed": seed}
    if private:
        arguments["private"] = private
    if pool is not None:
        arguments["pool"] = pool
    if not spec.traits.trains:
        return fit(**arguments)
    with counted(title, every=0.0) as tell:

        def told(at: FitProgress) -> None:
            if at.done == at.total or at.done % max(1, at.total // _SHOWN_STEPS) == 0:
                tell(at.done, at.total, f"{at.unit}{at.note and f', {at.note}'}")

        return fit(**arguments, on_progress=told)


def run(
    spec: Spec,
    target: Path,
    *,
    public: Path | None,
    private: Path | None,
    pool: Path | None,
    text_field: str,
    label_field: str | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Fit a mechanism, save it, and say what it guarantees.

    Raises:
        ConfigError: options that do not fit together, or a folder that is not free.
        DataError: a record cannot be read.
        MissingExtraError: a package is not installed.
    """
    seed = chosen_seed(seed)
    if not spec.traits.learns_labels:
        check_label_field(spec, label_field, needed=spec.traits.releases_labels)
    elif label_field is None:
        raise ConfigError(f"Expected --label-field NAME: {spec.kind} learns from public labels which words tell most.")
    _check_texts(spec, public, private, pool)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"Expected --out {str(target)!r} to be absent or empty. Choose another folder.")
    names = Fields(text=text_field, label=label_field)
    with advising(lambda: f"Of an unfinished fit nothing is kept: there is no {target}. Run the command again."):
        mechanism = fitted_on(
            spec,
            public=[] if public is None or spec.traits.learns is Learns.NOTHING else list(read_records(public, names)),
            private=[] if private is None else list(read_records(private, names)),
            pool=None if pool is None else list(read_records(pool, names)),
            seed=seed,
        )
        save_model(mechanism, target)
    promised = [spec.guarantee(unit) for unit in spec.units]
    if private is not None:
        if isinstance(spec, HasTraining):
            training = spec.training_guarantee()
            say(
                "Trained on private text, and no ledger charged it. Whoever sees the model learns of that text up to "
                f"epsilon {format_epsilon(training.epsilon)} at delta {format_delta(training.delta)} (replacing one "
                "document); what is said below is about training and one release together."
            )
        else:
            say("Trained on private text: the model is as private as that text. Keep it where the text is kept.")
    if as_json:
        data: dict[str, Json] = {
            "model": str(target),
            "settings": settings(spec),
            "digests": dict(mechanism.digests),
            "guarantees": [guarantee.to_dict() for guarantee in promised],
        }
        print(json.dumps(data, indent=2))
        return
    print("\n\n".join(guarantee.explain() for guarantee in promised))
    label = "" if label_field is None or spec.traits.learns_labels else f" --label-field {label_field}"
    asked = " --without-guarantee" if all(guarantee.basis is Basis.NONE for guarantee in promised) else ""
    print(f"\nModel: {target}\nNext: dptext privatize IN OUT --model {target}{label}{asked}")


def _check_texts(spec: Spec, public: Path | None, private: Path | None, pool: Path | None) -> None:
    if private is not None and not spec.traits.takes_private:
        _refuse("private", spec, "learns from public text alone", lambda traits: traits.takes_private)
    if pool is not None and not spec.traits.takes_pool:
        _refuse("pool", spec, "chooses among no candidates", lambda traits: traits.takes_pool)
    if spec.traits.learns is Learns.NOTHING:
        if public is not None:
            say(f"{spec.kind} learns from no text: --public is not read.")
    elif spec.traits.learns is Learns.PRIVATE and public is not None and private is None:
        raise ConfigError(  # its guarantee counts a training on private text, which there would not have been
            f"Expected --private FILE: {spec.kind} is trained on private text. For a model of public text alone take "
            "--mechanism adept, which promises more."
        )
    elif public is None and (private is None or spec.traits.learns is Learns.PRIVATE):
        raise ConfigError(f"Expected --public FILE: {spec.kind} learns from public text.")


def kinds(has: Callable[[Traits], bool]) -> str:
    """The mechanisms with a trait, by name; of those that have it with some settings only, too."""
    return ", ".join(kind for kind, cls in SPECS.usable().items() if any(has(spec.traits) for spec in cls.tiny()))


def _refuse(option: str, spec: Spec, why: str, has: Callable[[Traits], bool]) -> NoReturn:
    raise ConfigError(f"Expected no --{option}: {spec.kind} {why}. Others: {kinds(has)}.")
