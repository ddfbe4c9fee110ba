"""The schema: made by steps that nobody edits, of which the next one loses no row."""

import contextlib
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from ledger_tools import DERIVED, KEY, MANY, WRITTEN_ONCE, Raw, limit, request

from dptext.errors import BudgetExceededError, LedgerError, PrivacyError
from dptext.ledger import schema
from dptext.ledger.books import Ledger
from dptext.ledger.database import Database
from next_schema import NEXT, TODAY, version_with, with_next_step


@pytest.fixture(scope="module")
def next_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_next_step(tmp_path_factory.mktemp("steps") / "migrations")


@pytest.fixture
def newer(next_steps: Path) -> Iterator[Callable[[], None]]:
    """From the call on, dptext is a version with one more step."""
    with contextlib.ExitStack() as until:
        yield lambda: until.enter_context(version_with(str(next_steps)))


def filled(location: str) -> Ledger:
    """A ledger of today's schema with accounts, charges, and releases that they paid for."""
    ledger = Ledger.create(location, key=KEY)
    ledger.open_account("empty", limit())
    ledger.open_account("all", limit(20.0))
    for n in range(5):
        ledger.charge("all", request(0.1, kind="a"), key=f"run {n}")
    ledger.charge("all", request(*MANY), key="many")
    ledger.open_account("some", limit(20.0, 1e-5), by_subject=True)
    ledger.charge("some", request(1.0, units=2), key="one", subjects=["anna", "bert", "anna"])
    ledger.charge("some", request(0.5, 1.0), key="two", subjects=["carl"])
    ledger.charge("some", request(1.0, units=2), key="three")
    ledger.settle("all", "run 3", "release three")
    ledger.settle("some", "one", "release one")
    return ledger


def said(ledger: Ledger) -> list[object]:
    """All that a ledger says of its accounts."""
    names = [account.name for account in ledger.accounts()]
    verified = [ledger.verify(name) for name in names]
    assert [each.problems for each in verified] == [()] * len(names)
    return [*verified, *map(ledger.balance, names), *(list(ledger.log(name)) for name in names)]


def uses(ledger: Ledger) -> Iterator[Callable[[], object]]:
    yield lambda: ledger.account("all")
    yield ledger.accounts
    yield lambda: ledger.open_account("new", limit())
    yield lambda: ledger.charge("all", request(0.1))
    yield lambda: ledger.charge("some", request(0.1), subjects=["anna"])
    yield lambda: ledger.settle("all", "run 1", "release")
    yield lambda: ledger.balance("all")
    yield lambda: ledger.balance("some", subject="anna")
    yield lambda: list(ledger.log("all"))
    yield lambda: ledger.find(1)
    yield lambda: ledger.verify("all")


def test_the_steps_make_the_tables_that_the_code_uses(new_location: Callable[[], str]) -> None:
    location = new_location()
    Ledger.create(location).close()
    raw = Raw(location)
    with raw.connection() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, schema.metadata) == []
        assert context.get_current_revision() == TODAY
        # alembic does not compare primary keys
        found = sa.inspect(connection)
        for table in schema.metadata.tables.values():
            key = found.get_pk_constraint(table.name)["constrained_columns"]
            assert key == [column.name for column in table.primary_key]
    assert set(raw.dump()) == {*WRITTEN_ONCE, *DERIVED, "alembic_version"}
    assert set(schema.metadata.tables) == {*WRITTEN_ONCE, *DERIVED}


def test_the_comparison_sees_what_differs(new_location: Callable[[], str], newer: Callable[[], None]) -> None:
    newer()
    location = new_location()
    Ledger.create(location).close()
    with Raw(location).connection() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        found = compare_metadata(context, schema.metadata)
    assert {change[0] for change in found} == {"remove_table", "remove_column"}


def test_a_ledger_is_upgraded_without_loss(new_location: Callable[[], str], newer: Callable[[], None]) -> None:
    location = new_location()
    ledger, raw = filled(location), Raw(location)
    before, told = raw.dump(), said(ledger)
    ledger.close()
    assert Ledger.at(location).upgrade() is False
    newer()
    ledger = Ledger.create(location, key=KEY)  # changes nothing that is there
    for use in uses(ledger):
        with pytest.raises(LedgerError, match=f"has the older schema {TODAY}: run `dptext budget upgrade` first"):
            use()
    assert raw.dump() == before

    assert ledger.upgrade() is True
    assert ledger.upgrade() is False
    after = raw.dump()
    assert {table: after[table] for table in WRITTEN_ONCE} == {table: before[table] for table in WRITTEN_ONCE}
    assert after["alembic_version"] == [(NEXT,)]
    assert after["notes"] == [("all", 6), ("empty", 0), ("some", 3)]
    assert said(ledger) == told

    # keys still stand, and it goes on
    one = next(charge for charge in ledger.log("some") if charge.key == "one")
    assert ledger.charge("some", request(1.0, units=2), key="one", subjects=["anna", "bert", "anna"]) == one
    with pytest.raises(PrivacyError, match="paid for another release"):
        ledger.settle("all", "run 3", "another")
    assert said(ledger) == told
    ledger.charge("some", request(2.0), subjects=["anna", "dora"])
    with pytest.raises(BudgetExceededError):
        ledger.charge("some", request(18.5), subjects=["bert"])
    assert ledger.verify("some").problems == ()
    ledger.close()


