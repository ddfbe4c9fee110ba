"""The list of mechanisms, and the way from text (TOML, JSON, KEY=VALUE) to a spec and back."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from dptext.errors import ConfigError
from dptext.guarantee import Json
from dptext.mechanisms.private_phrases import PrivatePhrases
from dptext.mechanisms.word_metric import WordMetric

AnySpec = WordMetric | PrivatePhrases

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
    settings = dict(values)
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
        ConfigError: there is no "=".
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"Expected {text!r} to look like KEY=VALUE.")
    try:
        parsed: Json = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    return key.strip(), parsed


def read_spec(path: Path, changes: Mapping[str, Json] | None = None) -> AnySpec:
    """The spec of a TOML file whose keys are the spec's fields, with some of them changed.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or does not make a spec.
    """
    try:
        values: dict[str, Json] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read the spec {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}.") from error
    return spec_from_settings({**values, **(changes or {})})
