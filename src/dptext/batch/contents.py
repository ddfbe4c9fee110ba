"""The survey of an input of many files, for `dptext check`: a folder, a glob, a saved data set or a URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dptext.batch.shards import Shard, arrow_chunks, as_read, opener_of, shards_of
from dptext.runs.plan import Plan
from dptext.text.formats import DELIMITED, PACKED, Format, detect_format
from dptext.text.plain_text import Portion
from dptext.text.records import Fields
from dptext.text.survey import Survey, survey_parts
from dptext.text.survey_parts import SurveyPart, part_of


def survey_dataset(
    source: str,
    *,
    format: Format | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    record: str | None = None,
    sheet: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **asked: Any,
) -> Survey:
    """Read all files once, and count their contents together; see `survey`, which `asked` are arguments of.

    A delimiter and an encoding are those of each file that has some. Errors as `shards_of` and `survey`.
    """
    parts, record = dataset_parts(
        source, format=format, delimiter=delimiter, encoding=encoding, record=record, sheet=sheet,
        storage_options=storage_options,
    )  # fmt: skip
    return survey_parts(Path(source), parts, record=record, **asked)


def dataset_parts(
    source: str,
    *,
    format: Format | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    record: str | None = None,
    sheet: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[Sequence[SurveyPart], str | None]:
    """Return the files of an input, and the portion of plain text that is one record. Errors as `shards_of`."""
    options = storage_options or {}
    shards = shards_of(source, format=format, options=options)
    portion = None if record is None else Portion(record)
    plan = as_read(source, shards, Plan(Fields(), input_format=format, record=portion, sheet=sheet))
    how = {"delimiter": delimiter, "encoding": encoding, "record": plan.record, "sheet": sheet}
    return [_part(shard, format, options, how) for shard in shards], plan.record


def _part(shard: Shard, format: Format | None, options: Mapping[str, Any], how: Mapping[str, str | None]) -> SurveyPart:
    if shard.arrow:
        return SurveyPart(shard.name, Format.PARQUET, None, None, partial(arrow_chunks, shard), saved=True)
    kind = format or detect_format(shard.name)
    takes = {
        "delimiter": kind in DELIMITED,
        "encoding": kind not in PACKED,
        "record": kind is Format.TEXT,
        "sheet": kind is Format.XLSX,
    }
    own = {name: value if takes[name] else None for name, value in how.items()}
    opener = opener_of(shard, options)
    path, reads = (Path(shard.where), {}) if opener is None else (Path(shard.name), {"opener": opener})
    return part_of(path, format=kind, **own, **reads)  # type: ignore[arg-type]  # by names
