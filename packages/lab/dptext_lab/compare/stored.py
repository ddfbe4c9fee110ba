"""The stored files of a comparison, as typed values: rows of the table, files of cells, `experiment.json`.

DIR/experiment.json        the experiment, its records, the machine, and the progress
DIR/cells/SIGNATURE.json   one finished cell each
DIR/table.parquet, .json   the rows of all finished cells

`dptext_lab.compare.folder` reads these files. `dptext.recommend.measured` has the rows that recommendations read.
"""

from typing import Annotated, Final

import pydantic

from dptext.privacy.guarantee import Guarantee
from dptext.recommend.measured import Count, Finite, KeptRow, Provenance, StoredValue
from dptext.types import Json

CELLS: Final = "cells"
PARQUET: Final = "table.parquet"
MEDOID: Final = "label_only (medoid)"

#: The columns of the table, in their order.
COLUMNS: Final = (
    "corpus", "row", "kind", "settings", "trial", "unit", "relation", "epsilon", "delta", "metric_privacy", "basis",
    "document_epsilon", "metric", "value", "low", "high", "confidence", "seconds", "peak_mib", "signature", "error",
)  # fmt: skip
WHOLE_COLUMNS: Final = ("trial",)
NUMBER_COLUMNS: Final = (
    "epsilon", "delta", "document_epsilon", "value", "low", "high", "confidence", "seconds", "peak_mib",
)  # fmt: skip


def _guarantee(stored: object) -> Guarantee | None:
    """Build the guarantee; the words of a certificate are made from it again, so that they cannot differ."""
    if stored is None:
        return None
    if not isinstance(stored, dict):
        raise ValueError("it is no object")  # noqa: TRY004 (pydantic reads a ValueError)
    return Guarantee.from_dict(stored)


class TableRow(KeptRow):
    """One row of the table: one metric of one cell, and what the cell cost. The signature names the cell's file."""

    confidence: Finite | None
    seconds: Finite
    peak_mib: Finite
    signature: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]+$")]

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data, columns in their order."""
        found = self.model_dump()
        return {column: found[column] for column in COLUMNS}


class Sample(StoredValue):
    """An original and its release; `released` is None where no text is released."""

    original: str = pydantic.Field(repr=False)
    released: str | None = pydantic.Field(None, repr=False)


class CellFile(StoredValue):
    """One finished cell, in the form of `Cell.to_dict`, without samples of private records.

    `refuted` are the audits that refute its guarantee, `error` is the reason of its failure.
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
        """Return whether the mechanism was given private records to learn from."""
        return self.cell.get("trains_on") == "private"


class PartDigest(StoredValue):
    """Number and sha256 of the records of one part of a corpus."""

    records: Count
    digest: str


class About(Provenance):
    """`experiment.json`: the compared experiment as parsed TOML, and the parts of each corpus."""

    toml: dict[str, pydantic.JsonValue]
    corpora: dict[str, dict[str, PartDigest]]

    @property
    def trained_on_private(self) -> tuple[str, ...]:
        """Names of the mechanisms whose `fit` got the private records."""
        plans = self.toml.get("mechanisms", [])
        tables = [plan for plan in plans if isinstance(plan, dict)] if isinstance(plans, list) else []
        return tuple(str(plan["name"]) for plan in tables if plan.get("trains_on") == "private" and "name" in plan)
