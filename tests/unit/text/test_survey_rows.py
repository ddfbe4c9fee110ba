"""A survey tells how many rows it has read, and takes one look at a value however many came before."""

from __future__ import annotations

import json
import statistics
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dptext.text.lines import Chunk
from dptext.text.survey import survey
from dptext.text.survey_parts import has_column, part_of
from dptext.text.surveyed import Column


def lines(path: Path, n: int) -> Path:
    rows = (json.dumps({"id": str(i), "text": f"row {i}" * (1 + i % 7), "label": "ab"[i % 2]}) for i in range(n))
    path.write_text("".join(f"{row}\n" for row in rows), "utf-8")
    return path


def test_the_rows_that_were_read_are_told(tmp_path: Path) -> None:
    told = list[int]()
    found = survey(lines(tmp_path / "many.jsonl", 30_000), on_rows=told.append)
    assert found.rows == 30_000
    assert len(told) > 3
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] < 30_000


def test_a_file_that_is_read_at_once_tells_nothing(tmp_path: Path) -> None:
    told = list[int]()
    survey(lines(tmp_path / "few.jsonl", 20), on_rows=told.append)
    assert not told


def test_the_mean_is_that_of_values_that_can_be_read() -> None:
    column, sizes = Column(), [3, 50, 1, 0, 7]
    for i, size in enumerate(sizes):
        column.add("text", "x" * size, i)
        column.add("text", None, i)
    column.add("text", 12.0, 9)  # written as 12.0
    assert column.mean == statistics.mean([*sizes, 4])
    assert Column().mean == 0


def test_labels_are_matched_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()

    def counts(labels: list[str | None], public: list[str]) -> int:
        asked.extend(labels)
        return sum(each in public for each in labels)

    monkeypatch.setattr("dptext.text.survey.n_known", counts)
    found = survey(lines(tmp_path / "many.jsonl", 2_000), label="label", labels=["a"])
    assert found.labelled == 1_000
    assert sorted(map(str, asked)) == ["a", "b"]


def test_a_file_is_read_no_further_than_a_column_is_looked_for(tmp_path: Path) -> None:
    part, read = part_of(lines(tmp_path / "many.jsonl", 30_000)), list[int]()

    def watched(names: Sequence[str]) -> Generator[Chunk, None, None]:
        for chunk in part.chunks(names):
            read.append(len(chunk))
            yield chunk

    assert has_column(replace(part, chunks=watched), "label")
    assert len(read) == 1
    assert not has_column(replace(part, chunks=watched), "other")
    assert sum(read[1:]) == 30_000


def test_a_column_that_comes_late_is_found(tmp_path: Path) -> None:
    path = tmp_path / "late.jsonl"
    path.write_text('{"text": "a"}\n[1]\n{"text": "b", "label": null}\n', "utf-8")
    assert has_column(part_of(path), "label")
    path = tmp_path / "table.csv"
    path.write_text("text,label\na,b\n", "utf-8")
    assert has_column(part_of(path), "label")
    assert not has_column(part_of(path), "other")
