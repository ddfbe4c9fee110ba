"""Columns read from files are the records that a plain reader finds one by one, and every fault is found as before."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import math
import secrets
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dptext.errors import DataError
from dptext.text import csv_rows, lines, packed_rows, row_checks
from dptext.text import rows as file_rows
from dptext.text.batches import Batch, groups
from dptext.text.csv_rows import csv_chunks
from dptext.text.formats import is_scalar, string_fault
from dptext.text.inputs import advice_on_encoding
from dptext.text.lines import Bad, Broken, blocks_of, lines_of
from dptext.text.packed_rows import PlainTexts, plain_scalars, plain_texts, values_of
from dptext.text.reading import OnError, read_batches, read_records
from dptext.text.records import Fields, Record
from dptext.text.row_checks import Checks, batch_of
from examples import few_examples

FIELDS = Fields(id="id", label="label", author="by", subject="of", keep=("n",))
MOST = 8

words = st.text(st.sampled_from("ab ,\"'\n\r\t\x00\ud800éß\u2028\\{}"), max_size=10)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.integers(10**305, 10**310), st.floats(), words)
names = st.one_of(st.integers(0, 5), st.text("abc", max_size=2), scalars)
rows = st.fixed_dictionaries(
    {"text": st.one_of(words, words, words, scalars), "id": names, "label": scalars, "by": names, "of": names},
    optional={"n": scalars, "more": scalars},
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few lines, each of them offered to pyarrow, and a few rows of Parquet."""
    monkeypatch.setattr(packed_rows, "CHUNK_ROWS", 3)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 200)
    monkeypatch.setattr(file_rows, "PYARROW_BYTES", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("read")


def told(found: Callable[[Callable[[int, str], None]], Iterator[Record]]) -> list[object]:
    """Records, skips and the final error, in the order in which they come."""
    events: list[object] = []
    try:
        events.extend(found(lambda number, reason: events.append((number, reason))))
    except DataError as error:
        events.append(str(error).partition("record ")[2])
    return events


def from_file(path: Path, fields: Fields, on_error: OnError) -> list[object]:
    return told(
        lambda skip: read_records(path, fields, on_error=on_error, on_skip=skip, max_characters=MOST, advice="")
    )


def from_rows(rows: list[dict[str, object]], fields: Fields, on_error: OnError) -> list[object]:
    return told(
        lambda skip: read_records(rows, fields, on_error=on_error, on_skip=skip, max_characters=MOST, advice="")
    )


@given(st.lists(rows, max_size=8), st.sampled_from([FIELDS, Fields(), Fields(label="label", keep=("n", "id"))]))
def test_columns_of_rows_are_their_records_or_doubtful(found: list[dict[str, object]], fields: Fields) -> None:
    batch = batch_of(found, fields, first=5, max_characters=MOST) if found else None
    checks = Checks(fields, MOST)
    one_by_one = [checks.record(row, default_id=str(5 + place)) for place, row in enumerate(found)]
    if batch is None:
        return
    assert list(batch) == one_by_one
    assert repr(batch[0].kept) == repr(one_by_one[0].kept)  # True and 1 are equal


@given(st.lists(st.one_of(scalars, st.just(object()), st.just(b""))))
def test_a_plain_column_holds_what_each_value_may_be(column: list[object]) -> None:
    assert plain_scalars(column) == all(
        is_scalar(value) and not (isinstance(value, str) and string_fault(value)) for value in column
    )
    assert plain_texts(column) == all(isinstance(value, str) and not string_fault(value) for value in column)


@few_examples
@given(found=st.lists(rows, min_size=1, max_size=12), on_error=st.sampled_from(list(OnError)), escaped=st.booleans())
def test_json_lines_are_read_as_their_rows(
    found: list[dict[str, object]], on_error: OnError, escaped: bool, folder: Path
) -> None:
    path = folder / "in.jsonl"
    found = [row for row in found if valid(row)] or [{"text": "a"}]
    text = "".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in found)
    path.write_bytes(text.encode("utf-8", "replace"))
    if not escaped:
        found = json.loads("[" + text.encode("utf-8", "replace").decode().replace("}\n{", "},{") + "]")
    assert from_file(path, FIELDS, on_error) == from_rows(found, FIELDS, on_error)


