"""A table of measurements as typed values: its rows for recommendations, and its origin.

DIR/experiment.json   the origin of the table, in a folder of `dptext compare`
DIR/table.json        the rows of all finished cells

`dptext.recommend.tables` reads both.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Final, Self

import pydantic

from dptext.mechanism import Answers
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis
from dptext.registry import answers
from dptext.text.formats import string_fault
from dptext.text.inputs import parse_json
from dptext.types import Json

EXPERIMENT: Final = "experiment.json"
JSON_FILE: Final = "table.json"
LABEL_ONLY: Final = "label_only"
#: Suffix of metrics whose 1 says that an audit refutes the guarantee.
REFUTED: Final = ".refuted"

_BASES: Final = ("", *(str(basis) for basis in Basis))
_LARGEST_WHOLE: Final = 2**53  # JSON and Parquet hold every smaller integer exactly
# Reference rows of this kind, which `read_results` separates by epsilon. No mechanism may have such a name.
_REFERENCE: Final = re.compile(rf"{LABEL_ONLY}( \(medoid\))?( epsilon=\S+| #\d+)?")
_SWEPT_EPSILON: Final = re.compile(r"\s+\w*epsilon\w*=\S+")

Count = Annotated[int, pydantic.Field(strict=True, ge=0)]
Finite = Annotated[float, pydantic.Field(strict=True, allow_inf_nan=False)]


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


#: Unit, relation, distance, and whether epsilon is for the whole corpus.
Meaning = tuple[str, str, str | None, bool]
StoredText = Annotated[str, pydantic.AfterValidator(_storable)]


class StoredValue(pydantic.BaseModel):
    """A value in a file. Unknown keys are left out."""

    model_config = pydantic.ConfigDict(frozen=True, allow_inf_nan=False)


class KeptRow(StoredValue):
    """One row of the table for recommendations, without the cost of its cell.

    Attributes:
        row: displayed name: a reference, or a mechanism with its swept settings.
        kind: the kind of the spec; empty for references without a spec.
        unit, relation: the neighbouring inputs; empty where nothing is private.
        epsilon, delta: None where nothing is guaranteed or none is asked.
        metric_privacy: the distance by which epsilon is multiplied, for metric privacy.
        basis: a value of `dptext.privacy.guarantee.Basis`, or empty.
        document_epsilon: the epsilon of the guarantee lifted to one document, if it is finite.
        metric: the measured metric; empty for a cell that failed.
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
        """Return whether the cell of this row failed."""
        return self.error is not None

    @cached_property
    def chosen(self) -> Mapping[str, Json]:
        """The settings, parsed."""
        found: dict[str, Json] = parse_json(self.settings or "{}")
        return found

    @property
    def whole(self) -> bool:
        """True for a synthesis: one epsilon for the whole corpus, central trust, and no record of its own."""
        return answers(self.kind) is Answers.CORPUS

    @property
    def series(self) -> str:
        """The name of the row without its epsilon: rows of one series make one line of a figure."""
        return _SWEPT_EPSILON.sub("", self.row)

    @property
    def protects(self) -> bool:
        """Return whether an axis of epsilon shows the row: it states a guarantee with a meaningful delta."""
        stated = self.epsilon is not None and self.basis not in ("", Basis.NONE)
        return stated and (self.delta or 0.0) <= MAX_MEANINGFUL_DELTA

    @property
    def meaning(self) -> Meaning:
        """The facts that epsilons on one axis must share: unit, relation, distance, the whole corpus or not."""
        return self.unit, self.relation, self.metric_privacy, self.whole

    @property
    def reference(self) -> bool:
        """Return whether every table has this row, which is no mechanism on trial."""
        return self.kind == "" or self.label_only

    @property
    def label_only(self) -> bool:
        """True for the reference row `label_only`, at any epsilon, which keeps only the label of a record."""
        return self.kind == LABEL_ONLY and _REFERENCE.fullmatch(self.row) is not None


class CellCounts(StoredValue):
    """Numbers of a grid's cells by how they ended."""

    done: Count
    failed: Count
    total: Count

    @property
    def left(self) -> int:
        """The number of cells that are not done yet."""
        return max(0, self.total - self.done - self.failed)


class Provenance(StoredValue):
    """Origin of a table: `written` is the date in UTC, and `cells` show the progress."""

    name: str
    written: str
    version: str
    machine: dict[str, pydantic.JsonValue]
    command: str
    cells: CellCounts


class MeasuredTable(StoredValue):
    """The table that recommendations read."""

    about: Provenance
    rows: tuple[KeptRow, ...]
