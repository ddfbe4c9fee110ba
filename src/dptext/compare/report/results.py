"""What `dptext compare` left in a folder, read again: a table, the experiment behind it, and a file a cell.

Everything is checked here, once, so that the page can trust it. Private samples are read by a door of their own.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NoReturn

from dptext.errors import ConfigError
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.text.inputs import parse_json, read_whole
from dptext.types import Json

TABLE: Final = "table.json"
EXPERIMENT: Final = "experiment.json"
CELLS: Final = "cells"

ORIGINAL: Final = "original"
PUBLIC_ONLY: Final = "public-only"
RANDOM: Final = "random"
LABEL_ONLY: Final = "label_only"

_BASES: Final = ("", *(str(basis) for basis in Basis))
_SIGNATURE: Final = re.compile(r"[0-9a-f]+")
# of cells.LABEL_ONLY and MEDOID, told apart as below; experiments may not name a mechanism so
_REFERENCE: Final = re.compile(rf"{LABEL_ONLY}( \(medoid\))?( epsilon=\S+| #\d+)?")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: one metric of one cell.

    Attributes:
        corpus: name of the corpus.
        row: shown name: a baseline, or a mechanism with its swept settings.
        kind: of the spec; empty for baselines without one.
        settings: of the spec.
        trial: number of the repetition.
        unit, relation: which inputs are neighbours; empty where nothing is private.
        epsilon, delta: None where nothing is guaranteed or none is asked.
        metric_privacy: the distance that epsilon is multiplied with, for metric privacy.
        basis: a value of `dptext.privacy.guarantee.Basis`, or empty.
        document_epsilon: the guarantee lifted to one document, where it is finite.
        metric: what was measured; empty for a cell that failed.
        value, low, high, confidence: the estimate.
        seconds, peak_mib: what the cell cost.
        signature: of everything that made the cell.
        error: why the cell failed.
    """

    corpus: str
    row: str
    kind: str
    settings: Mapping[str, Json]
    trial: int
    unit: str
    relation: str
    epsilon: float | None
    delta: float | None
    metric_privacy: str | None
    basis: str
    document_epsilon: float | None
    metric: str
    value: float | None
    low: float | None
    high: float | None
    confidence: float | None
    seconds: float
    peak_mib: float
    signature: str
    error: str | None

    @property
    def failed(self) -> bool:
        """Whether the cell of this line failed."""
        return self.error is not None

    @property
    def meaning(self) -> tuple[str, str, str | None]:
        """What must agree before two epsilons stand on one axis: unit, relation, distance."""
        return self.unit, self.relation, self.metric_privacy

    @property
    def baseline(self) -> bool:
        """Whether this is a row that every table has, no mechanism on trial."""
        return self.kind == "" or self.label_only

    @property
    def label_only(self) -> bool:
        """Whether this is the reference of which only the label comes through, at any epsilon."""
        return self.kind == LABEL_ONLY and _REFERENCE.fullmatch(self.row) is not None


