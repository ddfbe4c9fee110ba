"""What a comparison stores, as typed values: rows of the table, files of cells, `experiment.json`.

DIR/experiment.json        what was asked, of which records, on what machine, and how far it is
DIR/cells/SIGNATURE.json   one finished cell each
DIR/table.parquet, .json   the rows of all finished cells

`dptext.compare.folder` reads them.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Final, Self

import pydantic

from dptext.compare.corpus_plans import Count, Finite
from dptext.mechanism import Answers
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.registry import answers
from dptext.text.formats import string_fault
from dptext.text.inputs import parse_json
from dptext.types import Json

EXPERIMENT: Final = "experiment.json"
CELLS: Final = "cells"
JSON_FILE: Final = "table.json"
PARQUET: Final = "table.parquet"
LABEL_ONLY: Final = "label_only"
MEDOID: Final = "label_only (medoid)"
#: How the metrics end whose 1 says that an audit refutes the guarantee.
REFUTED: Final = ".refuted"

#: The columns of the table, in their order.
COLUMNS: Final = (
    "corpus", "row", "kind", "settings", "trial", "unit", "relation", "epsilon", "delta", "metric_privacy", "basis",
    "document_epsilon", "metric", "value", "low", "high", "confidence", "seconds", "peak_mib", "signature", "error",
)  # fmt: skip
WHOLE_COLUMNS: Final = ("trial",)
NUMBER_COLUMNS: Final = (
    "epsilon", "delta", "document_epsilon", "value", "low", "high", "confidence", "seconds", "peak_mib",
)  # fmt: skip

_BASES: Final = ("", *(str(basis) for basis in Basis))
_LARGEST_WHOLE: Final = 2**53  # JSON and Parquet hold every smaller integer exactly
# The references of this kind, which `read_results` tells apart by epsilon. No mechanism may be named so.
_REFERENCE: Final = re.compile(rf"{LABEL_ONLY}( \(medoid\))?( epsilon=\S+| #\d+)?")


_SWEPT_EPSILON: Final = re.compile(r"\s+\w*epsilon\w*=\S+")


def _storable(text: str) -> str:
    if fault := string_fault(text):
        raise ValueError(f"the text {fault}")
    return text


def _json_object(text: str) -> str:
    try:
        found = parse_json(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 (pydantic reads a ValueError)
    return text


def _basis(name: str) -> str:
    if name not in _BASES:
        raise ValueError(f"it is none of {', '.join(_BASES[1:])}")
    return name


def _guarantee(stored: object) -> Guarantee | None:
    """The words of a certificate are made from it again, so that they cannot say something else."""
    if stored is None:
        return None
    if not isinstance(stored, dict):
        raise ValueError("it is no object")  # noqa: TRY004 (pydantic reads a ValueError)
    return Guarantee.from_dict(stored)


#: Unit, relation, distance, and whether epsilon is for the whole corpus.
Meaning = tuple[str, str, str | None, bool]
StoredText = Annotated[str, pydantic.AfterValidator(_storable)]


class StoredValue(pydantic.BaseModel):
    """A value that stands in a file. Keys that are not known are left out."""

    model_config = pydantic.ConfigDict(frozen=True, allow_inf_nan=False)


class KeptRow(StoredValue):
    """One row of the table, without what it cost: what recommendations need.

    Attributes:
        row: shown name: a reference, or a mechanism with its swept settings.
        kind: of the spec; empty for references without one.
        unit, relation: which inputs are neighbours; empty where nothing is private.
        epsilon, delta: None where nothing is guaranteed or none is asked.
        metric_privacy: the distance that epsilon is multiplied with, for metric privacy.
        basis: a value of `dptext.privacy.guarantee.Basis`, or empty.
        document_epsilon: the guarantee lifted to one document, where it is finite.
        metric: what was measured; empty for a cell that failed.
        value, low, high: the estimate and its interval.
    """

    corpus: StoredText
    row: StoredText
    kind: StoredText
    settings: Annotated[StoredText, pydantic.AfterValidator(_json_object)]
    trial: Annotated[Count, pydantic.Field(le=_LARGEST_WHOLE)]
    unit: StoredText
    relation: StoredText
    epsilon: Annotated[Finite, pydantic.Field(ge=0)] | None
    delta: Finite | None
    metric_privacy: StoredText | None
    basis: Annotated[str, pydantic.AfterValidator(_basis)]
    document_epsilon: Finite | None
    metric: StoredText
    value: Finite | None
    low: Finite | None
    high: Finite | None
    error: StoredText | None

    @pydantic.model_validator(mode="after")
    def _has_a_metric_or_an_error(self) -> Self:
        if (self.metric == "") != self.failed:
            raise ValueError("a row has a metric, or an error, and never both")
        return self

    @property
    def failed(self) -> bool:
        """Whether the cell of this row failed."""
        return self.error is not None

    @cached_property
    def chosen(self) -> Mapping[str, Json]:
        """The settings, parsed."""
        found: dict[str, Json] = parse_json(self.settings or "{}")
        return found

    @property
    def whole(self) -> bool:
        """Whether it is a synthesis: one epsilon for the whole corpus, under central trust, and no record's own."""
        return answers(self.kind) is Answers.CORPUS

    @property
    def series(self) -> str:
        """The name of the row without its epsilon: rows of one series make one line of a figure."""
        return _SWEPT_EPSILON.sub("", self.row)

    @property
    def protects(self) -> bool:
        """Whether an axis of epsilon shows the row: it states a guarantee, with a delta that means something."""
        stated = self.epsilon is not None and self.basis not in ("", Basis.NONE)
        return stated and (self.delta or 0.0) <= MAX_MEANINGFUL_DELTA

    @property
    def meaning(self) -> Meaning:
        """What must agree before two epsilons stand on one axis: unit, relation, distance, the whole corpus or not."""
        return self.unit, self.relation, self.metric_privacy, self.whole

    @property
    def reference(self) -> bool:
        """Whether every table has this row: it is no mechanism on trial."""
        return self.kind == "" or self.label_only

    @property
    def label_only(self) -> bool:
        """Whether this is the reference row `label_only`, at any epsilon: only the label of a record comes through."""
        return self.kind == LABEL_ONLY and _REFERENCE.fullmatch(self.row) is not None


