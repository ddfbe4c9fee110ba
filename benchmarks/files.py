"""From file to file through `label_only`, against a loop that makes an object a record; files against pyarrow alone.

The loop keeps what `privatize_file` keeps of each record: the same checks of rows and releases, no id twice, one row
group or block for 256 records. It writes no certificate, and no mark from which a run could go on.

pyarrow reads the same three columns of the same file in one call, to Arrow (we: batches, checked, no id twice) or on to
strings of Python (`to_pylist`; we: all columns of every batch as lists). It writes the same columns in the same row
groups. It checks nothing. Ids are numbers that rise, or UUIDs.

Each ratio is of runs in turn, of seconds of the processor: the wait for the disk is not in them, which every
block of `privatize_file` has for its mark. The loop has half of the records, as its ratios are far from their bounds.
Exits 1 where a ratio is outside of its bound.

    python benchmarks/files.py [--records 200000]
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import itertools
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from _timing import Rows, paired, seconds
from dptext.mechanism import Mechanism
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.sampling.randomness import secure
from dptext.text.batches import Kept, Releases
from dptext.text.columns import Columns
from dptext.text.formats import Format, string_fault
from dptext.text.reading import read_batches
from dptext.text.records import Fields, Record, Release
from dptext.text.row_checks import Checks
from dptext.text.writers import open_writer

ROUNDS = 3
READING_ROUNDS = 15
NAMES = {Format.PARQUET: "Parquet", Format.JSONL: "JSON Lines"}
BLOCK = 256
LABELS = ("travel", "money")
FIELDS = Fields(id="id", label="label")
COLUMNS = ("id", "text", "label")
#: The loop takes at least so many times as long.
LEAST_FASTER = {Format.JSONL: 2.0, Format.CSV: 2.0, Format.PARQUET: 4.0}
#: We take at most so many times as long as pyarrow.
MOST_SLOWER = {
    "read Parquet": 2.0,
    "read Parquet, UUIDs": 4.5,
    "read Parquet to strings": 2.0,
    "read JSON Lines": 2.0,
    "read JSON Lines, UUIDs": 3.0,
    "read JSON Lines to strings": 2.0,
    "write Parquet": 2.0,
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=200_000)
    n = parser.parse_args().records
    mechanism = LabelOnly(labels=LABELS, epsilon=2.0).fit(
        public=[Record("0", "book a flight", "travel"), Record("1", "send ten euros", "money")]
    )
    rows = Rows()
    with tempfile.TemporaryDirectory() as folder:
        for kind, source in written(Path(folder), n // 2).items():
            from_file_to_file(rows, kind, source, mechanism)
        sources = written(Path(folder), n)
        writing(rows, sources[Format.PARQUET])
        for how in ("", " to strings"):
            for kind in NAMES:
                reading(rows, sources[kind], kind, how)
        sources = written(Path(folder), n, new_id=lambda _: str(uuid.uuid4()))
        for kind in NAMES:
            reading(rows, sources[kind], kind, ", UUIDs")
    return rows.code


def written(folder: Path, n: int, new_id: Callable[[int], str] = str) -> dict[Format, Path]:
    """The same records in each format."""
    rows = [(new_id(i), "a", LABELS[i % 2]) for i in range(n)]
    paths = {kind: folder / f"in.{kind}" for kind in LEAST_FASTER}
    with paths[Format.JSONL].open("w") as file:
        file.writelines(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows)
    with paths[Format.CSV].open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), paths[Format.PARQUET])
    return paths


def from_file_to_file(rows: Rows, kind: Format, source: Path, mechanism: Mechanism[str]) -> None:
    ours, theirs = source.with_name(f"ours.{kind}"), source.with_name(f"loop.{kind}")
    plan = Plan(fields=FIELDS, force=True)
    loop_, own = measured(
        lambda: loop(kind, source, theirs, mechanism),
        lambda: privatize_file(source, ours, mechanism, plan=plan),
        ROUNDS,
    )
    rows.add(
        f"privatize_file, {kind}", "times as fast as a loop over records", paired(loop_, own), least=LEAST_FASTER[kind]
    )


def reading(rows: Rows, source: Path, kind: Format, how: str) -> None:
    def table() -> pa.Table:
        if kind is Format.PARQUET:
            return pq.read_table(source, use_threads=False)
        return pa_json.read_json(source, read_options=pa_json.ReadOptions(use_threads=False))

    ours, theirs = lambda: counted(source), table
    if how == " to strings":
        ours, theirs = lambda: strings(source), lambda: [column.to_pylist() for column in table().columns]
    name = f"read {NAMES[kind]}{how}"
    rows.add(name, "of the time of pyarrow", paired(*measured(ours, theirs, READING_ROUNDS)), most=MOST_SLOWER[name])


def counted(source: Path) -> int:
    return sum(map(len, read_batches(source, FIELDS)))


def strings(source: Path) -> list[list[list[str | None]]]:
    batches = read_batches(source, FIELDS)
    return [[list(batch.ids), list(batch.texts), list(batch.labels)] for batch in batches]


def writing(rows: Rows, source: Path) -> None:
    table = pq.read_table(source)
    ids, texts, labels = (table.column(name).to_pylist() for name in COLUMNS)
    releases = Releases(ids, texts, labels, Kept({}, len(ids)), None)

    def ours() -> None:
        writer = open_writer(io.BytesIO(), Format.PARQUET, columns=Columns(label=True))
        for start in range(0, len(ids), BLOCK):
            writer.write(releases[start : start + BLOCK])
        writer.close()

    def theirs() -> None:
        with pq.ParquetWriter(io.BytesIO(), table.schema) as writer:
            for start in range(0, len(ids), BLOCK):
                part = slice(start, start + BLOCK)
                columns = dict(zip(COLUMNS, (ids[part], texts[part], labels[part]), strict=True))
                writer.write_table(pa.table(columns, schema=table.schema))

    name = "write Parquet"
    rows.add(name, "of the time of pyarrow", paired(*measured(ours, theirs, READING_ROUNDS)), most=MOST_SLOWER[name])


def measured(one: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """The processor's seconds of both in each round."""
    times = seconds({"one": one, "other": other}, rounds, time.process_time)
    return times["one"], times["other"]


