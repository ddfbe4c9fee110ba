"""Specs from settings as text: a TOML file, JSON in a certificate or a model, KEY=VALUE on the command line.

TOML has bounded size and depth: settings need no more, and so a hostile file costs no time.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from dptext.doors import absent
from dptext.errors import ConfigError
from dptext.mechanism import Answers, Moved, Promise, Spec, setting_fields
from dptext.registry import MECHANISMS, SYNTHESES, answers
from dptext.text.formats import spelled
from dptext.text.inputs import read_whole
from dptext.types import Json

if TYPE_CHECKING:  # runs that answer each text load no synthesis
    from dptext.synthesis.spec import CorpusSpec

_MAX_TOML_BYTES = 2**20
_MAX_TOML_DEPTH = 64
_MAX_TOML_INTEGER = 2**63
#: Comments and strings of TOML. An unclosed string ends with its line or, if it may span lines, with the text.
_NO_KEY_OF_TOML = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?""", re.DOTALL
)
_BARE_KEY = re.compile("[A-Za-z0-9_-]+")  # of TOML; others are quoted, as in JSON
_BETWEEN_KEYS_OF_TOML = re.compile(r"[=,{}\[\]\n]")


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}? " if close else ""


def from_settings(values: Mapping[str, Json]) -> Promise:
    """Return the spec of a mechanism or a synthesis with these settings, `kind` among them.

    ConfigError as `spec_from_settings`.
    """
    of_corpus = answers(values.get("kind")) is Answers.CORPUS
    return synthesis_from_settings(values) if of_corpus else spec_from_settings(values)


def synthesis_from_settings(values: Mapping[str, Json]) -> CorpusSpec:
    """Return the spec of a synthesis with these settings, `kind` among them; ConfigError as `spec_from_settings`."""
    found: CorpusSpec = _spec(values, SYNTHESES, "a synthesis")
    return found


def spec_from_settings(values: Mapping[str, Json]) -> Spec:
    """Return the spec of a mechanism with these settings, `kind` among them.

    ConfigError: no mechanism of this kind is installed, its package cannot be used, a key is unknown or missing, or a
    value cannot be used. For an unknown name the message suggests the nearest known name.
    """
    if answers(values.get("kind")) is Answers.CORPUS:
        raise ConfigError(
            f"Expected a mechanism, which answers each record, found {values['kind']!r}, which answers a corpus: "
            f"dptext {SYNTHESES[str(values['kind'])].command}."
        )
    found: Spec = _spec(values, MECHANISMS, "a mechanism that is installed")
    return found


def _spec(values: Mapping[str, Json], kinds: Mapping[str, type[Promise]], what: str) -> Any:
    given = dict(values)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in kinds:
        said = absent("dptext.mechanisms", str(kind)) or absent("dptext.syntheses", str(kind))
        if said and answers(kind) is None:
            raise ConfigError(f"Expected kind={kind!r} to name {what}.{said}")
        hint = _nearest(str(kind), sorted(kinds))
        raise ConfigError(f"Expected kind={kind!r} to name {what}. {hint}Known: {', '.join(sorted(kinds))}.")
    cls = kinds[kind]
    known = {field.name: field for field in setting_fields(cls)}
    moved: Moved | None = getattr(cls, "moved", None)
    settings: dict[str, object] = {}
    for key, value in given.items():
        if moved is not None:
            moved.refuse(kind, key, value)
        require_setting(key, kind, known)
        if isinstance(value, bool) and _types(cls)[key] is not bool:  # pydantic would take it for a number
            raise ConfigError(f"Expected {key}={value!r} not to be a boolean.")
        settings[key] = _value(cls, kind, key, value)
    for key, field in known.items():
        if key not in settings and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"Setting {key!r} of {kind}: Field required. Give it a value, by --set {key}=VALUE.")
    return cls(**settings)


def require_setting(key: str, of: str, known: Collection[str]) -> None:
    """Raise ConfigError if a key is none of the known settings `of` something; the nearest known name is suggested."""
    if key not in known:
        hint = _nearest(key, list(known))
        raise ConfigError(
            f"Expected {key!r} to be a setting of {of}: {hint or 'it is none. '}Known: {', '.join(known)}."
        )