@dataclass(frozen=True, slots=True)
class Sample:
    """An original and what was made of it; `released` is None where no text is released."""

    original: str = field(repr=False)
    released: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """One finished cell.

    Attributes:
        guarantee: if a spec states one.
        private_training: whether its mechanism was handed private records to learn from.
        samples: made from public records.
    """

    guarantee: Guarantee | None
    private_training: bool
    samples: tuple[Sample, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a corpus: `public`, `private` or `test`."""

    name: str
    records: int
    digest: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """What was compared.

    Attributes:
        name, written, version, command: as the run stated them.
        machine: cores and memory, as pairs of name and value.
        corpora: the parts of each corpus.
        done, failed, total: numbers of cells.
        trained_on_private: names of the mechanisms whose `fit` was handed the private records.
    """

    name: str
    written: str
    version: str
    command: str
    machine: tuple[tuple[str, str], ...]
    corpora: Mapping[str, tuple[Part, ...]]
    done: int
    failed: int
    total: int
    trained_on_private: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of `dptext compare`. `cells` are found by their signature; one may be absent."""

    experiment: Experiment
    rows: tuple[Row, ...]
    cells: Mapping[str, Cell]


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Read what `dptext compare` wrote, private samples left out.

    Raises:
        ConfigError: there is no table in the folder, or a file in it is damaged or of another schema.
    """
    base = Path(folder)
    for name in (TABLE, EXPERIMENT):
        if not (base / name).is_file():
            raise ConfigError(
                f"Expected DIR={str(base)!r} to hold {name}: run `dptext compare EXPERIMENT.toml --out DIR` first."
            )
    found = _load(base / TABLE)
    if not isinstance(found, list) or not found:
        _mismatch(TABLE, "expected a list of at least one row")
    rows = _distinct(tuple(_row(item, number) for number, item in enumerate(found, start=1)))
    experiment = _experiment(_load(base / EXPERIMENT))
    cells = {}
    for signature in dict.fromkeys(row.signature for row in rows if not row.failed):
        data = _cell_data(base, signature)
        if data is not None:
            name = f"{CELLS}/{signature}.json"
            plan = data.get("cell")
            private = isinstance(plan, dict) and plan.get("trains_on") == "private"
            guarantee = _guarantee(data.get("certificate"), name)
            cells[signature] = Cell(guarantee, private, _samples(data, "samples", name))
    return Results(experiment, rows, cells)


def private_samples(folder: str | os.PathLike[str], results: Results) -> dict[str, tuple[Sample, ...]]:
    """Samples of private records by signature, as far as `dptext compare --keep-private-samples` kept them.

    Raises:
        ConfigError: a file is damaged or of another schema.
    """
    kept = {}
    for signature in results.cells:
        samples = _samples(_cell_data(Path(folder), signature) or {}, "private_samples", f"{CELLS}/{signature}.json")
        if samples:
            kept[signature] = samples
    return kept


def _mismatch(name: str, what: str) -> NoReturn:
    raise ConfigError(
        f"Expected {name} in the schema of this version of dptext: {what}. Run `dptext compare` with this version."
    )


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("not a number of JSON")


def _load(path: Path) -> Json:
    """A JSON file; its faults are told without the parser's exception, which carries the text."""
    data: Json = None
    damaged = False
    try:
        data = json.loads(read_whole(path), parse_constant=_refuse_constant)
    except ConfigError:
        raise
    except (ValueError, RecursionError):
        damaged = True
    if damaged:
        raise ConfigError(f"Expected {path.name} to be JSON, found it damaged: run `dptext compare` again.")
    return data


def _cell_data(base: Path, signature: str) -> dict[str, Json] | None:
    """What a cell holds; None where its file is absent or cut short, which the page then says."""
    path = base / CELLS / f"{signature}.json"
    if not path.is_file():
        return None
    try:
        data = _load(path)
    except ConfigError:
        return None
    if not isinstance(data, dict):
        _mismatch(f"{CELLS}/{path.name}", "expected an object")
    return data


# ----------------------------------------------------------------------------- fields


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of one JSON object, each asked for with its type."""

    data: Mapping[str, Json] = field(repr=False)
    name: str

    def _get(self, key: str) -> Json:
        if key not in self.data:
            _mismatch(self.name, f"{key} is missing")
        return self.data[key]

    def text(self, key: str) -> str:
        found = self._get(key)
        return found if isinstance(found, str) else _mismatch(self.name, f"{key} is no text")

    def maybe_text(self, key: str) -> str | None:
        return None if self._get(key) is None else self.text(key)

    def number(self, key: str) -> float:
        found = self._get(key)
        if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= sys.float_info.max:
            _mismatch(self.name, f"{key} is no finite number")
        return float(found)

    def maybe_number(self, key: str) -> float | None:
        return None if self._get(key) is None else self.number(key)

    def count(self, key: str) -> int:
        found = self._get(key)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            _mismatch(self.name, f"{key} is no count")
        return found

    def object(self, key: str) -> _Fields:
        return _fields(self._get(key), f"{key} of {self.name}")


def _fields(data: Json, name: str) -> _Fields:
    return _Fields(data, name) if isinstance(data, dict) else _mismatch(name, "expected an object")


def _row(data: Json, number: int) -> Row:
    name = f"row {number} of {TABLE}"
    fields = _fields(data, name)
    row = Row(
        corpus=fields.text("corpus"),
        row=fields.text("row"),
        kind=fields.text("kind"),
        settings=_settings(fields.text("settings"), name),
        trial=fields.count("trial"),
        unit=fields.text("unit"),
        relation=fields.text("relation"),
        epsilon=fields.maybe_number("epsilon"),
        delta=fields.maybe_number("delta"),
        metric_privacy=fields.maybe_text("metric_privacy"),
        basis=fields.text("basis"),
        document_epsilon=fields.maybe_number("document_epsilon"),
        metric=fields.text("metric"),
        value=fields.maybe_number("value"),
        low=fields.maybe_number("low"),
        high=fields.maybe_number("high"),
        confidence=fields.maybe_number("confidence"),
        seconds=fields.number("seconds"),
        peak_mib=fields.number("peak_mib"),
        signature=fields.text("signature"),
        error=fields.maybe_text("error"),
    )
    if row.basis not in _BASES:
        _mismatch(name, f"basis is none of {', '.join(_BASES[1:])}")
    if not _SIGNATURE.fullmatch(row.signature):  # it becomes the name of a file
        _mismatch(name, "signature is no hex digest")
    if (row.metric == "") != row.failed:
        _mismatch(name, "a row has a metric, or an error, and never both")
    if row.epsilon is not None and row.epsilon < 0:
        _mismatch(name, "epsilon is negative")
    return row


def _distinct(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows, each name of one spec: *label_only* comes at several epsilons under one name."""
    settings: dict[tuple[str, str], list[Mapping[str, Json]]] = {}
    for row in rows:
        known = settings.setdefault((row.corpus, row.row), [])
        if row.settings not in known:
            known.append(row.settings)
    shared = {name for (_, name), known in settings.items() if len(known) > 1}
    return tuple(
        replace(row, row=f"{row.row} {_told_apart(row, settings[row.corpus, row.row])}") if row.row in shared else row
        for row in rows
    )


def _told_apart(row: Row, known: list[Mapping[str, Json]]) -> str:
    """What a name needs to be one row's: its epsilon, else its number."""
    shown = _epsilon_shown(row.settings)
    alone = sum(_epsilon_shown(other) == shown for other in known) == 1
    return f"epsilon={shown}" if alone and shown else f"#{known.index(row.settings) + 1}"


def _epsilon_shown(settings: Mapping[str, Json]) -> str:
    epsilon = settings.get("epsilon")
    return f"{epsilon:g}" if isinstance(epsilon, int | float) else ""


def _settings(text: str, name: str) -> Mapping[str, Json]:
    try:
        found = parse_json(text) if text else {}
    except ValueError:
        found = None
    return found if isinstance(found, dict) else _mismatch(name, "settings is no JSON object")


def _experiment(data: Json) -> Experiment:
    fields = _fields(data, EXPERIMENT)
    corpora = fields.object("corpora")
    cells = fields.object("cells")
    return Experiment(
        name=fields.text("name"),
        written=fields.text("written"),
        version=fields.text("version"),
        command=fields.text("command"),
        machine=tuple((key, str(value)) for key, value in fields.object("machine").data.items()),
        corpora={name: _parts(corpora.object(name)) for name in corpora.data},
        done=cells.count("done"),
        failed=cells.count("failed"),
        total=cells.count("total"),
        trained_on_private=_trained_on_private(fields.object("toml").data),
    )


def _trained_on_private(plan: Mapping[str, Json]) -> tuple[str, ...]:
    mechanisms = plan.get("mechanisms", [])
    tables = [item for item in mechanisms if isinstance(item, dict)] if isinstance(mechanisms, list) else []
    return tuple(str(item["name"]) for item in tables if item.get("trains_on") == "private" and "name" in item)


def _parts(fields: _Fields) -> tuple[Part, ...]:
    parts = ((name, fields.object(name)) for name, value in fields.data.items() if value is not None)
    return tuple(Part(name, part.count("records"), part.text("digest")) for name, part in parts)


def _guarantee(data: Json, name: str) -> Guarantee | None:
    """What a certificate states; its words are made from it again, so that they cannot say something else."""
    if data is None:
        return None
    if not isinstance(data, dict):
        _mismatch(name, "certificate is no object")
    return Guarantee.from_dict(data)


def _samples(data: Mapping[str, Json], key: str, name: str) -> tuple[Sample, ...]:
    found = data.get(key, [])
    if not isinstance(found, list):
        _mismatch(name, f"{key} is no list")
    samples = []
    for item in found:
        original = item.get("original") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(original, str):
            _mismatch(name, f"{key} holds something else than pairs of original and released")
        released = item.get("released")
        samples.append(Sample(original, released if isinstance(released, str) else None))
    return tuple(samples)
