"""Rows that dptext did not write: a named error, or a problem that `verify` lists, and never a crash."""

import contextlib
import gc
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_tools import KEY, MANY, Raw, limit, request

from dptext.cli import budget
from dptext.errors import ConfigError, DPTextError, LedgerError
from dptext.ledger import schema
from dptext.ledger.books import Ledger
from dptext.ledger.requests import Request, canonical, digest_of, events_from_text, terms_from_text

#: SQL values of another type or form; SQLite stores any of them in any column.
VALUES = {
    "a blob": "x'00ff'",
    "no text": "CAST(x'ff' AS TEXT)",
    "a word": "'word'",
    "below zero": "-1",
    "a fraction": "1.5",
    "endless": "9e999",
    "nothing": "NULL",
}
#: JSON of another form.
TEXTS = {
    "null": "null",
    "number": "7",
    "text": '"pure"',
    "list of numbers": "[7]",
    "list of texts": '["pure"]',
    "list of lists": "[[]]",
    "empty object": "{}",
    "true": "true",
    "nan": "NaN",
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "cut short": '{"events": [',
    "endless": "9" * 5000,
}
EVENTS = {
    "no kind": '[{"epsilon":1.0,"count":1}]',
    "another kind": '[{"kind":"surprise","count":1}]',
    "kind of a list": '[{"kind":["pure"],"epsilon":1.0}]',
    "more fields": '[{"kind":"pure","epsilon":1.0,"count":1,"more":1}]',
    "epsilon of a text": '[{"kind":"pure","epsilon":"1.0","count":1}]',
    "epsilon true": '[{"kind":"pure","epsilon":true,"count":1}]',
    "epsilon below": '[{"kind":"pure","epsilon":-1.0,"count":1}]',
    "epsilon endless": '[{"kind":"pure","epsilon":1e999,"count":1}]',
    "epsilon of a list": '[{"kind":"pure","epsilon":[1.0],"count":1}]',
    "count of a fraction": '[{"kind":"pure","epsilon":1.0,"count":1.5}]',
    "count of nothing": '[{"kind":"pure","epsilon":1.0,"count":0}]',
    "count of a text": '[{"kind":"pure","epsilon":1.0,"count":"1"}]',
    "no guarantee": '[{"kind":"none","reason":"","count":1}]',
    "reason of a list": '[{"kind":"none","reason":["x"],"count":1}]',
}
TERMS = {
    "basis of a number": '{"assumptions":[],"basis":7,"reveals":[],"trust":"local"}',
    "another basis": '{"assumptions":[],"basis":"surprise","reveals":[],"trust":"local"}',
    "basis of a list": '{"assumptions":[],"basis":["proven"],"reveals":[],"trust":"local"}',
    "assumptions of a text": '{"assumptions":"abc","basis":"proven","reveals":[],"trust":"local"}',
    "assumptions of numbers": '{"assumptions":[7],"basis":"proven","reveals":[],"trust":"local"}',
    "assumptions of lists": '{"assumptions":[["a"]],"basis":"proven","reveals":[],"trust":"local"}',
    "reveals of objects": '{"assumptions":[],"basis":"proven","reveals":[{}],"trust":"local"}',
    "without trust": '{"assumptions":[],"basis":"proven","reveals":[]}',
    "more": '{"assumptions":[],"basis":"proven","reveals":[],"trust":"local","more":1}',
}


