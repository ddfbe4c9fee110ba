"""The schema: made by steps that nobody edits, from the first books to those of today, without losing a row."""

import hashlib
import itertools
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_tools import DERIVED, KEY, MANY, WRITTEN_ONCE, Raw, charged_epsilon, limit, request

from dptext.errors import BudgetExceededError, LedgerError, PrivacyError
from dptext.ledger import schema
from dptext.ledger.books import Ledger
from dptext.ledger.database import Database, _alembic
from dptext.ledger.recomputation import Recomputation
from dptext.ledger.requests import Request, Terms, digest_of
from dptext.privacy.events import Event, ExponentialEvent, PureEvent
from dptext.privacy.guarantee import Basis, Trust

TIME = "2026-01-01T00:00:00Z"


def first_schema(location: str) -> Raw:
    """A database with the tables of the first schema, and nothing in them."""
    raw = Raw(location)
    migrate(raw, "0001")
    return raw


def migrate(raw: Raw, revision: str) -> None:
    with raw.connection() as connection:
        config = _alembic()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


@dataclass
class FirstBooks:
    """Writes accounts and charges as the first version did: there was nothing but what is written once."""

    raw: Raw
    everyone: dict[str, list[Event]] = field(default_factory=dict)
    own: dict[str, dict[str, list[Event]]] = field(default_factory=dict)
    terms: dict[str, Terms] = field(default_factory=dict)
    charges: dict[str, int] = field(default_factory=dict)

    def insert(self, table: str, **values: object) -> None:
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        self.raw.rows(f"INSERT INTO {table} ({names}) VALUES ({marks})", **values)  # noqa: S608

    def id(self, table: str, column: str, value: str) -> int:
        found = self.raw.one(f"SELECT id FROM {table} WHERE {column} = :value", value=value)  # noqa: S608
        assert isinstance(found, int)
        return found

    def open(self, name: str, *, epsilon: float = 20.0, delta: float = 0.0, by_subject: bool = True) -> None:
        self.insert(
            "accounts",
            name=name,
            dataset=f"set of {name}",
            unit="document",
            relation="replace_one",
            epsilon=epsilon,
            delta=delta,
            key_check=KEY.check_as_spelled(name) if by_subject else None,
            opened=TIME,
        )
        self.everyone[name], self.own[name], self.terms[name], self.charges[name] = [], {}, Terms(), 0

    def charge(self, name: str, key: str, asked: Request, subjects: list[str] | None = None) -> None:
        text = asked.to_text()
        if not self.raw.rows("SELECT id FROM requests WHERE digest = :digest", digest=digest_of(text)):
            self.insert("requests", digest=digest_of(text), request=text)
        hashes = None if subjects is None else [KEY.hash(name, each) for each in subjects]
        self.insert(
            "charges",
            account_id=self.id("accounts", "name", name),
            key=key,
            request_id=self.id("requests", "digest", digest_of(text)),
            everyone=subjects is None,
            subjects_digest=None if hashes is None else hashlib.sha256(b"".join(hashes)).hexdigest(),
            subjects=None if hashes is None else len(set(hashes)),
            at=TIME,
        )
        charge_id = self.raw.one(
            "SELECT id FROM charges WHERE key = :key AND account_id = :account",
            key=key,
            account=self.id("accounts", "name", name),
        )
        for hashed in sorted(set(hashes or [])):
            self.insert("charged_subjects", charge_id=charge_id, subject=hashed)
        if subjects is None:
            self.everyone[name] += asked.events
        for subject in set(subjects or []):
            self.own[name].setdefault(subject, []).extend(asked.events)
        self.terms[name] |= asked.terms
        self.charges[name] += 1

    def settle(self, name: str, key: str, release: str) -> None:
        self.raw.rows(
            "INSERT INTO settlements (charge_id, release, at) SELECT c.id, :release, :at FROM charges c "
            "JOIN accounts a ON a.id = c.account_id WHERE a.name = :name AND c.key = :key",
            release=release,
            at=TIME,
            name=name,
            key=key,
        )

    def require(self, ledger: Ledger) -> None:
        """The ledger says what the first version had written."""
        for name, everyone in self.everyone.items():
            delta = ledger.account(name).limit.delta
            whole = [[*everyone, *own] for own in ([], *self.own[name].values())]
            balance = ledger.balance(name)
            assert balance.spent.epsilon == max(charged_epsilon(events, delta) for events in whole)
            assert (balance.charges, balance.subjects) == (self.charges[name], len(self.own[name]))
            assert set(balance.spent.assumptions) >= set(self.terms[name].assumptions)
            assert (balance.spent.trust, balance.spent.reveals) == (self.terms[name].trust, self.terms[name].reveals)
            for subject, own in self.own[name].items():
                expected = charged_epsilon([*everyone, *own], delta)
                assert ledger.balance(name, subject=subject).spent.epsilon == expected
            assert ledger.verify(name) == Recomputation(name, self.charges[name], len(self.own[name]), ())
            assert len(list(ledger.log(name))) == self.charges[name]