@contextlib.contextmanager
def failing_at(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The operation of a step fails, where it is called for the last time."""

    def fail(*_: object, **__: object) -> None:
        raise LedgerError("the lights went out")

    with monkeypatch.context() as patch:
        patch.setattr(f"alembic.op.{name}", fail)
        yield


def test_an_upgrade_that_fails_leaves_the_old_books_whole(
    new_location: Callable[[], str], newer: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    location = new_location()
    ledger, raw = filled(location), Raw(location)
    before, told = raw.dump(), said(ledger)
    ledger.close()
    newer()
    # the column is the last thing that the step makes, after all the rows
    with failing_at("add_column", monkeypatch), pytest.raises(LedgerError, match="the lights went out"):
        ledger.upgrade()
    assert raw.dump() == before
    with pytest.raises(LedgerError, match=f"older schema {TODAY}"):
        ledger.balance("all")
    assert ledger.upgrade() is True
    assert said(ledger) == told
    ledger.close()


def test_a_ledger_that_is_made_is_made_whole(new_location: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    location = new_location()
    made = Database(location)
    # the index is the last thing that the step makes, but for the triggers
    with failing_at("create_index", monkeypatch), pytest.raises(LedgerError, match="the lights went out"):
        made.create()
    made.close()
    assert Raw(location).dump() == {}
    ledger = Ledger.at(location)
    for use in (*uses(ledger), ledger.upgrade):
        with pytest.raises(LedgerError, match=r"There is no ledger in .*: make one with `dptext budget open`"):
            use()
    Ledger.create(location).close()
    assert ledger.accounts() == []
    ledger.close()


@pytest.mark.slow_cases("postgresql", why="schemas are compared alike on SQLite, which stays")
@pytest.mark.parametrize("other", ["0001", "0003", "9999"])
def test_a_ledger_of_another_schema_is_left_alone(new_location: Callable[[], str], other: str) -> None:
    """Of a newer dptext, or of one from before the first schema that is promised."""
    location = new_location()
    ledger = Ledger.create(location, key=KEY)
    ledger.open_account("all", limit())
    ledger.close()
    raw = Raw(location)
    raw.rows("UPDATE alembic_version SET version_num = :other", other=other)
    before = raw.dump()
    ledger = Ledger.create(location, key=KEY)
    for use in (*uses(ledger), ledger.upgrade):
        with pytest.raises(LedgerError, match=f"to have the schema {TODAY}, found {other}: use the version of dptext"):
            use()
    assert raw.dump() == before
    ledger.close()


def test_a_database_of_something_else_is_left_alone(new_location: Callable[[], str]) -> None:
    location = new_location()
    raw = Raw(location)
    raw.rows("CREATE TABLE guests (name TEXT)")
    there = Database(location)
    with pytest.raises(LedgerError, match="holds other tables: give the ledger its own"):
        there.create()
    there.close()
    assert raw.dump() == {"guests": []}


def test_a_file_of_something_else_keeps_its_journal(tmp_path: Path) -> None:
    raw = Raw(str(tmp_path / "guests.db"))
    raw.rows("CREATE TABLE guests (name TEXT)")
    with pytest.raises(LedgerError, match="holds other tables"):
        Ledger.create(raw.location)
    assert raw.one("PRAGMA journal_mode") == "delete"


def test_a_ledger_in_a_file_is_its_owners(tmp_path: Path) -> None:
    for number, location in enumerate([str(tmp_path / "0.db"), tmp_path / "1.db", f"sqlite:///{tmp_path}/2.db"]):
        ledger = Ledger.create(location)
        ledger.open_account("all", limit())
        assert (ledger.path, ledger.name) == (tmp_path / f"{number}.db", str(tmp_path / f"{number}.db"))
        for path in tmp_path.glob(f"{number}.db*"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ledger.close()


def test_a_ledger_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    folder = tmp_path / "what? 100% #1 über"
    folder.mkdir()
    ledger = Ledger.create(folder / "budget.db")
    ledger.open_account("all", limit())
    assert [account.name for account in Ledger.at(folder / "budget.db").accounts()] == ["all"]
    ledger.close()