def fill(location: str) -> None:
    """Charges of both kinds, to everyone and to one more; and a release."""
    ledger = Ledger.create(location, key=KEY)
    ledger.open_account("full", limit(50.0, 1e-5), by_subject=True)
    ledger.open_account("other", limit(), dataset="set of other")
    ledger.charge("full", request(1.0, kind="x"), key="all")
    ledger.charge("full", request(2.0, kind="y", units=2), key="some", subjects=["anna", "bert", "anna"])
    ledger.settle("full", "all", "release")
    ledger.charge("full", request(*MANY), key="folded")
    ledger.close()
    raw = Raw(location)
    raw.drop_triggers()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    fill(str(path))
    Raw(str(path)).rows("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def books(filled: Path, tmp_path: Path) -> Iterator[tuple[Ledger, Raw]]:
    path = tmp_path / "budget.db"
    shutil.copy(filled, path)
    ledger = Ledger.at(path, key=KEY)
    yield ledger, Raw(str(path))
    ledger.close()


def uses(ledger: Ledger) -> Iterator[Callable[[], object]]:
    """All that reads rows, and the commands that print them."""
    location = ledger.name
    for as_json in (False, True):
        yield lambda as_json=as_json: budget.show(location, as_json=as_json)
        yield lambda as_json=as_json: budget.log("full", location, as_json=as_json)
    yield lambda: budget.verify(location)
    yield ledger.accounts
    yield lambda: list(ledger.log("full", last=1))
    yield lambda: ledger.balance("full", subject="anna")
    yield lambda: [ledger.find(number) for number in (1, 2)]
    yield lambda: ledger.charge("full", request(1.0, kind="x"), key="all")
    yield lambda: ledger.charge("full", request(2.0, kind="y", units=2), key="some", subjects=["anna", "bert", "anna"])
    yield lambda: ledger.settle("full", "all", "release")
    yield lambda: ledger.open_account("new", limit(), by_subject=True)
    yield lambda: ledger.charge("full", request(0.5), subjects=["anna", "carl"])
    yield lambda: ledger.charge("full", request(0.5))
    yield lambda: ledger.settle("full", "some", "another release")
    yield ledger.upgrade


def faults(ledger: Ledger) -> list[DPTextError]:
    """What the uses of damaged books raise: nothing but named errors, which are short."""
    found: list[DPTextError] = []
    for use in uses(ledger):
        try:
            use()
        except DPTextError as error:
            found.append(error)
    assert all(len(str(error)) < 2000 for error in found)
    return found


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """What an error leaves half read warns here, and not in another test."""
    yield
    gc.collect()


COLUMNS = [
    f"{table.name}.{column.name}"
    for table in schema.metadata.sorted_tables
    for column in table.columns
    if column.name not in ("id", "account_id", "charge_id", "request_id", "tally_id")  # foreign keys: SQLite knows them
]


#: Of every second column one pair, so that each value has its turn; the others wait for `make test-all`.
PAIRS = [
    pytest.param(column, value, marks=pytest.mark.slow if (i + j) % 7 or i % 2 else ())
    for i, column in enumerate(COLUMNS)
    for j, value in enumerate(VALUES)
]


@pytest.mark.parametrize(("column", "value"), PAIRS)
def test_a_value_of_another_type_is_a_named_error(column: str, value: str, books: tuple[Ledger, Raw], capsys) -> None:
    ledger, raw = books
    table, _, name = column.partition(".")
    where = " WHERE name = 'full'" if table == "accounts" else ""
    with contextlib.suppress(sa.exc.IntegrityError):  # what the schema refuses by itself
        kept = raw.rows(f"UPDATE {table} SET {name} = {VALUES[value]}{where} RETURNING typeof({name})")  # noqa: S608
        assert kept
        found = faults(ledger)
        declared = schema.metadata.tables[table].columns[name].type
        sound = {"TEXT": "text", "BLOB": "blob", "DOUBLE": "real"}.get(str(declared), "integer")
        # nothing stands where nothing may stand; when a release was settled is never read
        assert found or kept[0][0] in (sound, "null") or column == "settlements.at"
    capsys.readouterr()


def test_each_column_is_of_a_type_that_is_checked() -> None:
    assert {column.type.__module__ for table in schema.metadata.tables.values() for column in table.columns} == {
        schema.__name__
    }


def requests() -> Iterator[tuple[str, str]]:
    """Texts of requests with one thing of another form."""
    sound = json.loads(request(1.0, kind="x").to_text())

    def with_text(key: str, text: str) -> str:
        return canonical({**sound, key: "TEXT"}).replace('"TEXT"', text)

    yield from TEXTS.items()
    for name, text in EVENTS.items():
        yield f"events, {name}", with_text("events", text)
    for name, text in TERMS.items():
        yield f"terms, {name}", with_text("terms", text)
    for key in sound:
        yield f"without {key}", canonical({name: value for name, value in sound.items() if name != key})
        for name, text in TEXTS.items():
            if (key, name) not in {("settings", "empty object"), ("units_per_subject", "number")}:  # sound
                yield f"{key}, {name}", with_text(key, text)
    for text in ("-1", "0", "1.5", '"1"'):
        yield f"units_per_subject, {text}", with_text("units_per_subject", text)


REQUESTS = dict(requests())


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Finalizers of other tests would fail at the depth of the deepest text."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_of_another_form_is_a_named_error(name: str) -> None:
    with pytest.raises(ConfigError, match="Expected a charge that this version of dptext can read, found another"):
        Request.from_text(REQUESTS[name])


@pytest.mark.parametrize("name", [*TEXTS, *EVENTS])
def test_events_of_another_form_are_a_named_error(name: str) -> None:
    with pytest.raises(LedgerError, match="balances of the ledger are damaged"):
        events_from_text({**TEXTS, **EVENTS}[name])


@pytest.mark.parametrize("name", [*TEXTS, *TERMS])
def test_terms_of_another_form_are_a_named_error(name: str) -> None:
    with pytest.raises(LedgerError, match="balances of the ledger are damaged"):
        terms_from_text({**TEXTS, **TERMS}[name])


STATEMENTS = {
    "balances.events": "UPDATE balances SET events = :text",
    "earlier_events.events": "UPDATE earlier_events SET events = :text",
    "balances.terms": "UPDATE balances SET terms = :text",
    "tallies.events": "UPDATE tallies SET events = :text, digest = :digest",
    "requests.request": "UPDATE requests SET request = :text, digest = :digest WHERE id = 1",
    "requests.settings": "UPDATE requests SET request = :text, digest = :digest WHERE id = 1",
}


@pytest.mark.slow_cases(
    "deep-balances.events",
    "deep-balances.terms",
    "deep-earlier_events.events",
    "deep-requests.settings",
    "deep-tallies.events",
    why="each place stays with null, and one with deep JSON",
)
@pytest.mark.slow_cases("text", why="null and JSON that is too deep stay")
@pytest.mark.parametrize("column", STATEMENTS)
@pytest.mark.parametrize("name", ["null", "text", "deep"])
def test_json_of_another_form_in_the_books_is_a_named_error(
    column: str, name: str, books: tuple[Ledger, Raw], capsys
) -> None:
    ledger, raw = books
    statement = STATEMENTS[column]
    text = REQUESTS[f"settings, {name}"] if column == "requests.settings" else TEXTS[name]
    raw.rows(statement, text=text, **({"digest": digest_of(text)} if ":digest" in statement else {}))
    assert faults(ledger)
    capsys.readouterr()


@pytest.mark.parametrize(
    "statement", ["INSERT INTO alembic_version VALUES ('next')", "UPDATE alembic_version SET version_num = x'00'"]
)
def test_books_that_do_not_say_their_schema_are_damaged(statement: str, books: tuple[Ledger, Raw]) -> None:
    ledger, raw = books
    raw.rows(statement)
    for use in (ledger.accounts, ledger.upgrade, lambda: Ledger.create(ledger.name)):
        with pytest.raises(LedgerError, match="is damaged: it does not say of which schema it is"):
            use()