def valid(row: dict[str, object]) -> bool:
    """Whether the row is valid JSON: no NaN, no infinity."""
    return all(math.isfinite(value) for value in row.values() if isinstance(value, float))


@example(found=[("\0", "\0", "\0")], on_error=OnError.STOP)  # so many that the file may be UTF-16
@example(found=[("\0", "many letters and one NUL", "b")], on_error=OnError.STOP)
@given(found=st.lists(st.tuples(words, words, words), min_size=1, max_size=20), on_error=st.sampled_from(list(OnError)))
def test_csv_is_read_as_its_rows(found: list[tuple[str, str, str]], on_error: OnError, folder: Path) -> None:
    path = folder / "in.csv"
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([("id", "text", "label"), *found])
    path.write_bytes(buffer.getvalue().encode("utf-8", "replace"))
    fields = Fields(id="id", label="label")
    kept = [[value.replace("\ud800", "?") for value in row] for row in found]
    expected = from_rows([dict(zip(("id", "text", "label"), row, strict=True)) for row in kept], fields, on_error)
    if expected and str(expected[-1]).endswith("NUL character. "):  # the error of a file goes on: it may be UTF-16
        expected[-1] = f"{str(expected[-1]).rstrip()}{advice_on_encoding(path)} "
    assert from_file(path, fields, on_error) == expected


@few_examples
@given(found=st.lists(rows, min_size=1, max_size=8), on_error=st.sampled_from(list(OnError)))
def test_parquet_is_read_as_its_rows(found: list[dict[str, object]], on_error: OnError, folder: Path) -> None:
    path = folder / "in.parquet"
    texts = [{key: value for key, value in row.items() if key != "n"} for row in found]
    texts = [{key: value if string(value) else None for key, value in row.items()} for row in texts]
    schema = pa.schema([(name, pa.string()) for name in ("text", "id", "label", "by", "of")])
    pq.write_table(pa.Table.from_pylist(texts, schema=schema), path)
    fields = Fields(id="id", label="label", author="by", subject="of")
    assert from_file(path, fields, on_error) == from_rows(texts, fields, on_error)


def string(value: object) -> bool:
    return isinstance(value, str) and "\ud800" not in value


ROW = b'{"id":"%d","text":"a","label":"x"}'
#: Blocks that pyarrow reads otherwise than our own reader, or as if nothing were wrong with them.
DOUBTFUL = {
    "two objects in a line": ROW + ROW,
    "two in one line and an object on two": ROW + ROW + b'\n{"id":"7","text":\n"a","label":"x"}',
    "a comma between": ROW + b",",
    "no line end within": b'{"id":"1","text":"a","label":"x","more":[{}\n{}]}',
    "an empty line": ROW + b"\n\n" + ROW,
    "a text twice": b'{"id":"1","text":"a","label":"x","text":"b"}',
    "an infinite label": b'{"id":"1","text":"a","label":-Infinity}',
    "a label of too many digits": b'{"id":"1","text":"a","label":' + b"1" * 5000 + b"}",
    "such bytes in the text": b'{"id":"1","text":"\xff","label":"x"}',
    "a lone surrogate": b'{"id":"1","text":"\\ud800","label":"x"}',
    "NUL": b'{"id":"1","text":"\\u0000","label":"x"}',
    "a control character": b'{"id":"1","text":"\x01","label":"x"}',
    "a field is missing": b'{"id":"1","text":"a"}',
    "a text is null": b'{"id":"1","text":null,"label":"x"}',
    "a text is a number": b'{"id":"1","text":1,"label":"x"}',
    "an id without name": b'{"id":"","text":"a","label":"x"}',
    "an array": b'["id","text","label"]',
    "a comment": b"// " + ROW,
    "bytes after": ROW + b"\x00",
}
#: Lines that Python does not read at once, and whose needed fields are as in any other.
ODD_ELSEWHERE = {
    "a key twice": b'{"id":"1","text":"a","label":"x","more":1,"more":2}',
    "a key twice within": b'{"id":"1","text":"a","label":"x","more":{"a":1,"a":2}}',
    "not a number": b'{"id":"1","text":"a","label":"x","more":NaN}',
    "too many digits": b'{"id":"1","text":"a","label":"x","more":' + b"1" * 5000 + b"}",
    "too deep": b'{"id":"1","text":"a","label":"x","more":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "bytes that are not UTF-8": b'{"id":"1","text":"a","label":"x","more":"\xff"}',
}


