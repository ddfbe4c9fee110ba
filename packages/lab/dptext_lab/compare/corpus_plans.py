"""The tables of a TOML file that describe a corpus; errors name the key, the expected value and the found value."""

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar

import pydantic

from dptext import _validate
from dptext.errors import ConfigError
from dptext.recommend.measured import Count, Finite
from dptext.text.plain_text import Portion
from dptext.text.reading import OnError

Item = TypeVar("Item")

#: Error types of pydantic that list the allowed values.
_CHOICES: Final = ("literal_error", "enum")
_LONGEST: Final = 200


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a question about the closest known name, or nothing."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def printable(text: str) -> str:
    """Return the text, which may be empty; ValueError if it holds a control character."""
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


PrintableText = Annotated[str, pydantic.AfterValidator(printable)]
Name = Annotated[str, pydantic.AfterValidator(_name)]
PositiveCount = Annotated[int, pydantic.Field(strict=True, ge=1)]
Different = Annotated[tuple[Item, ...], pydantic.AfterValidator(_different)]


class TomlTable(pydantic.BaseModel):
    """A table whose keys are the fields of the model."""

    model_config = pydantic.ConfigDict(frozen=True, allow_inf_nan=False)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _know_every_key(cls, given: object) -> object:
        for key in given if isinstance(given, dict) else ():
            if key not in cls.model_fields:
                raise ValueError(
                    f"{key!r} is no key of this table: {nearest(key, cls.model_fields)}known are "
                    f"{', '.join(cls.model_fields)}"
                )
        return given


def refused(error: pydantic.ValidationError, source: str) -> ConfigError:
    """Return the first fault of the error as one sentence that names the source, such as a file."""
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


Part = Literal["public", "private", "test"]

PARTS: Final[tuple[Part, ...]] = ("public", "private", "test")
DATA: Final = "DPTEXT_DATA"
DEFAULT_DATA: Final = "../shared/data"

_DEFAULT_SHARES: Final[Mapping[Part, float]] = {"public": 0.4, "private": 0.4, "test": 0.2}
_SUM_SLACK: Final = 1e-9
_ONE_ORIGIN: Final = "expected a path, or sample = N for N built-in sample texts: one of the two"


def expanded(path: str) -> str:
    """Replace `$DPTEXT_DATA` in a path by the folder of the corpora."""
    return path.replace(f"${{{DATA}}}", f"${DATA}").replace(f"${DATA}", os.environ.get(DATA) or DEFAULT_DATA)


def _existing(path: str) -> str:
    if path and not Path(path).is_file():
        raise ValueError(f"expected the file {path!r} to exist: give its path, or set {DATA} to the folder of corpora")
    return path


def _several(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


def _label_set(given: object) -> tuple[str, ...]:
    if given == "public":
        return ()
    found = _validate.labels(given)
    if len(found) < 2:
        raise ValueError(f"expected at least two labels, or 'public', found {list(found)!r}")
    return found


class Origin(TomlTable):
    """The origin of records, a file or built-in sample texts, and the choice of records.

    Each field of `where` has one allowed value or several. `limit` records are drawn by the experiment's seed; 0 keeps
    all.
    """

    path: Annotated[PrintableText, pydantic.AfterValidator(expanded), pydantic.AfterValidator(_existing)] = ""
    sample: Count = 0
    where: dict[
        str, Annotated[tuple[pydantic.JsonValue, ...], pydantic.BeforeValidator(_several), pydantic.Field(min_length=1)]
    ] = pydantic.Field(default_factory=dict)
    limit: Count = 0

    @pydantic.model_validator(mode="after")
    def _has_fields(self) -> Self:
        if self.sample and self.where:
            raise ValueError("expected no where beside sample: its texts have no fields")
        return self


class Source(Origin):
    """The origin of one part: a file or sample texts."""

    @pydantic.model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if bool(self.path) == bool(self.sample):
            raise ValueError(_ONE_ORIGIN)
        return self


class CorpusPlan(Origin):
    """One corpus: each part has a source of its own, or a share of the common source, which `Origin` describes.

    Attributes:
        text, label, author: names of fields; empty for a missing field.
        labels: the public label set; empty takes the labels of the public part, or the labels that have names.
        names: the meaning of each label. With names the public part is labelled by these names only.
        record: the part of plain text that is one document: "file", "line" or "block".
        pieces: the records: the documents, or their sentences.
        max_tokens: texts are cut to this number of tokens; 0 cuts nothing.
    """

    text: Name = "text"
    label: PrintableText = ""
    author: PrintableText = ""
    labels: Annotated[tuple[str, ...], pydantic.BeforeValidator(_label_set)] = ()
    names: dict[Name, Name] = pydantic.Field(default_factory=dict)
    record: Portion | None = None
    pieces: Literal["documents", "sentences"] = "documents"
    max_tokens: Count = 0
    on_error: OnError = OnError.STOP
    shares: dict[Part, Annotated[Finite, pydantic.Field(gt=0, lt=1)]] = pydantic.Field(default_factory=dict)
    public: Source | None = None
    private: Source | None = None
    test: Source | None = None

    @property
    def sources(self) -> dict[Part, Source]:
        """The sources of the parts that have their own source."""
        found = {"public": self.public, "private": self.private, "test": self.test}
        return {part: source for part in PARTS if (source := found[part]) is not None}

    @property
    def common(self) -> Source | None:
        """The common source, of which the other parts have shares."""
        if not self.path and not self.sample:
            return None
        return Source.model_construct(path=self.path, sample=self.sample, where=self.where, limit=self.limit)

    @property
    def drawn(self) -> Mapping[Part, float]:
        """The shares of the common source, default shares included."""
        if self.common is None:
            return {}
        return self.shares or {part: share for part, share in _DEFAULT_SHARES.items() if part not in self.sources}

    @pydantic.model_validator(mode="after")
    def _has_every_part_once(self) -> Self:
        if self.path and self.sample:
            raise ValueError(_ONE_ORIGIN)
        if self.common is None and (self.where or self.limit or self.shares):
            raise ValueError("expected where, limit and shares beside a path or sample that the parts share")
        for part in PARTS:
            if (part in self.drawn) == (part in self.sources):
                said = "both" if part in self.drawn else "neither"
                raise ValueError(
                    f"expected the part {part!r} to have a path of its own or a share of the common path, found "
                    f"{said}: write {part} = {{ path = ... }}, or path = ... with shares = {{ {part} = ... }}"
                )
        if (total := sum(self.drawn.values())) > 1 + _SUM_SLACK:
            raise ValueError(f"expected the shares to sum to 1 at most, found {total:g}")
        if (self.labels or self.names) and not self.label:
            raise ValueError("expected label = FIELD with labels: name the field of the label")
        if self.names and (len(self.names) < 2 or set(self.labels or self.names) != set(self.names)):
            raise ValueError("expected a name for each label, of at least two: complete names")
        return self
