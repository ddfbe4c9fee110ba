"""A charge pays for one release of each document: copies of a text are refused, in a call and in a job."""

import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptext as dp
from dptext_gateway.copies import Copies
from dptext_gateway.problems import Problem
from gateways import Served, served

SPELLINGS = ("My Secret", "my secret", " my secret\n", "ｍｙ ｓｅｃｒｅｔ", "MY SECRET")
Rows = list[dict[str, str]]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("gateway"), epsilon=1e6) as found:
        found.ledger.open_account("authors", dp.Guarantee(1e6, 1e-5, dp.Unit.AUTHOR, dp.Relation.REPLACE_ONE))
        yield found


def row(text: str, label: str = "travel", **more: str) -> dict[str, str]:
    return {"text": text, "label": label, **more}


COPIES: dict[str, tuple[Rows, int, int]] = {
    "a thousand": ([row("a")] * 1_000, 1, 0),
    "under other labels": ([row("b"), row("a"), row("c"), row("a", "health")], 3, 1),
    "under other ids": ([row("a", id="1"), row("a", id="2")], 1, 0),
    "of no text": ([row("a"), row(""), row(" ")], 2, 1),
    **{f"written as {each!r}": ([row("b"), row(SPELLINGS[0]), row(each)], 2, 1) for each in SPELLINGS},
}


@pytest.mark.parametrize(("rows", "later", "earlier"), COPIES.values(), ids=COPIES)
def test_copies_in_a_call_are_not_charged(gateway: Served, rows: Rows, later: int, earlier: int) -> None:
    before, key = len(gateway.charges()), f"copies-{abs(hash(str(rows)))}"
    refused = gateway.privatize(rows, key)
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:dptext:equal-texts")
    assert f" too many: records[{later}] (equals records[{earlier}])" in refused.json()["detail"]
    assert "ecret" not in refused.text
    assert len(gateway.charges()) == before
    # Nothing was drawn under the key: it is free for what is right.
    assert gateway.privatize(rows[:1], key).status_code == 200


def written(format: str, rows: Rows) -> bytes:
    """A file of these records."""
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), data := io.BytesIO())
        return data.getvalue()
    if format == "csv":
        return "".join(f'"{each["text"]}",{each["label"]}\n' for each in [row("text", "label"), *rows]).encode()
    return "".join(json.dumps(each) + "\n" for each in rows).encode()


@pytest.mark.slow_cases("csv", "parquet", why="jsonl stays: copies are counted behind the formats")
@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_copies_in_a_file_are_not_charged(gateway: Served, format: str) -> None:
    """However far from each other: they are counted in the whole file."""
    rows = [row(f"text {i}") for i in range(600)]
    before = len(gateway.charges())
    for number, texts in enumerate(([*rows, row("TEXT 7 ")], [rows[3], *rows])):
        data = written(format, texts)
        failed = gateway.ended(gateway.job(data, f"copies-{format}-{number}", format=format).json()["id"])
        assert failed["state"] == "failed"
        wanted = "record 601 (equals record 8)" if number == 0 else "record 5 (equals record 1)"
        assert f"1 record too many: {wanted}. Leave out all but one" in failed["problem"]
        assert failed["problem"].endswith("Nothing was charged.")
    assert len(gateway.charges()) == before
    whole = gateway.job(written(format, rows), f"each-once-{format}", format=format).json()["id"]
    assert gateway.ended(whole)["state"] == "done"


def test_copies_are_counted_and_the_first_ten_named(gateway: Served) -> None:
    rows = [row("ok" if i % 5 == 0 else f"text {i}") for i in range(500)] + [row("text 1"), row("TEXT 1")]
    said = gateway.ended(gateway.job(written("jsonl", rows), "many-copies").json()["id"])["problem"]
    named = ", ".join(f"record {i} (equals record 1)" for i in range(6, 56, 5))
    assert "found 2 texts more than once (" in said
    assert f", 101 records too many: {named} and 91 more. Leave out all but one of each text, in one go, and " in said
    assert "under another Idempotency-Key; or take an account per author, with max_per_author. " in said
    few = gateway.privatize([*rows[-2:], row("b"), row("b")], "few-copies").json()["detail"]
    assert "2 texts more than once (" in few
    assert ", 2 records too many: records[1] (equals records[0]), records[3] (equals records[2]). Leave" in few


def test_copies_of_authors_are_counted_by_the_account(gateway: Served) -> None:
    """Of each author as many records may come as the charge pays for; two authors may write the same."""
    key = gateway.gate.keys.create("authors", account="authors", scopes=("privatize", "jobs"))
    rows = [row("thanks", author=name) for name in ("ada", "ada", "bob")]
    found = gateway.privatize(rows, "of-authors-1", max_per_author=2, key=key).json()
    assert len(found["releases"].splitlines()) == 3
    refused = gateway.privatize([*rows, rows[0]], "of-authors-3", max_per_author=2, key=key)
    assert refused.json()["detail"] == "Record 4 is refused: its author has more than max_per_author=2 records."
    answer = gateway.client.post(
        "/v1/jobs?model=labels&label_field=label&author_field=author&max_per_author=2",
        content=written("jsonl", rows),
        headers=gateway.headers(key, "of-authors-2"),
    )
    job = answer.json()["id"]
    gateway.key, own = key, gateway.key
    try:
        assert gateway.ended(job)["state"] == "done"
    finally:
        gateway.key = own
    (one, two) = gateway.ledger.log("authors")
    assert one.request.events == two.request.events
    assert one.request.units_per_subject == 2


def test_copies_are_found_among_many_and_no_others() -> None:
    texts = [f"text {i}" for i in range(20_000)]
    each = Copies()
    each.require_none("{}", 0)
    for first in range(0, len(texts), 256):
        each.add(texts[first : first + 256])
    each.require_none("{}", 0)
    each.add(["\ud800", texts[12_345]])  # what is no text of UTF-8 is compared, too
    with pytest.raises(Problem, match=r"1 record too many: 20001 \(equals 12345\)\. "):
        each.require_none("{}", 0)


def test_the_description_says_what_a_charge_pays_for(gateway: Served) -> None:
    paths = gateway.client.get("/openapi.json").json()["paths"]
    for path, said in (
        ("/v1/models/{name}/privatize", "one release of each document"),
        ("/v1/jobs", "one release of each document"),
        ("/v1/synthesize", "k times the epsilon"),
    ):
        assert said in " ".join(paths[path]["post"]["description"].split()), path
