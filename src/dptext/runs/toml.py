"""TOML of bounded size and depth: settings need no more, and a hostile file costs no time."""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from dptext.errors import ConfigError
from dptext.text.inputs import read_whole
from dptext.types import Json

_MAX_TOML_BYTES = 2**20
_MAX_TOML_DEPTH = 64
_MAX_TOML_INTEGER = 2**63

#: Comments and strings of TOML; one that is not closed ends with its line, or with the text.
_NO_KEY_OF_TOML = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?""", re.DOTALL
)
_BETWEEN_KEYS_OF_TOML = re.compile(r"[=,{}\[\]\n]")


def parse_toml(text: str, name: str) -> dict[str, Json]:
    """The table in a text in TOML.

    Args:
        text: to parse.
        name: of the text, in errors.

    Raises:
        tomllib.TOMLDecodeError: the text is not TOML.
        ConfigError: the text is larger than a megabyte or nested deeper than 64 levels, or it holds an integer of more
            than 64 bits or a number that is not finite.
    """
    if len(text) > _MAX_TOML_BYTES:
        raise ConfigError(f"Expected {name} to be at most {_MAX_TOML_BYTES} characters long.")
    # Each dot in a key is a level. The time of tomllib grows with the square of their number.
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
    """The table in a TOML file, as `parse_toml` reads it; ConfigError where it cannot be read, or is not TOML."""
    try:
        return parse_toml(read_whole(path, limit=_MAX_TOML_BYTES).decode(), str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}.") from error


def settings_to_toml(settings: Mapping[str, Json]) -> str:
    """Settings as TOML, tables last. JSON of strings, numbers and lists of them is TOML, too."""
    alone = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in alone.items()]
    for name, value in settings.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}]", settings_to_toml(value).rstrip()]
    return "\n".join([*lines, ""])
