"""Tables of a TOML file as pydantic models. An error names the key, what was expected and what was found."""

import difflib
import re
from collections.abc import Iterable
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from dptext.errors import ConfigError

Item = TypeVar("Item")

#: Error types of pydantic that list the values which are allowed.
_CHOICES: Final = ("literal_error", "enum")
_LONGEST: Final = 200


def nearest(name: object, known: Iterable[str]) -> str:
    """A question about the known name that is closest, or nothing."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def printable(text: str) -> str:
    """The text, which may be empty; ValueError where it holds a control character."""
    if not text.isprintable():
        raise ValueError(f"expected a text without control characters, found {text!r}")
    return text


def _name(text: str) -> str:
    if not text or text != text.strip():
        raise ValueError(f"expected a text that is not empty and has no blanks around it, found {text!r}")
    return printable(text)


def _different(values: tuple[Item, ...]) -> tuple[Item, ...]:
    if len(set(map(repr, values))) < len(values):
        raise ValueError(f"expected a list of different values, found {list(values)!r}")
    return values


PrintableText = Annotated[str, AfterValidator(printable)]
Name = Annotated[str, AfterValidator(_name)]
Count = Annotated[int, Field(strict=True, ge=0)]
PositiveCount = Annotated[int, Field(strict=True, ge=1)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Different = Annotated[tuple[Item, ...], AfterValidator(_different)]


class TomlTable(BaseModel):
    """A table whose keys are the fields of the model."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _know_every_key(cls, given: object) -> object:
        for key in given if isinstance(given, dict) else ():
            if key not in cls.model_fields:
                raise ValueError(
                    f"{key!r} is no key of this table: {nearest(key, cls.model_fields)}known are "
                    f"{', '.join(cls.model_fields)}"
                )
        return given


def refused(error: ValidationError, source: str) -> ConfigError:
    """The first fault of the error in one sentence, which names the source, such as a file."""
    fault = error.errors(include_url=False)[0]
    key = "".join(f" number {part + 1}" if isinstance(part, int) else f".{part}" for part in fault["loc"])
    where = f"{source}, {key.replace('.[key]', '').removeprefix('.')}" if key else source
    if fault["type"] == "value_error":
        return ConfigError(f"{where}: {str(fault['ctx']['error']).removesuffix('.')}.")
    if fault["type"] == "missing":
        return ConfigError(f"{where}: expected a value, found nothing.")
    said = fault["msg"].replace("Input should", "it should").replace("tuple", "list")
    if fault["type"] in ("model_type", "dict_type"):
        said = "it should be a table, KEY = VALUE"
    hint = nearest(fault["input"], re.findall(r"'([^']*)'", said)) if fault["type"] in _CHOICES else ""
    found = repr(fault["input"])
    return ConfigError(
        f"{where}: {hint}{said}, found {found if len(found) <= _LONGEST else found[:_LONGEST] + ' ...'}."
    )
