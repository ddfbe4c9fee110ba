"""The certificate beside a released file: the settings and events, the guarantees, and the sha256 of the file.

A certificate is public: only the items that the guarantee lists in `reveals` are computed from private text. The
certificate of a data set holds the sha256 of its manifest, and the manifest names each part.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar, cast

from dptext import _validate
from dptext._wording import html_text, plural
from dptext.errors import ConfigError, DataError
from dptext.privacy.events import Event, event_from_dict, event_to_dict
from dptext.privacy.guarantee import Guarantee, Unit, format_delta, format_epsilon
from dptext.runs.written_from import WRITER_TYPES, said_of_writer
from dptext.text.files import sha256_of
from dptext.text.formats import Format
from dptext.text.inputs import parse_json, read_whole, telling
from dptext.text.plain_text import Portion, said_record
from dptext.text.records import ID_FIELD, LABEL_FIELD, TEXT_FIELD
from dptext.types import Json
from dptext.version import __version__

SCHEMA: Final = 4
ONE_RELEASE = "one release; each repetition adds"
WRITTEN_AGAIN = "writing again from the summary adds nothing"
SUM_AGAIN = "adding up again adds nothing; each further summary of the same records adds"
#: Changes to texts as they are read, by the name of the setting.
READING = {
    "empty_nulls": "null texts were read as empty ones",
    "strip_html": "HTML tags were taken out of the texts first",
}

_HEX = 64
_LONGEST_NAME = 255  # bytes of a file's name
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
Kind = TypeVar("Kind")


def certificate_path(output: Path) -> Path:
    """Return the path of an output file's certificate."""
    return output.with_name(output.name + ".guarantee.json")


def check_name(name: str) -> None:
    """Raise ConfigError unless a certificate can state this file name: UTF-8, one line, at most 255 bytes."""
    try:
        fault = "at most 255 bytes long" if len(name.encode()) > _LONGEST_NAME else ""
    except UnicodeEncodeError:
        fault = "in UTF-8"
    if not fault and _CONTROLS.search(name):
        fault = "without control characters and line breaks"
    if fault:
        raise ConfigError(f"Expected names of files {fault}, as the certificate states them, found {name!r}.")


def stream_mark(stream: str) -> str:
    """Return the release that the ledger records for a charge whose releases left as a stream."""
    return f"stream {stream}"


def reading_revealed(reading: Iterable[str]) -> tuple[str, ...]:
    """Return what settings of reading reveal: each choice, because the private texts may have led to the choice."""
    return tuple(f"the setting that {READING[name]}" for name in reading)