def loop(kind: Format, source: Path, target: Path, mechanism: Mechanism[str]) -> None:
    """One object a record: what the columns replace."""
    randomness = secure()
    records = checked(rows_of(kind, source))
    with target.open("wb") as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        write, close = writer_of(kind, file, text)
        while batch := list(itertools.islice(records, BLOCK)):
            write([row_of(release) for release in mechanism.privatize(batch, randomness)])
            text.flush()
        close()


def rows_of(kind: Format, source: Path) -> Iterator[dict[str, object]]:
    if kind is Format.PARQUET:
        for batch in pq.ParquetFile(source).iter_batches(BLOCK):
            yield from batch.to_pylist()
        return
    with source.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, strict=True) if kind is Format.CSV else map(json.loads, file)


def checked(rows: Iterable[dict[str, object]]) -> Iterator[Record]:
    checks, seen = Checks(FIELDS, 5_000_000), set()
    for row in rows:
        record = checks.record(row, default_id="")
        assert isinstance(record, Record)
        digest = hashlib.blake2b(record.id.encode(), digest_size=16).digest()
        assert digest not in seen
        seen.add(digest)
        yield record


def row_of(release: Release[str]) -> dict[str, str | None]:
    values = (release.id, release.output, release.label)
    assert not any(value is not None and string_fault(value) for value in values)
    return dict(zip(COLUMNS, values, strict=True))


def writer_of(
    kind: Format, file: BinaryIO, text: TextIO
) -> tuple[Callable[[list[dict[str, str | None]]], object], Callable[[], object]]:
    """What writes a batch, and what ends the file."""
    match kind:
        case Format.JSONL:
            return lambda rows: text.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), text.flush
        case Format.CSV:
            writer = csv.DictWriter(text, COLUMNS)
            writer.writeheader()
            return writer.writerows, text.flush
        case _:
            schema = pa.schema([(name, pa.string()) for name in COLUMNS])
            parquet = pq.ParquetWriter(file, schema)
            return lambda rows: parquet.write_table(pa.Table.from_pylist(rows, schema=schema)), parquet.close


if __name__ == "__main__":
    sys.exit(main())
