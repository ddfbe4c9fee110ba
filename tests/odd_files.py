"""Odd files of all formats, as people have them: each a name, its bytes, and the options that it is read with."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import openpyxl
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.feather
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import zstandard

TEXTS = ("a good day", "schön war es", "naïve café — 東京", "the end")
MANY = 4_000  # rows, enough for the quick ways of reading
DEEP = 100_000


@dataclass(frozen=True)
class Odd:
    """A file; `record` is what one is, of plain text."""

    name: str
    data: bytes
    record: str | None = None

    @property
    def delimiter(self) -> str | None:
        """What parts its columns, where the extension does not tell."""
        return ";" if self.name.startswith("semicolon") else None

    @property
    def title(self) -> str:
        """The name, with what a record is."""
        return f"{self.name} ({self.record})" if self.record else self.name


def _rows(*texts: object, **others: object) -> list[dict[str, object]]:
    return [{"n": i, "text": text, **others} for i, text in enumerate(texts or TEXTS)]


def _lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


GOOD = _lines(_rows())
LONG = _lines(_rows(*(f"{TEXTS[i % 4]} {i}" for i in range(MANY))))


def _with(line: str, at: int = 2, text: str = GOOD) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:at], line if line.endswith("\n") else f"{line}\n", *lines[at:]])


ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1252")


def _encoded(text: str) -> Iterator[tuple[str, bytes]]:
    latin = "".join(letter for letter in text if ord(letter) < 256)
    for encoding in ENCODINGS:
        data = (latin if encoding == "cp1252" else text).encode(encoding)
        yield encoding, (b"\xfe\xff" + data) if encoding == "utf-16-be" else data
    yield "mixed", text.encode() + latin.encode("cp1252")
    yield "one bad byte", text.encode()[:30] + b"\xff" + text.encode()[30:]
    yield "cut character", text.encode().rsplit("京".encode(), 1)[0] + "京".encode()[:2]


def _ends(text: str) -> Iterator[tuple[str, bytes]]:
    yield "crlf", text.replace("\n", "\r\n").encode()
    yield "lone cr", text.replace("\n", "\r").encode()
    yield "mixed ends", text.replace("\n", "\r\n", 2).encode()
    yield "no last end", text.removesuffix("\n").encode()
    yield "blank last", (text + "\n \n\n").encode()
    yield "blank within", text.replace("\n", "\n\n", 2).encode()
    yield "blank first", ("\n" + text).encode()
    yield "ctrl-z", (text + "\x1a").encode()
    yield "nul", text.replace("good", "go\x00od").encode()
    yield "next line", text.replace("good", "go\u0085o\u2028d").encode()
    yield "form feed", text.replace("good", "go\x0b\x0cod").encode()


NOTHING = {"nothing": b"", "one end": b"\n", "blanks": b" \n\t\n", "mark alone": b"\xef\xbb\xbf", "nuls": b"\0" * 64}

JSON_LINES = {
    "good": GOOD,
    "doubled key": _with('{"text": "a", "n": 1, "n": 2}'),
    "doubled text": _with('{"text": "a", "text": "b"}'),
    "nan": _with('{"text": "a", "n": NaN}'),
    "infinity": _with('{"text": "a", "n": -Infinity}'),
    "huge number": _with('{"text": "a", "n": 1e999}'),
    "many digits": _with('{"text": "a", "n": ' + "9" * 6000 + "}"),
    "deep": _with('{"text": "a", "n": ' + "[" * DEEP + "]" * DEEP + "}"),
    "deep open": _with("[" * DEEP),
    "nested": _with('{"text": "a", "n": {"b": [1, {"c": null}]}}'),
    "array row": _with('["a"]'),
    "text row": _with('"a"'),
    "null row": _with("null"),
    "number row": _with("7"),
    "two a line": _with('{"text": "a"} {"text": "b"}'),
    "over lines": _with('{"text":\n"a"}'),
    "comma at end": _with('{"text": "a",}'),
    "comma after": _with('{"text": "a"},'),
    "single quotes": _with("{'text': 'a'}"),
    "comment": _with("// a"),
    "no quotes": _with("{text: a}"),
    "open text": _with('{"text": "a}'),
    "cut": GOOD[:-20],
    "bad escape": _with('{"text": "\\x"}'),
    "escaped nul": _with('{"text": "\\u0000"}'),
    "half a pair": _with('{"text": "\\ud83d"}'),
    "a pair": _with('{"text": "\\ud83d\\ude00"}'),
    "half in another": _with('{"text": "a", "n": "\\udfff"}'),
    "text null": _with('{"text": null}'),
    "text number": _with('{"text": 7}'),
    "text true": _with('{"text": true}'),
    "text list": _with('{"text": ["a"]}'),
    "text object": _with('{"text": {"a": "b"}}'),
    "text empty": _with('{"text": ""}'),
    "text blank": _with('{"text": " \\n\\t "}'),
    "no text": _with('{"n": 7}'),
    "no text first": _with('{"n": 7}', 0),
    "no text at all": _lines([{"n": i} for i in range(4)]),
    "empty object": _with("{}"),
    "capital key": GOOD.replace('"text"', '"Text"'),
    "blank in key": GOOD.replace('"text"', '" text"'),
    "other columns": _with('{"text": "a", "b": 1, "c": 2}'),
    "too long": _lines(_rows("a", "b" * 5_000_001, "c")),
    "many": LONG,
    "many, one null": _with('{"text": null, "n": 1}', 2000, LONG),
    "many, one doubled": _with('{"text": "a", "n": 1, "n": 2}', 2000, LONG),
    "many, one nan": _with('{"text": "a", "n": NaN}', 2000, LONG),
    "many, one without": _with('{"n": 1}', 2000, LONG),
    "many, one number": _with('{"text": 7, "n": 1}', 2000, LONG),
    "many, two a line": _with('{"text": "a"}{"text": "b"}', 2000, LONG),
    "many, one blank": _with("", 2000, LONG),
    "many, nul": _with('{"text": "\\u0000", "n": 1}', 2000, LONG),
}
ARRAYS = {
    "good": json.dumps(_rows(), ensure_ascii=False),
    "indented": json.dumps(_rows(), indent=2),
    "empty": "[]",
    "object": json.dumps({"data": _rows()}),
    "texts": json.dumps(list(TEXTS)),
    "mixed items": json.dumps([*_rows(), "a", None, 7]),
    "arrays": json.dumps([["a"], ["b"]]),
    "doubled": '[{"text": "a", "text": "b"}]',
    "nan": '[{"text": "a", "n": NaN}]',
    "deep": "[" * DEEP + "]" * DEEP,
    "cut": json.dumps(_rows())[:-9],
    "comma": '[{"text": "a"},]',
    "two": '[{"text": "a"}][{"text": "b"}]',
    "null": '[{"text": null}, {"text": "a"}]',
    "number": '[{"text": 7}, {"text": "a"}]',
    "without": '[{"n": 1}, {"text": "a"}]',
    "lines": GOOD,
    "word": '"a"',
    "half a pair": '[{"text": "\\ud83d"}, {"text": "a"}]',
    "blanks around": "\n\n " + json.dumps(_rows()) + " \n",
}


def _csv(delimiter: str = ",", texts: tuple[str, ...] = TEXTS, **how: Any) -> str:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n", **how)
    writer.writerows([("n", "text"), *enumerate(texts)])
    return file.getvalue()


MARKS = ('say "so"', "a, b; c | d\te", "two\nlines", "")
TABLES: dict[str, Callable[[str], str]] = {
    "good": _csv,
    "quoted": lambda d: _csv(d, MARKS),
    "all quoted": lambda d: _csv(d, MARKS, quoting=csv.QUOTE_ALL),
    "open quote": lambda d: _csv(d) + f'9{d}"a\n',
    "bad quote": lambda d: _csv(d) + f'9{d}"a"b\n',
    "quote within": lambda d: _csv(d) + f'9{d}a "b" c\n',
    "escaped quote": lambda d: _csv(d) + f'9{d}"a \\"b\\" c"\n',
    "blank before quote": lambda d: _csv(d) + f'9{d} "a"\n',
    "short row": lambda d: _csv(d) + "9\n" + f"10{d}a\n",
    "long row": lambda d: _csv(d) + f"9{d}a{d}b\n10{d}a\n",
    "delimiter last": lambda d: _csv(d).replace("\n", f"{d}\n"),
    "doubled column": lambda d: _csv(d).replace("n", "text", 1),
    "doubled other": lambda d: f"n{d}text{d}n\n1{d}a{d}2\n",
    "nameless column": lambda d: _csv(d).replace("n", "", 1),
    "no header": lambda d: _csv(d).split("\n", 1)[1],
    "header alone": lambda d: f"n{d}text\n",
    "header blank": lambda d: f"{d}\n1{d}a\n",
    "header capital": lambda d: _csv(d).replace("text", "Text", 1),
    "header spaced": lambda d: _csv(d).replace("text", " text", 1),
    "one column": lambda _: "text\na\nb c\n",
    "sep line": lambda d: f"sep={d}\n{_csv(d)}",
    "comment line": lambda d: f"# made today\n{_csv(d)}",
    "formula": lambda d: _csv(d) + f"9{d}=1+1\n",
    "too long": lambda d: _csv(d) + f"9{d}{'b' * 5_000_001}\n",
    "empty texts": lambda d: f"n{d}text\n1{d}\n2{d}\n3{d}a\n",
    "many": lambda d: _csv(d, tuple(f"{TEXTS[i % 4]} {i}" for i in range(MANY))),
    "many, one short": lambda d: _csv(d, tuple(f"a {i}" for i in range(MANY))) + "9\n" + f"10{d}a\n",
}


def _sheet(rows: list[Any], then: Callable[[Any], object] = lambda _: None) -> bytes:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for row in rows:
        sheet.append(row)
    then(book)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _workbooks() -> dict[str, bytes]:
    rows = [("n", "text"), *enumerate(TEXTS)]

    def hidden(book: Any) -> None:
        book.create_sheet("more").append(["a"])
        book["more"].sheet_state = "hidden"

    good = _sheet(rows)
    repacked = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(repacked, "w") as new:
        for name in old.namelist()[:-3]:
            new.writestr(name, old.read(name))
    return {
        "good": good,
        "nothing": b"",
        "no cell": _sheet([]),
        "header alone": _sheet(rows[:1]),
        "empty rows": _sheet([*rows, (), (), (9, "a")]),
        "empty cells": _sheet([*rows, (9, None), (None, "a")]),
        "numbers": _sheet([*rows, (9, 7), (10, 7.5), (11, True), (12, date(2024, 5, 17))]),
        "formula": _sheet([*rows, (9, "=1+1")]),
        "error": _sheet([*rows, (9, "#N/A")]),
        "long row": _sheet([*rows, (9, "a", "b")]),
        "doubled column": _sheet([("text", "text"), ("a", "b")]),
        "doubled other": _sheet([("n", "text", "n"), (1, "a", 2)]),
        "no header": _sheet(rows[1:]),
        "title row": _sheet([("Answers of May",), (), *rows]),
        "merged": _sheet(rows, lambda book: book.active.merge_cells("A2:A3")),
        "two sheets": _sheet(rows, lambda book: book.create_sheet("more").append(["a"])),
        "hidden sheet": _sheet(rows, hidden),
        "empty sheet beside": _sheet(rows, lambda book: book.create_sheet("more")),
        "cut": good[:-200],
        "parts missing": repacked.getvalue(),
        "no workbook": gzip.compress(b"a"),
        "old excel": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 2000,
    }


def _parquet(text: Any, **how: Any) -> bytes:
    file = io.BytesIO()
    array = text if isinstance(text, pa.Array | pa.ChunkedArray) else pa.array(text)
    pq.write_table(pa.table({"n": range(len(array)), "text": array}), file, **how)
    return file.getvalue()


def _bad_utf8() -> pa.Array:
    return pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    )


def _parquets() -> dict[str, bytes]:
    good = _parquet(TEXTS)
    feather, doubled, nothing = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pyarrow.feather.write_feather(pa.table({"text": TEXTS}), feather)
    pq.write_table(pa.table([pa.array(["a"]), pa.array(["b"])], ["text", "text"]), doubled)
    pq.write_table(pa.table({"n": [1]}), nothing)
    return {
        "good": good,
        **{codec: _parquet(TEXTS, compression=codec) for codec in ("none", "snappy", "gzip", "zstd", "brotli", "lz4")},
        "categories": _parquet(pa.array(TEXTS).dictionary_encode()),
        "large": _parquet(pa.array(TEXTS, pa.large_string())),
        "groups": _parquet(list(TEXTS) * 9, row_group_size=2),
        "version 1": _parquet(TEXTS, version="1.0", data_page_version="1.0"),
        "version 2": _parquet(TEXTS, data_page_version="2.0"),
        "plain": _parquet(TEXTS, use_dictionary=False),
        **{
            title: _parquet(TEXTS, use_dictionary=False, column_encoding={"text": text, "n": n})
            for title, text, n in (
                ("delta", "DELTA_BYTE_ARRAY", "DELTA_BINARY_PACKED"),
                ("delta lengths", "DELTA_LENGTH_BYTE_ARRAY", "BYTE_STREAM_SPLIT"),
            )
        },
        "nulls": _parquet(["a", None, "b"]),
        "all null": _parquet(pa.nulls(3, pa.string())),
        "null type": _parquet(pa.nulls(3)),
        "numbers": _parquet([1, 2]),
        "bytes": _parquet([b"a", b"b"]),
        "bad utf-8": _parquet(_bad_utf8()),
        "nul": _parquet(["a\0", "b"]),
        "lists": _parquet([["a"], ["b"]]),
        "structs": _parquet([{"a": "b"}]),
        "dates": _parquet([date(2024, 5, 17)]),
        "empty texts": _parquet(["", "a"]),
        "no rows": _parquet(pa.array([], pa.string())),
        "no text": nothing.getvalue(),
        "doubled column": doubled.getvalue(),
        "too long": _parquet(["a", "b" * 5_000_001]),
        "nothing": b"",
        "cut": good[:-9],
        "cut within": good[:40] + good[-40:],
        "footer": good[:-20] + b"\xff" * 12 + good[-8:],
        "feather": feather.getvalue(),
        "many": _parquet([f"{TEXTS[i % 4]} {i}" for i in range(20_000)]),
    }


def _packed(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    gz, zst = gzip.compress(data, mtime=0), zstandard.compress(data)
    half = len(data) // 2
    yield f"{name}.gz", gz
    yield f"{name}.zst", zst
    yield f"cut {name}.gz", gz[: len(gz) * 2 // 3]
    yield f"cut {name}.zst", zst[: len(zst) * 2 // 3]
    yield f"two members {name}.gz", gzip.compress(data[:half]) + gzip.compress(data[half:])
    yield f"two frames {name}.zst", zstandard.compress(data[:half]) + zstandard.compress(data[half:])
    yield f"garbage after {name}.gz", gz + b"garbage"
    yield f"zeros after {name}.gz", gz + b"\0" * 512
    yield f"garbage after {name}.zst", zst + b"garbage"
    yield f"packed twice {name}.gz", gzip.compress(gz)
    yield f"not packed {name}.gz", data
    yield f"not packed {name}.zst", data
    yield f"nothing {name}.gz", b""
    yield f"nothing {name}.zst", b""
    yield f"empty {name}.gz", gzip.compress(b"")
    yield f"empty {name}.zst", zstandard.compress(b"")


def _of_lines(good: str) -> Iterator[tuple[str, bytes]]:
    """What any file of lines may be like."""
    yield from _encoded(good)
    yield from _ends(good)
    yield from NOTHING.items()


@cache
def odd_files() -> tuple[Odd, ...]:
    """All of them, by names that no other has."""
    found: list[Odd] = []

    def add(extension: str, files: Any, record: str | None = None) -> None:
        for name, data in files:
            found.append(Odd(f"{name}.{extension}", data.encode() if isinstance(data, str) else data, record))

    add("jsonl", JSON_LINES.items())
    add("jsonl", _of_lines(GOOD))
    add("json", ARRAYS.items())
    add("json", ((f"{name}", data) for name, data in _encoded(ARRAYS["good"])))
    add("json", NOTHING.items())
    for extension, delimiter, kind in (("csv", ",", ""), ("csv", ";", "semicolon "), ("tsv", "\t", "")):
        add(extension, ((kind + name, make(delimiter)) for name, make in TABLES.items()))
    add("csv", _of_lines(_csv()))
    plain = "\n".join(TEXTS[:2]) + "\n\n" + "\n".join(TEXTS[2:]) + "\n"
    for record in ("line", "file", "block"):
        add("txt", [("good", plain), *_of_lines(plain)], record)
    add("xlsx", _workbooks().items())
    add("parquet", _parquets().items())
    for name, text in (("a.jsonl", GOOD), ("a.csv", _csv())):
        found += [Odd(name, data) for name, data in _packed(name, text.encode())]
    found += [Odd("a.json.gz", gzip.compress(ARRAYS["good"].encode())), Odd("a.txt.gz", gzip.compress(b"a\n"), "line")]
    for name, data in (("lines", GOOD.encode()), ("table", _csv().encode()), ("sheet", _workbooks()["good"])):
        found += [Odd(f"{name} as.{other}", data) for other in ("jsonl", "json", "csv", "tsv", "xlsx", "parquet")]
    found += [Odd(f"parquet as.{other}", _parquets()["good"]) for other in ("jsonl", "json", "csv", "xlsx")]
    found += [Odd(f"gzip as.{other}", gzip.compress(GOOD.encode())) for other in ("jsonl", "csv", "json")]
    found += [Odd(f"pdf as.{other}", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n") for other in ("jsonl", "csv")]
    return tuple(found)


#: What an id or a label may be, as JSON writes it; the other of the two is as it should be.
VALUES = {
    "text": '"a1"',
    "spaced": '" "',
    "empty": '""',
    "null": "null",
    "whole": "9",
    "minus": "-9",
    "whole float": "9.0",
    "fraction": "9.5",
    "huge": "1e400",
    "coarse": "1e17",
    "true": "true",
    "list": "[1]",
    "object": '{"a": 1}',
    "nul": '"a\\u0000"',
    "half a pair": '"\\ud83d"',
    "day": '"2024-05-17"',
    "accents": '"n\u0303"',
}


def _good(n: int = 4) -> list[dict[str, object]]:
    return [{"id": i, "text": f"{TEXTS[i % 4]} {i}", "label": 1 + i % 2} for i in range(n)]


def _of_columns(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2], "text": ["a", "b"], "label": [1, 2], **columns}), file)
    return file.getvalue()


@cache
def named_files() -> tuple[Odd, ...]:
    """Odd files with ids and labels, by names that no other has."""
    good = _lines(_good())
    found: dict[str, str | bytes] = {"good.jsonl": good, "good.json": json.dumps(_good())}
    for field, other in (("id", '"label": 1'), ("label", '"id": 99')):
        for name, value in VALUES.items():
            found[f"{field} {name}.jsonl"] = good + f'{{"{field}": {value}, "text": "a", {other}}}\n'
        found[f"{field} missing.jsonl"] = good + f'{{"text": "a", {other}}}\n'
        found[f"{field} twice.jsonl"] = good + f'{{"{field}": 1, "{field}": 1, "text": "a", {other}}}\n'
        found[f"no {field} at all.jsonl"] = _lines([{k: v for k, v in row.items() if k != field} for row in _good()])
    for name, value in {"number": "1", "text": '"1"', "float": "1.0", "spaced": '" 1"', "accents": '"\u0301"'}.items():
        found[f"repeated id, as {name}.jsonl"] = good + f'{{"id": {value}, "text": "a", "label": 1}}\n'
    found["bad text and bad label.jsonl"] = good + '{"id": 99, "text": 7, "label": [1]}\n'
    for d, extension in ((",", "csv"), ("\t", "tsv")):
        rows = "".join(f"{row['id']}{d}{row['text']}{d}{row['label']}\n" for row in _good())
        head = f"id{d}text{d}label\n"
        found |= {
            f"good.{extension}": head + rows,
            f"id empty.{extension}": f"{head}{rows}{d}a{d}1\n",
            f"label empty.{extension}": f"{head}{rows}9{d}a{d}\n",
            f"floats.{extension}": head + rows.replace("1\n", "1.0\n"),
            f"float ids.{extension}": head + "".join(f"{i}.0{d}a{d}1\n" for i in range(4)),
            f"repeated id.{extension}": f"{head}{rows}1{d}a{d}1\n",
            f"id of another spelling.{extension}": f"{head}{rows}1.0{d}a{d}1\n",
            f"doubled label.{extension}": f"label{d}{head}" + rows.replace("\n", f"{d}2\n"),
            f"doubled id.{extension}": f"id{d}{head}" + rows.replace("\n", f"{d}2\n"),
            f"no label column.{extension}": head.replace("label", "n") + rows,
            f"short row.{extension}": f"{head}{rows}9{d}a\n",
            f"long row.{extension}": f"{head}{rows}9{d}a{d}1{d}2\n",
            f"blank.{extension}": "\n",
            f"lone cr.{extension}": (head + rows).replace("\n", "\r"),
        }
    header = ("id", "text", "label")
    found |= {
        "good.xlsx": _sheet([header, (1, "a", 1), (2, "b", 2)]),
        "dates.xlsx": _sheet([header, (date(2024, 5, 17), "a", date(2024, 5, 17))]),
        "duration.xlsx": _sheet([header, (1, "a", timedelta(hours=30))]),
        "booleans.xlsx": _sheet([header, (True, "a", True), (2, "b", False)]),
        "fractions.xlsx": _sheet([header, (1.5, "a", 1.5), (2.0, "b", 2.0)]),
        "coarse.xlsx": _sheet([header, (1e17, "a", 1e17), (2, "b", 1)]),
        "doubled label.xlsx": _sheet([(*header, "label"), (1, "a", 1, 2)]),
        "no cell.xlsx": _sheet([]),
        "good.parquet": _of_columns(),
        "fractions.parquet": _of_columns(id=[1.5, 2.0], label=pa.array([0.1, 2.0], pa.float32())),
        "nulls.parquet": _of_columns(id=[1, None], label=[None, 1]),
        "nan.parquet": _of_columns(label=[1.0, float("nan")]),
        "lists.parquet": _of_columns(label=[[1], [2]]),
        "durations.parquet": _of_columns(label=[timedelta(hours=1)] * 2),
        "nanoseconds.parquet": _of_columns(label=pa.array([1, 2], pa.timestamp("ns"))),
        "bytes.parquet": _of_columns(id=[b"a", b"b"], label=[b"a", b"b"]),
        "categories.parquet": _of_columns(label=pa.array(["1", "2"]).dictionary_encode()),
        "times.parquet": _of_columns(id=[datetime(2024, 5, 17, 8), datetime(2024, 5, 17)]),
        "decimals.parquet": _of_columns(
            id=pa.array([1, 2], pa.decimal128(9, 2)), label=[Decimal("1.5"), Decimal("2.0")]
        ),
        "booleans.parquet": _of_columns(id=[True, False], label=[True, False]),
        "repeated id.parquet": _of_columns(id=[1.0, 1.0]),
        "no label column.parquet": _parquet(TEXTS),
    }
    return tuple(Odd(name, data.encode() if isinstance(data, str) else data) for name, data in found.items())