def written_by_the_first_version(location: str) -> FirstBooks:
    books = FirstBooks(first_schema(location))
    books.open("empty", by_subject=False)
    books.open("all", by_subject=False)
    for n in range(30):
        books.charge("all", f"run {n}", request(0.1, kind="a"))
    books.charge("all", "more", request(0.25, ExponentialEvent(1.0, 100), terms=Terms(Trust.CENTRAL, reveals=("b",))))
    books.open("some", delta=1e-5)
    books.charge("some", "one", request(1.0, units=2), ["anna", "bert", "anna"])
    books.charge("some", "two", request(1.0, units=2), ["bert", "carl"])
    books.charge(
        "some", "three", request(0.5, 1.0, terms=Terms(basis=Basis.CONDITIONAL, assumptions=("z", "a"))), ["carl"]
    )
    books.charge("some", "four", request(1.0, units=2))
    books.charge("some", "nobody", request(3.0), [])
    books.open("many")
    books.charge("many", "crowd", request(0.5), [f"subject {n}" for n in range(40)])
    books.charge("many", "half", request(0.5), [f"subject {n}" for n in range(0, 40, 2)])
    books.settle("all", "run 3", "release three")
    books.settle("some", "one", "release one")
    return books


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
        assert context.get_current_revision() == "0003"
        # alembic does not compare primary keys
        found = sa.inspect(connection)
        for table in schema.metadata.tables.values():
            key = found.get_pk_constraint(table.name)["constrained_columns"]
            assert key == [column.name for column in table.primary_key]
    assert set(raw.dump()) == {*WRITTEN_ONCE, *DERIVED, "alembic_version"}
    assert set(schema.metadata.tables) == {*WRITTEN_ONCE, *DERIVED}


def test_the_comparison_sees_what_differs(new_location: Callable[[], str]) -> None:
    raw = first_schema(new_location())
    with raw.connection() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert {
            change[1].name for change in compare_metadata(context, schema.metadata) if change[0] == "add_table"
        } == {*DERIVED}


def test_the_first_books_are_upgraded_without_loss(new_location: Callable[[], str]) -> None:
    location = new_location()
    books = written_by_the_first_version(location)
    before = {table: books.raw.dump()[table] for table in WRITTEN_ONCE}
    ledger = Ledger.create(location, key=KEY)  # changes nothing that is there
    for use in uses(ledger):
        with pytest.raises(LedgerError, match="has the older schema 0001: run `dptext budget upgrade` first"):
            use()
    assert {table: books.raw.dump()[table] for table in WRITTEN_ONCE} == before
    assert "tallies" not in books.raw.dump()

    assert ledger.upgrade() is True
    assert ledger.upgrade() is False
    assert {table: books.raw.dump()[table] for table in WRITTEN_ONCE} == before
    assert books.raw.rows("SELECT version_num FROM alembic_version") == [("0003",)]
    books.require(ledger)
    log = {charge.key: charge for charge in itertools.chain(ledger.log("all"), ledger.log("some"))}
    assert {key: charge.release for key, charge in log.items() if charge.release} == {
        "run 3": "release three",
        "one": "release one",
    }
    assert log["one"].request == request(1.0, units=2)
    assert [log[key].subjects for key in ("one", "four", "nobody")] == [2, None, 0]

    # keys still stand
    assert ledger.charge("some", request(1.0, units=2), key="one", subjects=["anna", "bert", "anna"]) == log["one"]
    assert ledger.charge("all", request(0.1, kind="a"), key="run 3") == log["run 3"]
    with pytest.raises(PrivacyError, match="paid for another run"):
        ledger.charge("some", request(1.0, units=2), key="one", subjects=["bert", "anna", "anna"])
    with pytest.raises(PrivacyError, match="paid for another release"):
        ledger.settle("all", "run 3", "another")
    books.require(ledger)

    # and it goes on
    ledger.charge("all", request(0.1, kind="a"))
    ledger.charge("some", request(2.0), subjects=["anna", "dora"])
    books.everyone["all"].append(PureEvent(0.1))
    books.own["some"]["anna"].append(PureEvent(2.0))
    books.own["some"]["dora"] = [PureEvent(2.0)]
    books.charges["all"] += 1
    books.charges["some"] += 1
    books.require(ledger)
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge("some", request(18.0), subjects=["bert"])
    assert caught.value.left == 20 - ledger.balance("some", subject="bert").spent.epsilon
    ledger.settle("all", "run 5", "release five")
    with books.raw.connection() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    ledger.close()


