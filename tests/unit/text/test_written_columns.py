"""Releases that are written as columns give the bytes, the blocks and the errors of one object a release."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError, DataError, DPTextError, PrivacyError
from dptext.mechanism import output_fault
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.results import privatize
from dptext.runs.streaming import limited, release
from dptext.sampling.randomness import seeded
from dptext.text.batches import Batch, Kept, Releases
from dptext.text.columns import Columns
from dptext.text.formats import Format
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record, Release
from dptext.text.writers import blocks, encode_batch, open_writer
from examples import few_examples

LABELS = ("travel", "money")
words = st.text(st.sampled_from("a ,\"'=\n\r\x00\ud800é\u2028%{}"), max_size=5)
values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words)
floats = st.floats(allow_nan=True, width=64) | st.sampled_from([0.1, 7.038531e-26, 1e39])
PUBLIC = [Record("0", "book a flight", "travel"), Record("1", "send ten euros", "money")]


@st.composite
def releases(draw: st.DrawFn) -> Releases:
    n = draw(st.integers(0, 4))
    columns = {name: draw(st.lists(values, min_size=n, max_size=n)) for name in draw(st.sets(st.sampled_from("kl%")))}
    vectors = np.array(draw(st.lists(st.lists(floats, min_size=2, max_size=2), min_size=n, max_size=n))).reshape(n, 2)
    return Releases(
        draw(st.lists(words, min_size=n, max_size=n)),
        draw(st.one_of(st.just([""] * n), st.lists(words, min_size=n, max_size=n))),
        draw(st.none() | st.lists(st.none() | words, min_size=n, max_size=n)),
        Kept(columns, n),
        vectors if draw(st.booleans()) else None,
    )


def outcome(make: Callable[[], object]) -> object:
    try:
        return make()
    except DPTextError as error:
        return type(error), str(error)


@given(
    releases(), st.sampled_from([Format.JSONL, Format.CSV, Format.TEXT]), st.booleans(), st.booleans(), st.booleans()
)
def test_bytes_and_errors_are_those_of_objects(
    given: Releases, format: Format, text: bool, label: bool, safe: bool
) -> None:
    columns = Columns(
        text=text,
        vector=given.vectors is not None,
        label=label,
        keep=tuple(sorted(given.kept.columns)),
        safe_csv=safe,
    )
    as_columns = outcome(lambda: encode_batch(given, format, columns, header=True))
    assert as_columns == outcome(lambda: encode_batch(list(given), format, columns, header=True))


@few_examples
@given(releases(), st.booleans(), st.booleans())
def test_parquet_is_that_of_objects(given: Releases, text: bool, label: bool) -> None:
    def written(what: Releases | list[Release[str]]) -> list[object]:
        file = io.BytesIO()
        keep = tuple(sorted(given.kept.columns))
        writer = open_writer(file, Format.PARQUET, columns=Columns(text, given.vectors is not None, label, keep))
        try:
            writer.write(what)
        finally:
            writer.close()
        return pq.read_table(file).to_pylist()

    if text or given.vectors is not None:
        assert outcome(lambda: repr(written(given))) == outcome(lambda: repr(written(list(given))))


@given(st.lists(releases(), max_size=4), st.integers(1, 5))
def test_blocks_are_those_of_objects(parts: list[Releases], size: int) -> None:
    found = [list(block) for block in blocks(parts, size)]
    assert repr(found) == repr(list(blocks([[each] for part in parts for each in part], size)))


@given(releases())
def test_the_telling_releases_have_the_fault_that_all_have(given: Releases) -> None:
    for spec in (LabelOnly(LABELS), _Unlabelled(LABELS), _Silent(LABELS)):
        assert output_fault(spec, given.telling()) == output_fault(spec, list(given))


class _Unlabelled(LabelOnly):
    """Promises texts alone."""

    @property
    def traits(self):
        from dptext.mechanism import Traits

        return Traits()


class _Silent(LabelOnly):
    """Promises vectors alone."""

    @property
    def traits(self):
        from dptext.mechanism import Traits

        return Traits(releases_text=False, releases_vectors=True)


@pytest.mark.parametrize("fault", ["ids", "labels"])
def test_a_mechanism_that_answers_in_columns_is_held_to_its_word(fault: str) -> None:
    class Planted:
        spec = _Unlabelled(LABELS)

        def privatize(self, records, randomness):
            batch = Batch.of(records)
            labels = [None, "travel"] if fault == "labels" else None
            ids = batch.ids[::-1] if fault == "ids" else batch.ids
            return Releases(ids, ["a", "b"], labels, batch.kept, None)

    with pytest.raises(PrivacyError, match="in order" if fault == "ids" else "no labels"):
        release([Record("0", "a"), Record("1", "b")], Planted(), seeded(0))


records = st.lists(
    st.tuples(st.text('ab\n"é', max_size=4), st.sampled_from(["travel", "money", "other", None]), st.integers(0, 9)),
    max_size=30,
)


@few_examples
@given(given=records.filter(bool), size=st.integers(1, 9), kind=st.sampled_from([Format.JSONL, Format.PARQUET]))
def test_a_run_from_file_to_file_is_that_of_records(
    given: list[tuple[str, str | None, int]], size: int, kind: Format, folder: Path
) -> None:
    source, target = folder / "in.jsonl", folder / f"out.{kind}"
    rows = [{"text": text, "label": label, "n": n, "id": i} for i, (text, label, n) in enumerate(given)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mechanism = LabelOnly(LABELS, epsilon=2.0).fit(public=PUBLIC)
    fields = Fields(id="id", label="label", keep=("n",))
    plan = Plan(fields=fields, batch_size=size, force=True, without_guarantee=True)
    privatize_file(source, target, mechanism, plan=plan, randomness=seeded(1))
    private = [Record(str(i), text, label, kept={"n": n}) for i, (text, label, n) in enumerate(given)]
    wanted = list(privatize(private, mechanism, randomness=seeded(1), without_guarantee=True))
    names = Fields(id="id", label="label", keep=("n",))
    found = [
        Release(each.id, each.text, each.label, {"n": int(each.kept["n"])}) for each in read_records(target, names)
    ]
    assert found == wanted
    if kind is Format.PARQUET:
        groups = pq.ParquetFile(target).metadata
        sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        assert sizes == [min(size, len(given) - start) for start in range(0, len(given), size)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@given(st.lists(st.sampled_from(["me", "ME ", "you", "", None]), max_size=8), st.integers(1, 3), st.integers(1, 8))
def test_batches_end_before_an_author_with_too_many(authors: list[str | None], most: int, size: int) -> None:
    private = [Record(str(i), "a", author=author) for i, author in enumerate(authors)]
    counts: dict[str, int] = {}
    good = 0
    for author in authors:
        name = (author or "").strip().lower()
        counts[name] = counts.get(name, 0) + 1
        if not name or counts[name] > most:
            break
        good += 1
    parts = [Batch.of(private[start : start + size]) for start in range(0, len(private), size)]
    found: list[Record] = []
    refused = (
        contextlib.nullcontext() if good == len(private) else pytest.raises(DataError, match=f"Record {good + 1} ")
    )
    with refused:
        for batch in limited(parts, most):
            found += batch
    assert found == private[:good]


def test_a_label_that_is_not_to_be_written_is_refused() -> None:
    given = Releases(["0"], ["a"], ["travel"], Kept({}, 1), None)
    with pytest.raises(ConfigError, match="label=False"):
        encode_batch(given, Format.JSONL, Columns())
    assert (
        encode_batch(Releases(["0"], ["a"], [None], Kept({}, 1), None), Format.JSONL) == b'{"id": "0", "text": "a"}\n'
    )