def _value(cls: type[Promise], kind: str, key: str, value: Json) -> object:
    if _types(cls)[key] is Spec:
        if not isinstance(value, dict) or value.get("kind") == kind:
            raise ConfigError(f"Expected the mechanism of {kind} to be settings of another, with its kind among them.")
        return spec_from_settings(value)
    if isinstance(value, str | int) and get_origin(_types(cls)[key]) is tuple:  # a list as it is typed: 10,20
        value = [each.strip() for each in str(value).split(",")]
    if isinstance(value, dict) and _types(cls)[key] == tuple[str, ...]:  # the table [columns]
        value = [f"{name}: {what}" for name, what in value.items()]
    if isinstance(value, list) and _types(cls)[key] == tuple[str, ...]:
        value = [
            each if isinstance(each, dict | list) else cast("Json", spelled(each)) for each in value
        ]  # labels that are numbers become texts, spelled as in files
    try:
        return _reader(cls, key).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in (key, *first["loc"]))
        remedy = _REMEDIES.get(first["type"], "").format(key=key)
        raise ConfigError(f"Setting {where!r} of {kind}: {first['msg']}, found {first['input']!r}.{remedy}") from error


#: Remedies that messages give, by pydantic's name of the error.
_REMEDIES = {
    "tuple_type": " Give a list, as in {key}=a,b or {key}=10,20.",
    "float_parsing": " Give a number with a decimal point, as in {key}=0.5.",
    "int_parsing": " Give a whole number, as in {key}=100.",
    "int_from_float": " Give a whole number, as in {key}=100.",
}


@cache
def _types(cls: type[Promise]) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _reader(cls: type[Promise], key: str) -> TypeAdapter[object]:
    return TypeAdapter(_types(cls)[key])


def parse_setting(text: str) -> tuple[str, Json]:
    """Return key and value of KEY=VALUE. A VALUE in TOML is parsed, any other is text. ConfigError: no KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"Expected {text!r} to look like KEY=VALUE.")
    try:
        parsed = parse_toml(f"value = {value}", f"the setting {key.strip()!r}")
    except tomllib.TOMLDecodeError:
        return key.strip(), value
    return key.strip(), parsed["value"] if len(parsed) == 1 else value


def read_spec(path: Path, changes: Mapping[str, Json] | None = None) -> Spec:
    """Return the spec in a TOML file, whose keys are `kind` and the settings. `changes` replace or add settings.

    ConfigError: the file cannot be read, is not TOML, or does not make a spec.
    """
    return spec_from_settings({**read_toml(path), **(changes or {})})


def on_device(device: str, values: Mapping[str, Json]) -> dict[str, Json]:
    """Return the settings with `device` replaced where it occurs, also in the settings of an inner mechanism."""
    found = {key: on_device(device, value) if isinstance(value, dict) else value for key, value in values.items()}
    return {**found, "device": device} if "device" in found else found


def parse_toml(text: str, name: str) -> dict[str, Json]:
    """Return the table in a TOML text. Errors call the text `name`.

    tomllib.TOMLDecodeError: the text is no TOML. ConfigError: the text is larger than a megabyte or nested deeper than
    64 levels, or it holds an integer of more than 64 bits or a number that is not finite.
    """
    if len(text) > _MAX_TOML_BYTES:
        raise ConfigError(f"Expected {name} to be at most {_MAX_TOML_BYTES} characters long.")
    # Each dot in a key is a level. The time of tomllib grows with the square of the number of levels.
    pieces = _BETWEEN_KEYS_OF_TOML.split(_NO_KEY_OF_TOML.sub("", text))
    deep = max(piece.count(".") for piece in pieces) >= _MAX_TOML_DEPTH
    found: dict[str, Json] = {}
    try:
        found = {} if deep else tomllib.loads(text)
    except RecursionError:
        deep = True
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python refuses integers of thousands of digits
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
    """Return the table in a TOML file, by `parse_toml`. ConfigError: the file cannot be read, or is no TOML."""
    try:
        return parse_toml(read_whole(path, limit=_MAX_TOML_BYTES).decode("utf-8-sig"), str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}.") from error


def settings_to_toml(settings: Mapping[str, Json]) -> str:
    """Return settings as TOML, tables last. JSON strings, numbers and lists of these are valid TOML."""
    alone = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    lines = [
        f"{name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)} = "
        f"{json.dumps(value, ensure_ascii=False)}"
        for name, value in alone.items()
    ]
    for name, value in settings.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}]", settings_to_toml(value).rstrip()]
    return "\n".join([*lines, ""])