amounts = st.sampled_from([0.1, 0.25, 0.5])
charges_of_the_first = st.lists(
    st.tuples(
        st.sampled_from(["one", "two"]),
        st.lists(st.builds(PureEvent, amounts, st.integers(1, 3)), min_size=1, max_size=2),
        st.none() | st.lists(st.sampled_from(["anna", "bert", "carl"]), max_size=3, unique=True),
    ),
    max_size=8,
)


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
@given(st.lists(charges_of_the_first, min_size=1, max_size=1))
@settings(max_examples=5)
def test_any_first_books_are_upgraded(new_location: Callable[[], str], written) -> None:
    location = new_location()
    books = FirstBooks(first_schema(location))
    for name in ("one", "two"):
        books.open(name)
    for n, (name, events, subjects) in enumerate(written[0]):
        books.charge(name, f"run {n}", request(*events), subjects)
    ledger = Ledger.at(location, key=KEY)
    assert ledger.upgrade() is True
    books.require(ledger)
    ledger.close()


@contextmanager
def failing_at(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The operation of a step fails, where it is called for the last time."""

    def fail(*_: object, **__: object) -> None:
        raise LedgerError("the lights went out")

    with monkeypatch.context() as patch:
        patch.setattr(f"alembic.op.{name}", fail)
        yield


def test_the_second_books_are_upgraded_and_folded_by_the_next_charge(new_location: Callable[[], str]) -> None:
    location = new_location()
    books = FirstBooks(first_schema(location))
    books.open("all")
    books.charge("all", "many", request(*MANY))
    books.charge("all", "more", request(MANY[0]))
    books.charge("all", "some", request(1.0), ["anna"])
    migrate(books.raw, "0002")
    (kept,) = books.raw.rows("SELECT events FROM balances")
    ledger = Ledger.at(location, key=KEY)
    with pytest.raises(LedgerError, match="has the older schema 0002"):
        ledger.balance("all")
    assert ledger.upgrade() is True
    assert books.raw.rows("SELECT events, earlier FROM balances") == [(*kept, None)]
    books.require(ledger)
    ledger.charge("all", request(0.5), subjects=["anna"])
    books.own["all"]["anna"].append(PureEvent(0.5))
    books.charges["all"] += 1
    books.require(ledger)
    assert books.raw.rows("SELECT b.events, e.events FROM balances b, earlier_events e") == [("[]", *kept)]
    ledger.close()


def test_an_upgrade_that_fails_leaves_the_old_books_whole(
    new_location: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    location = new_location()
    books = written_by_the_first_version(location)
    before = books.raw.dump()
    ledger = Ledger.at(location, key=KEY)
    # the column is the last thing that the steps make, after all the rows
    with failing_at("add_column", monkeypatch), pytest.raises(LedgerError, match="the lights went out"):
        ledger.upgrade()
    assert books.raw.dump() == before
    with pytest.raises(LedgerError, match="older schema 0001"):
        ledger.balance("all")
    assert ledger.upgrade() is True
    books.require(ledger)
    ledger.close()


def test_a_ledger_that_is_made_is_made_whole(new_location: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    location = new_location()
    database = Database(location)
    with failing_at("add_column", monkeypatch), pytest.raises(LedgerError, match="the lights went out"):
        database.create()
    database.close()
    assert Raw(location).dump() == {}
    ledger = Ledger.at(location)
    for use in (*uses(ledger), ledger.upgrade):
        with pytest.raises(LedgerError, match=r"There is no ledger in .*: make one with `dptext budget open`"):
            use()
    Ledger.create(location).close()
    assert ledger.accounts() == []
    ledger.close()


def test_a_newer_ledger_is_left_alone(new_location: Callable[[], str]) -> None:
    location = new_location()
    ledger = Ledger.create(location, key=KEY)
    ledger.open_account("all", limit())
    ledger.close()
    raw = Raw(location)
    raw.rows("UPDATE alembic_version SET version_num = '9999'")
    before = raw.dump()
    newer = Ledger.create(location, key=KEY)
    for use in (*uses(newer), newer.upgrade):
        with pytest.raises(LedgerError, match=r"was written by a newer dptext \(schema 9999\): update dptext"):
            use()
    assert raw.dump() == before
    newer.close()


def test_a_database_of_something_else_is_left_alone(new_location: Callable[[], str]) -> None:
    location = new_location()
    raw = Raw(location)
    raw.rows("CREATE TABLE guests (name TEXT)")
    database = Database(location)
    with pytest.raises(LedgerError, match="holds other tables: give the ledger its own"):
        database.create()
    database.close()
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