class TableRow(KeptRow):
    """One row of the table: one metric of one cell, and what the cell cost. The signature names the cell's file."""

    confidence: Finite | None
    seconds: Finite
    peak_mib: Finite
    signature: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]+$")]

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, columns in their order."""
        found = self.model_dump()
        return {column: found[column] for column in COLUMNS}


class Sample(StoredValue):
    """An original and what was made of it; `released` is None where no text is released."""

    original: str = pydantic.Field(repr=False)
    released: str | None = pydantic.Field(None, repr=False)


class CellFile(StoredValue):
    """One finished cell, as `Cell.to_dict` gives it, without samples of private records.

    `refuted` are the audits that found its guarantee to be false, `error` is why it failed.
    """

    signature: str
    cell: dict[str, pydantic.JsonValue]
    guarantee: Annotated[pydantic.InstanceOf[Guarantee] | None, pydantic.BeforeValidator(_guarantee)] = pydantic.Field(
        alias="certificate"
    )
    samples: tuple[Sample, ...] = pydantic.Field(repr=False)
    rows: tuple[TableRow, ...]
    refuted: tuple[str, ...]
    error: str | None

    @property
    def private_training(self) -> bool:
        """Whether the mechanism was handed private records to learn from."""
        return self.cell.get("trains_on") == "private"


class PartDigest(StoredValue):
    """Number and sha256 of the records of one part of a corpus."""

    records: Count
    digest: str


class CellCounts(StoredValue):
    """Cells of a grid by how they ended."""

    done: Count
    failed: Count
    total: Count

    @property
    def left(self) -> int:
        """How many are not done yet."""
        return max(0, self.total - self.done - self.failed)


class Provenance(StoredValue):
    """Where a table comes from: the date is in UTC, and the cells say how far it is."""

    name: str
    written: str
    version: str
    machine: dict[str, pydantic.JsonValue]
    command: str
    cells: CellCounts


class MeasuredTable(StoredValue):
    """The table that recommendations are read off."""

    about: Provenance
    rows: tuple[KeptRow, ...]


class About(Provenance):
    """What was compared: `experiment.json`, with the experiment as parsed TOML and the parts of each corpus."""

    toml: dict[str, pydantic.JsonValue]
    corpora: dict[str, dict[str, PartDigest]]

    @property
    def trained_on_private(self) -> tuple[str, ...]:
        """Names of the mechanisms whose `fit` was handed the private records."""
        plans = self.toml.get("mechanisms", [])
        tables = [plan for plan in plans if isinstance(plan, dict)] if isinstance(plans, list) else []
        return tuple(str(plan["name"]) for plan in tables if plan.get("trains_on") == "private" and "name" in plan)