@dataclass(frozen=True, slots=True)
class Charged:
    """The charge that paid for a release, to be found in the ledger."""

    account: str  #: name of the account
    dataset: str  #: the people or texts that the account is for
    unit: Unit  #: unit of the account's limit
    number: int  #: number of the charge in the ledger
    by_subject: bool  #: True: each subject of the run was charged; False: everyone in the account
    #: mark of the stream that the charge was settled with; None if it was settled with the sha256 of a file
    stream: str | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the charge as JSON-able data, without `stream` if it is None."""
        return {name: value for name, value in asdict(self).items() if name != "stream" or value is not None}

    def explain(self) -> str:
        """Return the charge in plain words."""
        whom = f"each {self.unit.value} in it" if self.by_subject else "everyone in the account"
        return (
            f"charge {self.number} of account {self.account!r} (dataset {self.dataset!r}, per {self.unit.value}), to "
            f"{whom}; each repetition is charged again"
        )


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of one released file.

    Attributes:
        settings: the settings of the spec, `kind` first.
        events: the privacy events of the spec's smallest unit, in each record.
        guarantees: one guarantee for each unit that has one, smallest first.
        records: number of released records.
        output, sha256: name of the released file, without its folder, and its sha256.
        digests: sha256 digests of the fitted model and of its public data, by name.
        version: version of dptext.
        randomness: "secure" or "seeded".
        delta: the delta at which the guarantees are stated.
        max_per_author: the enforced maximum of records per author, if the run had one.
        also_reveals: what the run reveals besides the mechanism (kept fields, the number of records).
        charged: the charge that paid for the release; None without a ledger.
        fields: the names in the file of the columns `id`, `text` and `label` that have other names; of a summary,
            those of what is written from it.
        reading: the changes to texts as they were read, by their names in `READING`; they show in releases.
        record: the record of plain text: "file", "line" or "block"; empty if records were rows.
        forms: the formats of the files of an input of several formats, sorted; else empty.
        derived: where the output comes from, if it was not computed from private records: for texts that were written
            from a summary its sha256, as `summary`, the settings of the `writer`, and what else `said_of_writer` reads;
            for a sum of summaries the sha256 of each, as `added`.
    """

    settings: Mapping[str, Json]
    events: tuple[Event, ...]
    guarantees: tuple[Guarantee, ...]
    records: int
    output: str
    sha256: str
    digests: Mapping[str, str]
    randomness: str
    delta: float
    max_per_author: int | None
    also_reveals: tuple[str, ...]
    version: str = ""
    charged: Charged | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    reading: tuple[str, ...] = ()
    record: str = ""
    forms: tuple[str, ...] = ()
    derived: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _validate.probability(delta=self.delta)
        if not 0 <= self.records < 2**63:
            raise ConfigError("Expected records to be at least 0, and fewer than a file can hold.")
        if self.max_per_author is not None:
            _validate.count(max_per_author=self.max_per_author)
        if not self.events or not self.guarantees:
            raise ConfigError("Expected a certificate with events and guarantees, found none.")

    @property
    def repetition(self) -> str:
        """The cost of another release of the same records, in words. Writing from a summary again costs nothing."""
        if self.writes_from_summary:
            paid = "" if self.charged is None else f"the summary: {self.charged.explain()}; "
            return f"{paid}{WRITTEN_AGAIN}"
        if self.derived:
            return SUM_AGAIN
        return ONE_RELEASE if self.charged is None else self.charged.explain()

    @property
    def writes_from_summary(self) -> bool:
        """Whether the output has texts that were written from a summary."""
        return "writer" in self.derived

    @property
    def assumed_of_writer(self) -> tuple[str, ...]:
        """What is assumed of the writer of texts from a summary, besides the assumptions of the guarantees."""
        return tuple(cast("list[str]", self.derived.get("assumptions", [])))

    def to_json(self) -> str:
        """Return the certificate as JSON text."""
        late = ("fields", "reading", "record", "forms", "derived")
        data: dict[str, object] = {"schema": SCHEMA}
        data |= {each.name: getattr(self, each.name) for each in fields(self) if each.name not in late}
        data |= {
            "settings": dict(self.settings),
            "events": [event_to_dict(event) for event in self.events],
            "guarantees": [guarantee.to_dict() for guarantee in self.guarantees],
            "digests": dict(self.digests),
            "version": self.version or __version__,
            "charged": None if self.charged is None else self.charged.to_dict(),
            "repetition": self.repetition,
        }
        said = ((name, getattr(self, name)) for name in late)
        data |= {name: dict(own) if isinstance(own, Mapping) else own for name, own in said if own}
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Return the certificate in JSON text. ConfigError: the text is no certificate, or has another schema."""
        try:
            data = json.loads(text)
            found = _read(_typed(data, dict))
            if data["repetition"] != found.repetition:
                raise ValueError("its sentence on repetition does not follow from its charge")
        except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError("This is not a certificate that dptext wrote.") from None
        return found

    def check_file(self, folder: Path) -> None:
        """Raise DataError unless the certified file lies in `folder` and has the certified sha256.

        `dptext.verify` checks the file and the certificate itself.
        """
        path = folder / Path(self.output).name
        if not path.is_file():
            raise DataError(f"Expected {path}, the file of this certificate, beside it: nothing is verified.")
        if sha256_of(path) != self.sha256:
            raise DataError(f"{path} is not the file that this certificate was written for: its sha256 differs.")

    def __repr__(self) -> str:
        own, what = self.guarantees[-1], f"{self.output!r}, kind={self.settings.get('kind')!r}, records={self.records}"
        numbers = f"epsilon={format_epsilon(own.epsilon)}, delta={format_delta(own.delta)}"
        return f"Certificate({what}, {numbers}, unit={own.unit.value!r}, relation={own.relation.value!r})"

    def _repr_html_(self) -> str:
        return html_text(f"{self.guarantees[-1].sentence()}\n\n{self.explain()}")

    def explain(self) -> str:
        """Return the certificate in plain words."""
        said = [*(READING[name] for name in self.reading), self.repetition]
        texts = plural(self.records, "record") if self.records else "no texts"
        head = (
            f"{self.output}: {texts}, mechanism {self.settings['kind']}, dptext "
            f"{self.version}, {self.randomness} randomness; {'; '.join(said)}."
        )
        head += f" {said_record(self.record, self.forms)}"
        if self.writes_from_summary:
            head += f" {said_of_writer(self.derived)}"
        elif self.derived:
            added = cast("list[str]", self.derived["added"])
            head += f" It is the sum of {len(added)} summaries: sha256 {', '.join(each[:12] for each in added)}."
        return "\n\n".join([head, *(guarantee.explain() for guarantee in self.guarantees)])


def _typed(value: object, kind: type[Kind]) -> Kind:
    """Return the value. TypeError: it is not of exactly this type; a boolean is no number."""
    if type(value) is not kind:
        raise TypeError(f"Expected {kind.__name__}.")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_typed(item, str) for item in _typed(value, list))


def _digest(value: object) -> str:
    found = _typed(value, str)
    if len(found) != _HEX or not set(found) <= set("0123456789abcdef"):
        raise ValueError("Expected a sha256.")
    return found


def _fields(found: Mapping[str, Json]) -> dict[str, str]:
    named = {name: _typed(value, str) for name, value in found.items()}
    there = {ID_FIELD: ID_FIELD, **named}  # a file may lack the others
    known = named.keys() <= {ID_FIELD, TEXT_FIELD, LABEL_FIELD}
    if not known or not all(named.values()) or len(set(there.values())) < len(there):
        raise ValueError("Expected names of columns, all different.")
    return named


def _read(data: Mapping[str, Json]) -> Certificate:
    """Return the certificate in JSON data. TypeError, KeyError or ValueError: the data are no certificate."""
    if (schema := _typed(data["schema"], int)) != SCHEMA:
        raise ConfigError(
            f"Expected a certificate of schema {SCHEMA}, found schema {schema}: read it with the version of dptext "
            "that wrote it, or release the texts again, which costs epsilon again."
        )
    paid, charged = data["charged"], None
    if paid is not None:
        paid = _typed(paid, dict)
        account, dataset, unit = (_typed(paid[name], str) for name in ("account", "dataset", "unit"))
        number, by_subject = _typed(paid["number"], int), _typed(paid["by_subject"], bool)
        stream = None if paid.get("stream") is None else _digest(paid["stream"])
        charged = Charged(account, dataset, Unit(unit), number, by_subject, stream)
    output = _typed(data["output"], str)
    if Path(output).name != output or not 0 < len(output.encode()) <= _LONGEST_NAME or "\0" in output:
        raise ValueError("Expected the name of a file, without a folder.")
    delta, most = data["delta"], data["max_per_author"]
    reading = _texts(data.get("reading", []))
    if not set(reading) <= READING.keys():
        raise ValueError("Expected what dptext does to texts as it reads them.")
    record = _typed(data.get("record", ""), str)
    if record not in ("", *Portion):
        raise ValueError("Expected what one record of plain text is.")
    forms = _texts(data.get("forms", []))
    if forms and (len(forms) < 2 or list(forms) != sorted(set(forms) & {*Format})):
        raise ValueError("Expected the formats of files.")
    return Certificate(
        settings=_typed(data["settings"], dict),
        events=tuple(event_from_dict(_typed(event, dict)) for event in _typed(data["events"], list)),
        guarantees=tuple(Guarantee.from_dict(_typed(item, dict)) for item in _typed(data["guarantees"], list)),
        records=_typed(data["records"], int),
        output=output,
        sha256=_digest(data["sha256"]),
        digests={name: _digest(digest) for name, digest in _typed(data["digests"], dict).items()},
        randomness=_typed(data["randomness"], str),
        delta=float(delta) if type(delta) is int else _typed(delta, float),
        max_per_author=None if most is None else _typed(most, int),
        also_reveals=_texts(data["also_reveals"]),
        version=_typed(data["version"], str),
        charged=charged,
        fields=_fields(_typed(data.get("fields", {}), dict)),
        reading=reading,
        record=record,
        forms=forms,
        derived=_derived(_typed(data.get("derived", {}), dict)),
    )


def _derived(found: Mapping[str, Json]) -> dict[str, Json]:
    if "writer" in found:
        _digest(found["summary"])
        for name, kind in WRITER_TYPES.items():
            if name in found:
                _typed(found[name], kind)
        _texts(found.get("assumptions", []))
        if "weights" in found:
            _digest(found["weights"])
    elif found:
        for each in _typed(found["added"], list):
            _digest(each)
    return dict(found)


MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a data set: its name, the number of its records, and its sha256."""

    name: str
    records: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The parts of a data set, in the order of the records."""

    parts: tuple[Part, ...]

    @property
    def records(self) -> int:
        """The number of records in all parts."""
        return sum(part.records for part in self.parts)

    def to_json(self) -> str:
        """Return the manifest as JSON text, with one line per part."""
        lines = ",\n".join(f"  {json.dumps(asdict(part), ensure_ascii=False)}" for part in self.parts)
        return '{"schema": 1, "parts": [\n' + lines + "\n]}\n"

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Return the manifest at the path. DataError: dptext did not write this file."""
        try:
            data = parse_json(read_whole(path))
            parts = tuple(Part(**part) for part in data["parts"])
            names = {part.name for part in parts}
            good = data["schema"] == 1 and all(map(_is_part, parts)) and len(names) == len(parts)
        except (ValueError, TypeError, KeyError):
            good = False
        if not good:
            raise DataError(f"{path} is no manifest of a data set that dptext wrote.")
        return cls(parts)

    def check(self, folder: Path) -> None:
        """Raise DataError unless the folder holds these parts, byte for byte, and no other file."""
        known = {part.name for part in self.parts} | {MANIFEST, certificate_path(Path(MANIFEST)).name}
        parents = {str(each) for name in known for each in PurePosixPath(name).parents}
        left = [folder]
        while left:
            with telling(folder, "read"):
                there = sorted(left.pop().iterdir())
            for path in there:
                name = path.relative_to(folder).as_posix()
                real = path.is_dir() and not path.is_symlink()
                if name not in known and name not in parents and not real:
                    raise DataError(f"{path} is no part of this data set: readers of the folder would read it, too.")
                if path.is_dir():
                    left.append(path)  # a link is followed only if parts lie in it
        for part in self.parts:
            path = folder / part.name
            if not path.is_file():
                raise DataError(f"Expected {path}, a part with {plural(part.records, 'record')}: it is missing.")
            if sha256_of(path) != part.sha256:
                raise DataError(f"{path} is not the part that was certified: its sha256 differs.")


def _is_part(part: Part) -> bool:
    if list(map(type, astuple(part))) != [str, int, str] or part.records < 0 or len(part.sha256) != _HEX:
        return False
    stays = not Path(part.name).is_absolute() and ".." not in Path(part.name).parts  # the part lies inside the folder
    return stays and part.name not in ("", MANIFEST) and "\0" not in part.name
