"""The list of mechanisms, and the ways to one: from text (TOML, JSON, KEY=VALUE) to a spec, from a folder to a model.

A saved model is a folder: what the mechanism writes, and `model.json` with the spec's settings, the digests and the
sha256 of every file. Loading compares all of them, so that no file can be cut short, edited or mixed up unnoticed. It
is not signed: whoever can replace every file can forge a model, and is known by its digests only.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import re
import secrets
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from dptext.errors import ConfigError, DPTextError
from dptext.mechanism import Mechanism, settings
from dptext.mechanisms.adept.dpsgd import AdeptDpSgd
from dptext.mechanisms.adept.published import PublishedAdept
from dptext.mechanisms.adept.sound import Adept
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.mechanisms.embedded import Embedded
from dptext.mechanisms.erae import ErAe
from dptext.mechanisms.redaction.pii import PiiRedaction
from dptext.mechanisms.redaction.random import CountRedaction, RandomRedaction
from dptext.mechanisms.redaction.smart import SmartRedaction
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
from dptext.mechanisms.sentences.truncation import Truncation
from dptext.mechanisms.words.private_phrases import PrivatePhrases
from dptext.mechanisms.words.random_replacement import RandomReplacement
from dptext.mechanisms.words.syntf import SynTf
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.text.files import create_private, sha256_of
from dptext.text.formats import file_error, parse_json, read_whole
from dptext.types import Json

MODEL_FILE = "model.json"
MODEL_SCHEMA = 1
_SAVE_AGAIN = "Fit and save it again."

_MAX_TOML_BYTES = 2**20
_MAX_TOML_DEPTH = 64
_MAX_TOML_INTEGER = 2**63
#: Comments and strings of TOML; one that is not closed ends with its line, or with the text.
_NO_KEY_OF_TOML = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?""", re.DOTALL
)
_BETWEEN_KEYS_OF_TOML = re.compile(r"[=,{}\[\]\n]")

AnySpec = (
    WordMetric
    | PrivatePhrases
    | Adept
    | AdeptDpSgd
    | PublishedAdept
    | LabelOnly
    | DeepCandidate
    | Candidates
    | Truncation
    | ErAe
    | RandomReplacement
    | SynTf
    | RandomRedaction
    | CountRedaction
    | SmartRedaction
    | PiiRedaction
    | Embedded
)

SPECS: dict[str, type[AnySpec]] = {
    str(next(f.default for f in fields(cls) if f.name == "kind")): cls for cls in get_args(AnySpec)
}


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"did you mean {close[0]!r}? " if close else ""


