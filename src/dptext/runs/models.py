"""Fitting of a mechanism on texts, tables or files (`dptext.fit`), and saving and loading of fitted mechanisms.

A saved model is a folder with the mechanism's files and `model.json`, which holds the spec's settings, the digests and
the sha256 of every file. Loading compares all of these and refuses a file that was cut short, edited or mixed up. A
model is not signed: whoever can replace every file can forge a model, which only its digests give away.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import cast

from dptext.errors import ConfigError, DPTextError
from dptext.mechanism import Learns, Mechanism, OnProgress, Spec, settings
from dptext.runs.carried import with_carried_types
from dptext.runs.specs import on_device, spec_from_settings
from dptext.text.files import new_folder, sha256_of, write_private
from dptext.text.inputs import SAVE_AGAIN, parse_json
from dptext.text.labels import relabelled
from dptext.text.reading import as_records
from dptext.text.records import TEXT_FIELD, Record
from dptext.text.tables import Texts
from dptext.types import Json
from dptext.version import __version__

MODEL_FILE = "model.json"
MODEL_SCHEMA = 1


def fit(
    spec: Spec,
    public: Texts = None,
    *,
    private: Texts = None,
    pool: Texts = None,
    text: str = TEXT_FIELD,
    label: str | None = None,
    empty_nulls: bool = False,
    seed: int | None = None,
    on_progress: OnProgress | None = None,
) -> Mechanism[str]:
    """Fit a mechanism on texts, rows, records, a data frame, a Dataset, or the path of a file.

    A warning comes of public texts in a language that the encoder or the word vectors of the settings do not know.

    Args:
        spec: the settings. `spec.traits` says which of the three kinds of texts its fit takes.
        public: texts that need no protection; None for a mechanism that learns from nothing.
        private: texts for private training, which the guarantee covers; for a mechanism that trains on such texts.
        pool: public candidates.
        text: column of the texts.
        label: column of the labels, if the mechanism privatizes labels or learns from them.
        empty_nulls: True reads null texts as empty texts; False makes them an error.
        seed: seed of random choices in the fit; None draws a seed. The seed is no secret.
        on_progress: called with each step of a fit that trains.

    Raises:
        ConfigError: the spec cannot be fitted on these texts, or its fit takes no such argument.
        DataError: a record cannot be read.
        MissingExtraError: a package is not installed.
    """
    return fitted(
        spec, public, private=private, pool=pool, text=text, label=label, empty_nulls=empty_nulls, seed=seed,
        on_progress=on_progress, warns=True,
    )  # fmt: skip


def fitted(
    spec: Spec,
    public: Texts = None,
    *,
    private: Texts = None,
    pool: Texts = None,
    text: str = TEXT_FIELD,
    label: str | None = None,
    empty_nulls: bool = False,
    seed: int | None = None,
    on_progress: OnProgress | None = None,
    warns: bool = False,
) -> Mechanism[str]:
    """Return what `fit` returns, without its warning unless it `warns`."""
    if not hasattr(spec, "fit"):
        raise ConfigError(f"Expected settings such as dptext.Candidates(epsilon=10), found {type(spec).__name__}.")
    traits = spec.traits
    if private is not None and not traits.takes_private:
        raise ConfigError(f"Expected private=None: {spec.kind} learns from public text alone. Give it as public.")
    if pool is not None and not traits.takes_pool:
        raise ConfigError(f"Expected pool=None: {spec.kind} chooses among no candidates.")
    if public is None and private is None and traits.learns is not Learns.NOTHING:
        raise ConfigError(f"Expected public texts: {spec.kind} learns from them.")
    read = partial(as_records, text=text, label=label, empty_nulls=empty_nulls)

    def records(texts: Texts, keep: tuple[str, ...] = ()) -> list[Record]:
        return relabelled(read(texts, keep=keep), traits.labels)

    given: dict[str, object] = {"public": [], "seed": seed}
    if public is not None and traits.learns is not Learns.NOTHING:
        given["public"] = learned = records(public, traits.carries if pool is None else ())
        if warns and (said := _in_other_language(spec, learned)):
            warnings.warn(said, stacklevel=3)
    others = ("private", private, ()), ("pool", pool, traits.carries)
    given |= {name: records(each, keep) for name, each, keep in others if each is not None}
    if traits.trains and on_progress is not None:
        given["on_progress"] = on_progress
    own, source = ("public", public) if pool is None else ("pool", pool)
    spec = with_carried_types(spec, cast("list[Record]", given[own]), source)
    call: Callable[..., Mechanism[str]] = spec.fit
    try:
        return call(**given)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # the error comes from within the fit, not from the call
    raise ConfigError(
        f"Expected the fit of {spec.kind} to take {', '.join(given)}, as its traits say: it does not. Tell the "
        "authors of its package; dptext.testing.check_mechanism finds such faults."
    )


def _in_other_language(spec: Spec, public: Sequence[Record]) -> str:
    from dptext.runs.known_languages import in_other_language  # noqa: PLC0415 (needed to learn from public texts alone)

    return in_other_language(spec, [record.text for record in public])


def save_model(mechanism: Mechanism[str], folder: str | PathLike[str]) -> None:
    """Write a fitted mechanism into a new folder, for `load_model`.

    The folder (mode 0700, files 0600) appears when it is complete. It holds public data only, unless the mechanism was
    trained on private text. ConfigError: the path exists and is not an empty folder, or the disk refuses.
    """
    with new_folder(Path(folder).resolve()) as partial:
        mechanism.save(partial)
        model: dict[str, Json] = {
            "schema": MODEL_SCHEMA,
            "settings": settings(mechanism.spec),
            "digests": dict(mechanism.digests),
            "files": {name: sha256_of(partial / name) for name in _files(partial)},
            "version": __version__,
        }
        sealed = json.dumps({**model, "sha256": _seal(model)}, indent=2, allow_nan=False)
        write_private(partial / MODEL_FILE, f"{sealed}\n".encode())


def load_model(folder: str | PathLike[str], *, device: str | None = None) -> Mechanism[str]:
    """Load the mechanism that `save_model` wrote; the texts of its fit are not needed.

    With a device, such as "cpu" for a model that was fitted on a GPU, the network computes there; the spec and the
    certificates name this device. Files, seal and digests are compared with the saved values. ConfigError: a file is
    absent, cut short or edited, the model has a newer schema, the loaded mechanism has other digests than the saved
    mechanism, or the device is absent; the message says which.
    """
    folder = Path(folder)
    model = _read_model(folder / MODEL_FILE)
    here = set(_files(folder))
    for name, digest in _strings(model, "files", folder).items():
        if name not in here:
            raise ConfigError(f"Expected the file {name!r} of the model in {folder}: it is missing. {SAVE_AGAIN}")
        if sha256_of(folder / name) != digest:
            raise ConfigError(f"The file {name!r} in {folder} is not the one that was saved. {SAVE_AGAIN}")
    values = _mapping(model, "settings", folder)
    if device not in (None, "cpu") and on_device("", values) == on_device("cpu", values):
        raise ConfigError(f"Expected device={device!r} for a model with a network: {values.get('kind')} has none.")
    spec = spec_from_settings(values if device is None else on_device(device, values))
    try:
        mechanism = spec.load(folder)
    except DPTextError:
        raise
    except Exception as error:
        # A forged file can break a parser in any way. The chained error may quote it: it is as private as the model.
        raise ConfigError(f"The model in {folder} cannot be loaded ({type(error).__name__}). {SAVE_AGAIN}") from error
    saved, loaded = _strings(model, "digests", folder), dict(mechanism.digests)
    for name in sorted(saved.keys() | loaded.keys()):
        if saved.get(name) != loaded.get(name):
            raise ConfigError(f"The digest {name!r} of the model in {folder} is not the one saved. {SAVE_AGAIN}")
    return mechanism


def model_spec(folder: Path) -> Spec:
    """Return the spec of a saved model from `model.json` alone; no other file of the model is read.

    ConfigError: `model.json` is absent, was edited or cut short, or has a newer schema.
    """
    return spec_from_settings(_mapping(_read_model(folder / MODEL_FILE), "settings", folder))


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _seal(model: Mapping[str, Json]) -> str:
    return hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()


def _read_model(path: Path) -> dict[str, Json]:
    try:
        model = parse_json(path.read_bytes())
        sealed = isinstance(model, dict) and model.pop("sha256", None) == _seal(model)
    except OSError as error:
        raise ConfigError(f"Cannot read the model {path}: {error.strerror}.") from error
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} is not a JSON file: it was cut short or edited. {SAVE_AGAIN}") from None
    schema = model.get("schema") if isinstance(model, dict) else None
    if type(schema) is int and schema > MODEL_SCHEMA:
        raise ConfigError(f"Expected schema={schema!r} of {path} <= {MODEL_SCHEMA}: update dptext to read it.")
    if type(schema) is not int or schema != MODEL_SCHEMA or not sealed:
        raise ConfigError(f"{path} is not as dptext wrote it: it was edited. {SAVE_AGAIN}")
    return dict(model)


def _mapping(model: Mapping[str, Json], key: str, folder: Path) -> dict[str, Json]:
    value = model.get(key)
    if not isinstance(value, dict):
        raise ConfigError(f"Expected {key!r} in {folder / MODEL_FILE} to be an object. {SAVE_AGAIN}")
    return value


def _strings(model: Mapping[str, Json], key: str, folder: Path) -> dict[str, str]:
    found = _mapping(model, key, folder)
    if not all(isinstance(value, str) for value in found.values()):
        raise ConfigError(f"Expected texts in {key!r} in {folder / MODEL_FILE}. {SAVE_AGAIN}")
    return {name: str(value) for name, value in found.items()}
