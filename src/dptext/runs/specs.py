"""From text (TOML, JSON, KEY=VALUE) to a spec, and the list of mechanisms."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from dptext.errors import ConfigError
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
from dptext.runs.toml import parse_toml, read_toml
from dptext.types import Json

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


def read_spec(path: Path, changes: Mapping[str, Json] | None = None) -> AnySpec:
    """The spec of a TOML file whose keys are the spec's fields, with some of them changed.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or does not make a spec.
    """
    return spec_from_settings({**read_toml(path), **(changes or {})})


def on_device(device: str, values: Mapping[str, Json]) -> dict[str, Json]:
    """Settings with this device where they have one, those of a mechanism in them, too."""
    found = {**values, "device": device} if "device" in values else {**values}
    inner = found.get("mechanism")
    return {**found, "mechanism": on_device(device, inner)} if isinstance(inner, dict) else found