def spec_from_settings(values: Mapping[str, Json]) -> AnySpec:
    """The spec with these settings, `kind` among them.

    Raises:
        ConfigError: the kind or a key is unknown (the nearest known name is given), a key is missing, or a
            value cannot be used.
    """
    settings: dict[str, object] = dict(values)
    kind = settings.pop("kind", None)
    if not isinstance(kind, str) or kind not in SPECS:
        hint = _nearest(str(kind), sorted(SPECS))
        raise ConfigError(f"Expected kind={kind!r} to name a mechanism: {hint}Known: {', '.join(sorted(SPECS))}.")
    cls = SPECS[kind]
    known = [field.name for field in fields(cls) if field.init]
    for key, value in settings.items():
        if key not in known:
            hint = _nearest(key, known)
            raise ConfigError(f"Expected {key!r} to be a setting of {kind}: {hint}Known: {', '.join(known)}.")
        if isinstance(value, bool):
            raise ConfigError(f"Expected {key}={value!r} not to be a boolean.")
        if cls is Embedded and key == "mechanism":
            if not isinstance(value, Mapping) or value.get("kind") == kind:
                raise ConfigError(
                    f"Expected the mechanism of {kind} to be settings of another, with its kind among them."
                )
            settings[key] = spec_from_settings(value)
    try:
        return TypeAdapter(cls).validate_python(settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "value_error":
            raise ConfigError(message) from error
        found = "" if first["type"] == "missing" else f", found {first['input']!r}"
        raise ConfigError(f"Setting {where!r} of {kind}: {message}{found}.") from error


def parse_setting(text: str) -> tuple[str, Json]:
    """KEY=VALUE of the command line; VALUE is read as TOML where it can be, else as text.

    Raises:
        ConfigError: there is no "=", or VALUE is what `parse_toml` refuses.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"Expected {text!r} to look like KEY=VALUE.")
    try:
        parsed = parse_toml(f"value = {value}", f"the setting {key.strip()!r}")
    except tomllib.TOMLDecodeError:
        return key.strip(), value
    return key.strip(), parsed["value"] if len(parsed) == 1 else value


def parse_toml(text: str, name: str) -> dict[str, Json]:
    """The table that a text in TOML stands for, if no setting needs more.

    Args:
        text: to parse.
        name: of it, in errors.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML.
        ConfigError: it is larger than a megabyte or nested deeper than 64 levels (as by dots in a key, for which
            `tomllib` takes time that grows with the square of their number), or holds an integer of more than 64 bits
            or a number that is not finite.
    """
    if len(text) > _MAX_TOML_BYTES:
        raise ConfigError(f"Expected {name} to be at most {_MAX_TOML_BYTES} characters long.")
    pieces = _BETWEEN_KEYS_OF_TOML.split(_NO_KEY_OF_TOML.sub("", text))
    deep = max(piece.count(".") for piece in pieces) >= _MAX_TOML_DEPTH
    found: dict[str, Json] = {}
    try:
        found = {} if deep else tomllib.loads(text)
    except RecursionError:
        deep = True
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python reads no integer of thousands of digits
        raise ConfigError(f"Expected integers of at most 64 bits in {name}.") from None
    if deep:
        raise ConfigError(f"Expected {name} to be nested in at most {_MAX_TOML_DEPTH} levels.")
    _check_toml(found, name, _MAX_TOML_DEPTH)
    return found


def _check_toml(value: object, name: str, depth: int) -> None:
    if depth < 0:
        raise ConfigError(f"Expected {name} to be nested in at most {_MAX_TOML_DEPTH} levels.")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_toml(item, name, depth - 1)
    elif isinstance(value, int) and not -_MAX_TOML_INTEGER <= value < _MAX_TOML_INTEGER:
        raise ConfigError(f"Expected integers of at most 64 bits in {name}.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"Expected numbers that are finite in {name}, found {value!r}.")


def read_toml(path: Path) -> dict[str, Json]:
    """The table in a TOML file, as `parse_toml` reads it.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
    """
    try:
        return parse_toml(read_whole(path, limit=_MAX_TOML_BYTES).decode(), str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}.") from error


def read_spec(path: Path, changes: Mapping[str, Json] | None = None) -> AnySpec:
    """The spec of a TOML file whose keys are the spec's fields, with some of them changed.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or does not make a spec.
    """
    return spec_from_settings({**read_toml(path), **(changes or {})})


def save_model(mechanism: Mechanism[str], folder: Path) -> None:
    """Write a fitted mechanism into a new folder, for `load_model`.

    The folder (mode 0700, files 0600) appears when it is complete. It holds public data only, unless the mechanism was
    trained on private text.

    Raises:
        ConfigError: there is something at the path that is not an empty folder, or the disk refuses.
    """
    folder = folder.resolve()
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"Expected folder={str(folder)!r} to be absent or empty. Choose another folder.")
        partial.mkdir(mode=0o700)
        mechanism.save(partial)
        files = _files(partial)
        for name in files:
            (partial / name).chmod(0o600)
        model: dict[str, Json] = {
            "schema": MODEL_SCHEMA,
            "settings": settings(mechanism.spec),
            "digests": dict(mechanism.digests),
            "files": {name: sha256_of(partial / name) for name in files},
            "version": version("dptext"),
        }
        with create_private(partial / MODEL_FILE) as file:
            file.write((json.dumps({**model, "sha256": _seal(model)}, indent=2, allow_nan=False) + "\n").encode())
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except OSError as error:
        raise file_error(folder, "write", error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load_model(folder: Path, *, device: str | None = None) -> Mechanism[str]:
    """The mechanism that `save_model` wrote; what it was fitted on need not be there any more.

    Args:
        folder: of the model.
        device: where its network is to compute, such as "cpu" for a model that was fitted on a GPU; as it was saved
            where it is None. The mechanism's spec, and so its certificates, name this device; files, seal and digests
            are held against what was saved.

    Raises:
        ConfigError: a file is absent, cut short or edited, the model is of a newer schema, what is loaded has other
            digests than what was saved, or the device is not here; the message says which.
    """
    model = _read_model(folder / MODEL_FILE)
    here = set(_files(folder))
    for name, digest in _strings(model, "files", folder).items():
        if name not in here:
            raise ConfigError(f"Expected the file {name!r} of the model in {folder}: it is missing. {_SAVE_AGAIN}")
        if sha256_of(folder / name) != digest:
            raise ConfigError(f"The file {name!r} in {folder} is not the one that was saved. {_SAVE_AGAIN}")
    values = _mapping(model, "settings", folder)
    if device not in (None, "cpu") and on_device("", values) == on_device("cpu", values):
        raise ConfigError(f"Expected device={device!r} for a model with a network: {values.get('kind')} has none.")
    spec = spec_from_settings(values if device is None else on_device(device, values))
    try:
        mechanism = spec.load(folder)
    except DPTextError:
        raise
    except Exception as error:
        # Whoever made the files up can break a parser in any way. They are public, or as private as the model.
        raise ConfigError(f"The model in {folder} cannot be loaded ({type(error).__name__}). {_SAVE_AGAIN}") from error
    saved, loaded = _strings(model, "digests", folder), dict(mechanism.digests)
    for name in sorted(saved.keys() | loaded.keys()):
        if saved.get(name) != loaded.get(name):
            raise ConfigError(f"The digest {name!r} of the model in {folder} is not the one saved. {_SAVE_AGAIN}")
    return mechanism


def on_device(device: str, values: Mapping[str, Json]) -> dict[str, Json]:
    """Settings with this device where they have one, those of a mechanism in them, too."""
    found = {**values, "device": device} if "device" in values else {**values}
    inner = found.get("mechanism")
    return {**found, "mechanism": on_device(device, inner)} if isinstance(inner, dict) else found


def model_spec(folder: Path) -> AnySpec:
    """The spec of a saved model, read of `model.json` alone: no other file of the model is looked at.

    Raises:
        ConfigError: there is no such file, it was edited or cut short, or is of a newer schema.
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
        raise ConfigError(f"{path} is not a JSON file: it was cut short or edited. {_SAVE_AGAIN}") from None
    schema = model.get("schema") if isinstance(model, dict) else None
    if type(schema) is int and schema > MODEL_SCHEMA:
        raise ConfigError(
            f"Expected schema={schema!r} of {path} to be at most {MODEL_SCHEMA}: update dptext to read it."
        )
    if type(schema) is not int or schema != MODEL_SCHEMA or not sealed:
        raise ConfigError(f"{path} is not as dptext wrote it: it was edited. {_SAVE_AGAIN}")
    return dict(model)


def _mapping(model: Mapping[str, Json], key: str, folder: Path) -> dict[str, Json]:
    value = model.get(key)
    if not isinstance(value, dict):
        raise ConfigError(f"Expected {key!r} in {folder / MODEL_FILE} to be an object. {_SAVE_AGAIN}")
    return value


def _strings(model: Mapping[str, Json], key: str, folder: Path) -> dict[str, str]:
    found = _mapping(model, key, folder)
    if not all(isinstance(value, str) for value in found.values()):
        raise ConfigError(f"Expected texts in {key!r} in {folder / MODEL_FILE}. {_SAVE_AGAIN}")
    return {name: str(value) for name, value in found.items()}
