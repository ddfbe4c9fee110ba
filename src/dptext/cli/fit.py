"""`dptext fit`: from public records to a model in a folder."""

from __future__ import annotations

import inspect
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from dptext import _validate
from dptext.cli.progress import counted, say
from dptext.cli.stopping import advising
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism, Spec, learns_labels, releases_labels, settings
from dptext.mechanisms.adept.dpsgd import AdeptDpSgd
from dptext.mechanisms.redaction.pii import PiiRedaction
from dptext.mechanisms.redaction.random import CountRedaction, RandomRedaction
from dptext.mechanisms.words.private_phrases import PrivatePhrases
from dptext.mechanisms.words.random_replacement import RandomReplacement
from dptext.mechanisms.words.syntf import SynTf
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy.guarantee import Basis, format_delta, format_epsilon
from dptext.runs.models import save_model
from dptext.runs.specs import SPECS, AnySpec
from dptext.text.records import Fields, Record, read_records
from dptext.types import Json

if TYPE_CHECKING:  # torch is slow to load
    from dptext.neural.adept import EpochProgress

#: What learns from no text: its `fit` reads public word vectors at most, or loads a tagger.
NEEDS_NO_TEXT = (
    WordMetric | PrivatePhrases | RandomReplacement | SynTf | RandomRedaction | CountRedaction | PiiRedaction
)
_SHOWN_STEPS = 20


def takes(spec: Spec | type[Spec], argument: str) -> bool:
    """Whether `fit` of the spec has this argument."""
    return argument in inspect.signature(spec.fit).parameters


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
    elif not releases_labels(spec):
        if any(field.name == "labels" for field in fields(spec)):  # type: ignore[arg-type]  # every spec is a dataclass
            raise ConfigError(
                f"Expected the set of labels in the settings of {spec.kind} with --label-field {label_field!r}: it is "
                'public and read from no text. Fit with --set \'labels=["a", "b"]\', or leave the field out.'
            )
        raise ConfigError(f"Expected no --label-field: {spec.kind} does not privatize labels.")
    elif label_field in copied:
        raise ConfigError(f"Expected --label-field {label_field!r} to be no field that is copied to the output.")


def fitted_on(
    spec: AnySpec,
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
    if not takes(spec, "on_epoch") and not takes(spec, "on_progress"):
        return fit(**arguments)
    with counted(title, every=0.0) as tell:
        if takes(spec, "on_progress"):
            arguments["on_progress"] = lambda at: tell(at.step, at.steps, f"steps, loss {at.loss:.3g}")
            return fit(**arguments)

        def epoch(progress: EpochProgress) -> None:
            loss = "" if private else f", loss {progress.loss:.3g}, held out {progress.held_out:.3g}"
            tell(progress.epoch, progress.epochs, f"epochs{loss}")

        def step(done: int, total: int) -> None:
            if done == total or done % max(1, total // _SHOWN_STEPS) == 0:
                tell(done, total, "steps on private text")

        arguments["on_epoch"] = epoch
        if takes(spec, "on_step"):
            arguments["on_step"] = step
        return fit(**arguments)


def run(
    spec: AnySpec,
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
    if not learns_labels(spec):
        check_label_field(spec, label_field, needed=releases_labels(spec))
    elif label_field is None:
        raise ConfigError(f"Expected --label-field NAME: {spec.kind} learns from public labels which words tell most.")
    _check_texts(spec, public, private, pool)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"Expected --out {str(target)!r} to be absent or empty. Choose another folder.")
    names = Fields(text=text_field, label=label_field)
    with advising(lambda: f"Of an unfinished fit nothing is kept: there is no {target}. Run the command again."):
        mechanism = fitted_on(
            spec,
            public=[] if public is None or isinstance(spec, NEEDS_NO_TEXT) else list(read_records(public, names)),
            private=[] if private is None else list(read_records(private, names)),
            pool=None if pool is None else list(read_records(pool, names)),
            seed=seed,
        )
        save_model(mechanism, target)
    promised = [spec.guarantee(unit) for unit in spec.units]
    if private is not None:
        if isinstance(spec, AdeptDpSgd):
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
    label = "" if label_field is None or learns_labels(spec) else f" --label-field {label_field}"
    asked = " --without-guarantee" if all(guarantee.basis is Basis.NONE for guarantee in promised) else ""
    print(f"\nModel: {target}\nNext: dptext privatize IN OUT --model {target}{label}{asked}")


def _check_texts(spec: AnySpec, public: Path | None, private: Path | None, pool: Path | None) -> None:
    given = {"private": (private, "learns from public text alone"), "pool": (pool, "chooses among no candidates")}
    for argument, (path, why) in given.items():
        if path is not None and not takes(spec, argument):
            known = ", ".join(kind for kind, cls in SPECS.items() if takes(cls, argument))
            raise ConfigError(f"Expected no --{argument}: {spec.kind} {why}. Others: {known}.")
    if isinstance(spec, NEEDS_NO_TEXT):
        if public is not None:
            say(f"{spec.kind} learns from no text: --public is not read.")
    elif isinstance(spec, AdeptDpSgd) and public is not None and private is None:
        raise ConfigError(  # its guarantee counts a training on private text, which there would not have been
            f"Expected --private FILE: {spec.kind} is trained on private text. For a model of public text alone take "
            "--mechanism adept, which promises more."
        )
    elif public is None and (private is None or isinstance(spec, AdeptDpSgd)):
        raise ConfigError(f"Expected --public FILE: {spec.kind} learns from public text.")