@pytest.mark.slow_cases("too deep", why="the other doubtful lines stay")
@pytest.mark.parametrize("line", [*DOUBTFUL.values(), *ODD_ELSEWHERE.values()], ids=[*DOUBTFUL, *ODD_ELSEWHERE])
def test_what_pyarrow_would_pass_is_told_as_without_it(line: bytes, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 2**18)
    good = b"".join(ROW % number + b"\n" for number in range(10, 13))
    path = tmp_path / "in.jsonl"
    path.write_bytes(good + line.replace(b"%d", b"8") + b"\n" + good.replace(b'":"1', b'":"2'))
    for on_error in OnError:
        found = from_file(path, Fields(id="id", label="label"), on_error)
        with monkeypatch.context() as own:
            own.setattr(file_rows, "PYARROW_BYTES", 10**9)
            assert found == from_file(path, Fields(id="id", label="label"), on_error)
        assert any(not isinstance(event, Record) for event in found) == (line in DOUBTFUL.values())


def test_pyarrow_reads_plain_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = b"".join(ROW[:-1] % number + b',"more":"2026-01-01"}\n' for number in range(50))
    found = file_rows.json_columns(block, ["text", "id"])
    assert found is not None
    assert {name: list(column) for name, column in found.items()} == {"text": ["a"] * 50, "id": [*map(str, range(50))]}
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert file_rows.json_columns(block, ["text", "id"]) is None


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_pyarrow_is_given_no_depth_that_ends_the_process(
    opened: str, closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes down by recursion: 10,000 levels ended in SIGSEGV. Brackets of many lines do not add up."""
    given: list[object] = []

    def noted(source: object, **_: object) -> None:
        given.append(source)
        raise ValueError

    monkeypatch.setattr("pyarrow.json.read_json", noted)
    deep = b'{"text":"a","more":' + (opened * 100_000 + "1" + closed * 100_000).encode() + b"}"
    assert file_rows.json_columns(ROW % 10 + b"\n" + deep, ["text"]) is None
    assert not given
    assert file_rows.json_columns(b'{"text":"[["}\n' * 5_000, ["text"]) is None
    assert given
    monkeypatch.undo()
    path = tmp_path / "in.jsonl"
    path.write_bytes(ROW % 10 + b"\n" + deep + b"\n")
    assert [each.text for each in read_records(path, Fields())] == ["a", "a"]
    told: list[tuple[int, str]] = []
    list(read_records(path, Fields("more"), on_error=OnError.SKIP, on_skip=lambda *fault: told.append(fault)))
    assert told[-1] == (2, "arrays or objects lie too deep in each other")


@pytest.mark.parametrize(("column", "plain"), [(["a", ""], True), (["a", None], False), (["a", "b\x00"], False)])
def test_text_of_pyarrow_is_plain_without_null_and_nul(column: list[str | None], plain: bool) -> None:
    found = values_of(pa.array(column, pa.string()))
    assert list(found) == column
    assert isinstance(found, PlainTexts) == plain_texts(found) == plain


def test_a_label_that_is_null_or_a_number_stays(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "label": null}\n{"text": "b", "label": 1.5}\n{"text": "c", "label": true}\n')
    assert [batch.labels for batch in read_batches(path, Fields(label="label"))] == [[None, "1.5", "true"]]


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\x07", b"\n")), st.integers(1, 12), st.integers(1, 9))
def test_blocks_hold_the_lines_of_a_plain_reader(data: bytes, limit: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", size)
        found = list(lines_of(blocks_of(io.BytesIO(data), limit)))
    whole = data.removeprefix(b"\xef\xbb\xbf")
    wanted = [
        line if len(line) < limit or (len(line) == limit and line.endswith(b"\n")) else Bad
        for line in io.BytesIO(whole)
    ]
    if len(whole) == len(data):  # a mark counts to the first line's length
        assert [line if isinstance(line, bytes) else type(line) for line in found] == wanted


def test_a_truncated_gzip_file_gives_what_came_before(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(ROW % number + b"\n" for number in range(3000)))
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    found = from_file(path, Fields(), OnError.SKIP)
    assert len(found) > 100
    assert "gzip data is truncated" in str(found[-1])


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=8), st.integers(1, 7), st.integers(1, 25))
def test_groups_end_where_items_say(parts: list[list[int]], size: int, characters: int) -> None:
    found = list(groups(parts, list, lambda several: [*itertools.chain(*several)], size=size, characters=characters))
    wanted: list[list[int]] = []
    group: list[int] = []
    for item in (item for part in parts for item in part):
        group.append(item)
        if len(group) == size or sum(group) >= characters:
            wanted.append(group)
            group = []
    assert found == [*wanted, *([group] if group else [])]


some_ids = st.one_of(
    st.lists(
        st.sampled_from(["a", "é", "é" * 17, "a" * 17, "b" * 16, "c", "é" * 32, "é" * 33]), min_size=1, max_size=3
    ),
    st.lists(st.integers(0, 99).map(str), min_size=1, max_size=20),
    st.integers(0, 2000).map(lambda first: [str(first + place) for place in range(20)]),
    st.lists(st.integers(0, 9).map("{:036d}".format), min_size=1, max_size=9),
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), min_size=1),
)


@pytest.mark.parametrize("random", [True, False])
@few_examples
@given(parts=st.lists(some_ids, max_size=6), of_arrow=st.booleans())
def test_ids_are_refused_where_one_was_used(parts: list[list[str]], random: bool, of_arrow: bool) -> None:
    seen = set[str]()
    with pytest.MonkeyPatch.context() as patch:
        if not random:  # all keys want few slots
            patch.setattr(secrets, "token_bytes", lambda n: np.ones(n // 8, np.uint64).tobytes())
        known = row_checks.Ids()
        for part in parts:
            wanted = [id_ not in seen and id_ not in part[:place] for place, id_ in enumerate(part)]
            column = PlainTexts.of(pa.array(part, pa.string())) if of_arrow else part
            if random or max(len(id_.encode()) for id_ in part) <= 16:  # others need their hash
                assert known.fresh(column).tolist() == wanted
                seen.update(part)


@pytest.mark.parametrize("rise", [True, False])
def test_many_ids_take_less_memory_than_a_set(rise: bool) -> None:
    numbers = np.arange(200_000) if rise else np.random.default_rng(0).permutation(200_000)
    parts = [[f"{number:014d}" for number in part] for part in numbers.reshape(20, -1).tolist()]
    tracemalloc.start()
    known = row_checks.Ids()
    assert all(known.fresh(part).all() for part in parts)
    assert tracemalloc.get_traced_memory()[0] < 60 * 200_000
    tracemalloc.stop()
    assert not any(known.fresh(part).any() for part in parts)
    assert known.fresh(["200000", "14", f"{14:014d}"]).tolist() == [True, True, False]


@given(st.lists(st.binary(max_size=4)))
def test_arrow_takes_for_utf8_what_python_takes(values: list[bytes]) -> None:
    array = pa.array(values, pa.binary())
    array = pa.Array.from_buffers(pa.string(), len(array), array.buffers())
    try:
        wanted = [value.decode() for value in values]
    except UnicodeDecodeError:
        wanted = []
    try:
        found = PlainTexts.of(array)
    except pa.ArrowInvalid:
        assert values
        assert not wanted
        return
    assert (found is None) == any(b"\0" in value for value in values)
    assert found is None or list(found) == wanted


@given(st.lists(st.text("aé\U0001f600", max_size=3)), st.slices(12), st.slices(12), st.booleans())
def test_texts_of_arrow_are_a_sequence(values: list[str], one: slice, two: slice, made: bool) -> None:
    found = PlainTexts.of(pa.array(values, pa.large_string()))
    assert found is not None
    if made:
        list(found)
    for cut in (slice(None), one, two):
        found, values = found[cut], values[cut]
        assert list(found) == values
        assert Batch(found, found, found, found, found, [{}] * len(found)).lengths() == list(map(len, values))
        assert pa.array(found, pa.large_string()).to_pylist() == values


def test_columns_stay_in_arrow_until_a_string_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "lazy.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["x", "é"], "label": ["l", "m"]}), path)
    monkeypatch.setattr(PlainTexts, "strings", lambda _: pytest.fail("a string was made"))
    assert sum(map(len, read_batches(path, Fields(id="id", label="label")))) == 2


@given(values=st.lists(st.binary(max_size=4), min_size=1, max_size=20))
def test_texts_of_parquet_that_are_not_utf8_are_told_one_by_one(values: list[bytes], folder: Path) -> None:
    path = folder / "bytes.parquet"
    array = pa.array(values, pa.binary())
    pq.write_table(pa.table({"text": pa.Array.from_buffers(pa.string(), len(array), array.buffers())}), path)
    wanted: list[object] = []
    for number, value in enumerate(values, start=1):
        reason = None if b"\0" not in value else "the field 'text' holds a NUL character"
        try:
            text = value.decode()
        except UnicodeDecodeError:
            reason = "a value is not UTF-8, or Python has no match for it"
        n_good = sum(isinstance(event, Record) for event in wanted)
        wanted.append(Record(str(n_good), text) if reason is None else (number, reason))
    assert from_file(path, Fields(), OnError.SKIP) == wanted


def test_a_huge_row_group_is_read_in_small_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_rows, "CHUNK_ROWS", 2**13)
    path = folder / "long.parquet"
    for size, most in ((20_000, 80), (1, 2**13)):
        texts = [f"{number}" * size for number in range(100, 100 + 20_000 // size * 10 + 400)][:12_000]
        pq.write_table(pa.table({"text": texts}), path)
        assert max(map(len, read_batches(path))) <= most


def test_parts_of_batches_join_again() -> None:
    batch = Batch.of([Record(str(i), "x" * i, None, "me", subject="s", kept={"n": i}) for i in range(5)])
    assert list(Batch.joined([batch[:2], batch[2:3], batch[3:]])) == list(batch)
    mixed = Batch.of([Record("9", "y", kept={"other": 1})])
    assert list(Batch.joined([batch, mixed])) == [*batch, *mixed]


def test_empty_lines_of_csv_count_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    for n in (3, 6):  # the first block ends after the third
        path.write_text("text\n" + "a\n" * 96 + "\n" * n + "b\n" * 200)
        found = from_file(path, Fields(), OnError.SKIP)
        assert [event[0] for event in found if isinstance(event, tuple)] == list(range(97, 97 + n))
        assert len(found) == 296 + n


def test_a_row_of_many_lines_has_a_bound() -> None:
    block = b'text\n"' + b"a\n" * 20 + b'"\n"b"\n'
    (table,) = csv_chunks(iter([block]), ["text"], 100)
    assert table == {"text": ("a\n" * 20, "b")}
    (rows,) = csv_chunks(iter([block]), ["text"], 30)
    assert [type(row) for row in rows] == [Broken]


def test_a_text_of_too_many_characters_is_doubtful() -> None:
    for text, good in (("a" * MOST, True), ("a" * (MOST + 1), False)):
        found = batch_of({"text": ["b", text]}, Fields(), first=0, max_characters=MOST)
        assert (found is not None) == good


@given(st.text(st.sampled_from('a,"\r\n\x00é'), max_size=30), st.integers(1, 3))
def test_lines_without_quotes_are_what_the_csv_module_reads(text: str, n: int) -> None:
    for ending in ("", "\n", "\r\n"):
        found = csv_rows._unquoted(text + ending, n, ",")
        if found is not None:
            assert [tuple(column) for column in found] == csv_rows._quoted(text + ending, n, ",")
    plain = "".join(f"{','.join(['a'] * n)}\n" for _ in range(3))
    assert csv_rows._unquoted(plain, n, ",") == [["a"] * 3] * n
