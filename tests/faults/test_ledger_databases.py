"""Databases that fail: a clear error that holds no password, nothing charged, nothing released, and all well later."""

import contextlib
import os
import random
import re
import shutil
import sqlite3
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from ledger_processes import (  # noqa: F401  # fixtures
    SUBJECT_KEY,
    Children,
    children,
    limit,
    request,
    small_charge,
    to_first_schema,
    word_metric,
    write_input,
)

import postgres as server_of_tests
from dptext.certificate import certificate_path
from dptext.errors import ConfigError, LedgerError
from dptext.file_runs import Plan, privatize_file
from dptext.ledger.books import Ledger
from dptext.ledger.database import Database
from dptext.mechanism import Mechanism
from dptext.payment import Payment
from dptext.records import Fields

SHORT = 0.1  # seconds to wait for a lock
NO_SECRET = "what no message says"
ROLE_SECRET = "a secret of the role"
OTHER_SECRET = "another secret"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_input(tmp_path_factory.mktemp("input"))


@pytest.fixture(scope="module")
def mechanism(vectors: Path) -> Mechanism[str]:
    return word_metric(str(vectors))


def fill(location: str) -> str:
    """Makes a ledger with an account and some charges."""
    ledger = Ledger.create(location, key=SUBJECT_KEY)
    ledger.open_account("account", limit(1000.0), by_subject=True)
    for n in range(30):
        asked, names = small_charge(f"{n}", subjects=n % 2 == 1)
        ledger.charge("account", asked, key=f"{n}", subjects=names)
    ledger.close()
    return location


def create(location: str) -> None:
    """What `Ledger.create` does, closed where it fails."""
    with contextlib.closing(Database(location, wait=SHORT)) as database:
        database.create()


def at(location: str, wait: float = SHORT) -> Ledger:
    return Ledger.at(location, key=SUBJECT_KEY, wait=wait)


def shown(error: BaseException) -> str:
    """All that an error and those behind it can show."""
    text = "".join(traceback.format_exception(error))
    while (error := error.__cause__ or error.__context__) is not None:
        text += f"{error!r} {error} {error.args}"
    return text


class Faulty:
    """A ledger that cannot be used, or not be written.

    Args:
        ledger: to use.
        folder: for outputs.
        run: a run from file to file, which the ledger pays for.
        secret: that no error may show.
    """

    def __init__(self, ledger: Ledger, folder: Path, run: Callable[..., object], secret: str) -> None:
        self.ledger, self.folder, self.run, self.secret = ledger, folder, run, secret
        self.unfinished: list[Path] = []

    def refuses(self, attempt: Callable[[], object], words: str) -> str:
        with pytest.raises(LedgerError, match=words) as caught:
            attempt()
        assert isinstance(caught.value, ConfigError)  # exit code 2
        assert self.secret not in shown(caught.value)
        return str(caught.value)

    def refuses_to_write(self, words: str) -> None:
        ledger = self.ledger
        self.refuses(lambda: ledger.charge("account", request(0.5), key="refused"), words)
        self.refuses(lambda: ledger.charge("account", request(0.5), key="refused", subjects=["a", "new"]), words)
        self.refuses(lambda: ledger.charge("account", request(0.5), key="0"), words)  # one that is there already
        self.refuses(lambda: ledger.settle("account", "0", "a release"), words)
        self.refuses(lambda: ledger.open_account("refused", limit(1.0)), words)
        self.runs_nothing(words)

    def refuses_everything(self, words: str) -> None:
        self.refuses_to_write(words)
        self.refuses(lambda: self.ledger.balance("account"), words)
        self.refuses(lambda: self.ledger.balance("account", subject="a"), words)
        self.refuses(lambda: list(self.ledger.log("account")), words)
        self.refuses(lambda: self.ledger.verify("account"), words)
        self.refuses(self.ledger.accounts, words)

    def runs_nothing(self, words: str) -> None:
        """No output; and what is left beside it only where the message says how to go on."""
        for by_subject in (False, True):
            target = self.folder / f"out-{by_subject}.jsonl"
            before = {*self.folder.iterdir()}
            message = self.refuses(
                lambda target=target, who=by_subject: self.run(self.ledger, target, by_subject=who), words
            )
            left = {*self.folder.iterdir()} - before
            assert not {target, certificate_path(target)} & left
            if left:
                assert "--resume" in message
                self.unfinished.append(target)

    def reads(self) -> None:
        assert self.ledger.balance("account").charges == 30
        assert len(list(self.ledger.log("account"))) == 30
        assert self.ledger.verify("account").problems == ()

    def is_well_again(self, ledger: Ledger | None = None) -> None:
        """Nothing was charged; what was refused is done now, what was begun is gone on with, each for one charge."""
        ledger = ledger or self.ledger
        assert [each.key for each in ledger.log("account")] == [f"{n}" for n in range(30)]
        assert ledger.balance("account").charges == 30
        assert ledger.verify("account").problems == ()
        assert [each.name for each in ledger.accounts()] == ["account"]
        assert all(each.release is None for each in ledger.log("account"))
        ledger.charge("account", request(0.5), key="refused")
        for n, by_subject in enumerate((False, True)):
            target = self.folder / f"out-{by_subject}.jsonl"
            self.run(ledger, target, by_subject=by_subject, resume=target in self.unfinished)
            (charge,) = ledger.log("account", last=1)
            assert charge.release is not None
            assert ledger.balance("account").charges == 32 + n
        assert len(list(self.folder.iterdir())) == 4
        assert ledger.verify("account").problems == ()
        ledger.close()


@pytest.fixture
def faulty(source: Path, mechanism: Mechanism[str], tmp_path: Path) -> Iterator[Callable[..., Faulty]]:
    (tmp_path / "outputs").mkdir()
    opened: list[Ledger] = []

    def run(ledger: Ledger, target: Path, *, by_subject: bool, resume: bool = False) -> object:
        plan = Plan(fields=Fields(id="id", subject="who" if by_subject else None), resume=resume)
        return privatize_file(source, target, mechanism, plan=plan, payment=Payment(ledger, "account"))

    def make(ledger: Ledger | str, *, secret: str = NO_SECRET) -> Faulty:
        opened.append(ledger if isinstance(ledger, Ledger) else at(ledger))
        return Faulty(opened[-1], tmp_path / "outputs", run, secret)

    yield make
    for ledger in opened:
        ledger.close()


# ------------------------------------------------------------------------------------------------------ SQLite


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(fill(str(tmp_path_factory.mktemp("whole") / "ledger.db")))


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "ledger.db"))


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_locked_file(path: Path, faulty: Callable[..., Faulty], how: str) -> None:
    found = faulty(str(path))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"BEGIN {how}")
        began = time.monotonic()
        found.refuses_to_write("is locked by another program; wait")
        assert time.monotonic() - began < 7 * (SHORT + 1)
        found.reads()
        other.execute("ROLLBACK")
    found.is_well_again()


def test_a_lock_is_waited_for(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.3, other.execute, ["ROLLBACK"])
        timer.start()
        with contextlib.closing(at(str(path), wait=20.0)) as ledger:
            assert ledger.charge("account", request(0.5)).number == 31
        timer.join()


def test_a_database_that_may_not_grow(path: Path, faulty: Callable[..., Faulty]) -> None:
    ledger = at(str(path))

    def as_large_as_it_is(connection: sqlite3.Connection, _: object) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sa.event.listen(ledger._database._engine, "connect", as_large_as_it_is)
    found = faulty(ledger)
    many = [f"person {n}" for n in range(2000)]
    found.refuses(lambda: ledger.charge("account", request(0.5), subjects=many), "cannot be written: the disk is full")
    found.reads()
    found.is_well_again(at(str(path)))


def test_a_disk_that_is_full(
    path: Path,
    faulty: Callable[..., Faulty],
    source: Path,
    vectors: Path,
    children: Children,  # noqa: F811
) -> None:
    found = faulty(str(path))
    told = children.do(
        "on_a_full_disk",
        location=str(path),
        account="account",
        source=str(source),
        target=str(found.folder / "out.jsonl"),
        vectors=str(vectors),
    )
    assert told["balance"] == ""
    assert "cannot be read or written: the disk reports an error" in told["charge"]
    assert "cannot be read or written: the disk reports an error" in told["run"]
    assert not (found.folder / "out.jsonl").exists()
    for left in found.folder.iterdir():
        assert "--resume" in told["run"]
        left.unlink()
    found.is_well_again()


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o755), (0o644, 0o555), (0o444, 0o777), (0o600, 0o755)], ids=oct)
def test_a_file_that_may_not_be_written(
    whole: Path,
    source: Path,
    vectors: Path,
    children: Children,  # noqa: F811
    file: int,
    folder: int,
) -> None:
    """By its owner or, where the tests run as root, whom no permissions bind, by somebody else."""
    owner = os.geteuid() != 0
    if owner and file == 0o600:
        pytest.skip("the owner may use the file")
    place = Path(tempfile.mkdtemp(prefix="dptext-ledger-", dir=server_of_tests._searchable_folder()))
    try:
        place.chmod(0o755)
        (place / "books").mkdir()
        (place / "out").mkdir()
        (place / "out").chmod(0o777)
        path = Path(shutil.copy(whole, place / "books" / "ledger.db"))
        before = path.read_bytes()
        path.chmod(file)
        path.parent.chmod(folder)
        told = children.do(
            "as_nobody",
            location=str(path),
            account="account",
            source=shutil.copy(source, place),
            target=str(place / "out" / "out.jsonl"),
            vectors=str(vectors),
        )
        words = r"cannot be (written|opened): check the .*permissions of the file and of its folder"
        for what in ("charge", "run"):
            assert re.search(words, told[what]), told
        assert "no ledger" not in told["balance"]
        assert not told["balance"] or re.search(words, told["balance"])
        left = list((place / "out").iterdir())
        assert "out.jsonl" not in {each.name for each in left}
        assert not left or "--resume" in told["run"]
        assert path.read_bytes() == before
        path.parent.chmod(0o755)
        path.chmod(0o644)
        ledger = at(str(path))
        assert ledger.balance("account").charges == 30
        ledger.charge("account", request(0.5))
        assert ledger.verify("account").problems == ()
        ledger.close()
    finally:
        (place / "books").chmod(0o755)
        shutil.rmtree(place)


def _no_database(path: Path) -> None:
    path.write_text("This is a text of somebody. " * 1000)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _absent(path: Path) -> None:
    path.unlink()


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _damaged(path: Path) -> None:
    """All pages but the first, which holds the schema."""
    data = path.read_bytes()
    path.write_bytes(data[:4096] + random.Random(0).randbytes(len(data) - 4096))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 5 * 4096])


def _other(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE letters (text TEXT)")


def _newer(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'next'")


def _older(path: Path) -> None:
    to_first_schema(str(path))


@pytest.mark.parametrize(
    ("harm", "words", "to_create"),
    [
        (_no_database, "is not a SQLite database", "is not a SQLite database"),
        (_empty, "There is no ledger in .*: make one with `dptext budget open`", None),
        (_absent, "There is no ledger .*: make one with `dptext budget open`", None),
        (_folder, "cannot be opened: check the path and the permissions", "cannot be opened: check the path"),
        (_damaged, "is damaged: restore a copy", "is damaged: restore a copy"),
        (_cut, "is damaged: restore a copy", None),
        (_other, "There is no ledger in .*: make one with `dptext budget open`", "holds other tables"),
        (_newer, r"was written by a newer dptext \(schema next\): update dptext", None),
        (_older, "older schema 0001: run `dptext budget upgrade`", None),
    ],
)
def test_a_file_that_is_no_ledger_of_today(
    path: Path,
    whole: Path,
    faulty: Callable[..., Faulty],
    harm: Callable[[Path], None],
    words: str,
    to_create: str | None,
) -> None:
    harm(path)
    before = path.read_bytes() if path.is_file() else None
    found = faulty(str(path))
    found.refuses_everything(words)
    if harm is not _older:
        found.refuses(found.ledger.upgrade, words)
    if to_create is not None:
        found.refuses(lambda: create(str(path)), to_create)
    found.ledger.close()
    assert path.exists() == (before is not None or harm is _folder)
    assert before is None or path.read_bytes() == before
    if harm is _folder:
        path.rmdir()
    shutil.copy(whole, path)
    found.is_well_again()


def test_a_ledger_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be made: No such file or directory"):
        Ledger.create(tmp_path / "absent" / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_damage_anywhere_is_said_in_plain_words(whole: Path, tmp_path: Path) -> None:
    """Bytes that are overwritten may go unnoticed, but for `verify`; what is noticed is an error of dptext."""
    data, path = whole.read_bytes(), tmp_path / "ledger.db"
    surprises = []
    for seed in range(40):
        rng, damaged = random.Random(seed), bytearray(data)
        for _ in range(rng.choice([1, 20, 200])):
            damaged[rng.randrange(4096, len(data))] = rng.randrange(256)
        path.write_bytes(damaged)
        ledger = at(str(path))
        for attempt in (
            lambda ledger=ledger: ledger.balance("account"),
            lambda ledger=ledger: list(ledger.log("account")),
            lambda ledger=ledger: ledger.charge("account", request(0.5), subjects=["a", "new"]),
            lambda ledger=ledger: ledger.charge("account", request(0.5)),
            lambda ledger=ledger: ledger.verify("account"),
        ):
            try:
                attempt()
            except ConfigError:
                pass
            except ValueError as error:
                surprises.append((seed, repr(error)))
        ledger.close()
        for each in tmp_path.glob("ledger.db*"):
            each.unlink()
    assert surprises == []


# -------------------------------------------------------------------------------------------------- PostgreSQL

Server = server_of_tests.Server


@pytest.fixture(scope="module")
def template(postgres: Server) -> str:
    return fill(postgres.create_database()).rpartition("/")[2]


@pytest.fixture
def location(postgres: Server, template: str) -> Iterator[str]:
    """A ledger like `whole`. It goes with the test: after a crash the server looks at every file that it has."""
    name = f"copy_{random.SystemRandom().getrandbits(64):x}"
    postgres.sql(f"create database {name} template {template}")
    yield postgres.url(name)
    postgres.sql(f"drop database {name} with (force)")


def database_of(location: str) -> str:
    return location.rpartition("/")[2]


@pytest.fixture
def role(postgres: Server, location: str) -> Iterator[tuple[str, str]]:
    """A user who may connect, and the location of the ledger with that name and password."""
    name, password = f"role_{random.SystemRandom().getrandbits(64):x}", ROLE_SECRET
    postgres.sql(f"create role {name} login password '{password}'")
    yield name, location.replace(f"{postgres.user}:{postgres.password}", f"{name}:{password.replace(' ', '%20')}")
    postgres.sql(f"drop owned by {name}", database_of(location))
    postgres.sql(f"drop role {name}")


def test_a_server_that_is_stopped(postgres: Server, location: str, faulty: Callable[..., Faulty]) -> None:
    found = faulty(location, secret=postgres.password)
    found.reads()
    postgres.stop()
    try:
        found.refuses_everything("check that the server runs, its host and port")
        found.refuses(found.ledger.upgrade, "check that the server runs, its host and port")
        found.refuses(lambda: create(location), "check that the server runs, its host and port")
    finally:
        postgres.start()
    found.is_well_again()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("port", "cannot be reached, .*: check that the server runs, its host and port"),
        ("password", "refuses the user or the password"),
        ("user", "refuses the user or the password"),
        ("no password", "refuses the user or the password"),
        ("database", "does not exist: create the database first"),
    ],
)
def test_a_wrong_url(postgres: Server, location: str, faulty: Callable[..., Faulty], change: str, words: str) -> None:
    right = sa.make_url(location)
    secret = postgres.password
    wrong = {
        "port": right.set(port=server_of_tests._free_port()),
        "password": right.set(password=OTHER_SECRET),
        "user": right.set(username="nobody"),
        "no password": right._replace(password=None),
        "database": right.set(database="absent"),
    }[change]
    if change == "password":
        secret = OTHER_SECRET
    found = faulty(wrong.render_as_string(hide_password=False), secret=secret)
    assert secret not in found.ledger.name + repr(found.ledger) + repr(found.ledger._database)
    found.refuses_everything(words)
    found.refuses(lambda: create(wrong.render_as_string(hide_password=False)), words)
    found.is_well_again(at(location))


def test_a_user_without_rights(
    postgres: Server, location: str, role: tuple[str, str], faulty: Callable[..., Faulty]
) -> None:
    name, url = role
    found = faulty(url, secret=ROLE_SECRET)
    found.refuses_everything("the user lacks the rights on its tables")
    postgres.sql(f"grant select on all tables in schema public to {name}", database_of(location))
    found.refuses_to_write("the user lacks the rights on its tables")
    found.reads()
    found.ledger.close()
    found.is_well_again(at(location))


def test_a_user_without_rights_on_the_database(postgres: Server, role: tuple[str, str]) -> None:
    location = postgres.create_database()
    url = role[1].rpartition("/")[0] + "/" + database_of(location)
    with pytest.raises(LedgerError, match="the user lacks the rights") as caught:
        create(url)
    assert ROLE_SECRET not in shown(caught.value)
    assert "a%20secret" not in shown(caught.value)
    with contextlib.closing(at(url)) as ledger, pytest.raises(LedgerError, match=r"There is no ledger in .*: make one"):
        ledger.accounts()


@pytest.mark.parametrize(
    ("limited", "words"),
    [
        ("alter database {database} connection limit 0", "too many connections"),
        ("revoke connect on database {database} from public", "rights"),
        ("alter role {role} nologin", "refuses the user"),
    ],
    ids=["too many connections", "no right to connect", "no right to log in"],
)
def test_a_user_who_cannot_connect(
    postgres: Server, location: str, role: tuple[str, str], faulty: Callable[..., Faulty], limited: str, words: str
) -> None:
    name, url = role
    postgres.sql(limited.format(database=database_of(location), role=name))
    found = faulty(url, secret=ROLE_SECRET)
    found.refuses_everything(words)
    found.is_well_again(at(location))


def test_a_database_that_is_read_only(postgres: Server, location: str, faulty: Callable[..., Faulty]) -> None:
    postgres.sql(f"alter database {database_of(location)} set default_transaction_read_only = on")
    found = faulty(location, secret=postgres.password)
    found.refuses_to_write("cannot be written: the server is read-only")
    found.reads()
    found.ledger.close()
    postgres.sql(f"alter database {database_of(location)} reset default_transaction_read_only")
    found.is_well_again()


def connect(location: str) -> psycopg.Connection[Any]:
    return psycopg.connect(location.replace("+psycopg", ""))


def test_a_locked_balance(postgres: Server, location: str, faulty: Callable[..., Faulty]) -> None:
    found = faulty(location, secret=postgres.password)
    with contextlib.closing(connect(location)) as other:
        other.execute("select * from balances for update")
        ledger, words = found.ledger, "is locked by another program; wait"
        found.refuses(lambda: ledger.charge("account", request(0.5), key="refused"), words)
        found.refuses(lambda: ledger.settle("account", "0", "a release"), words)
        found.runs_nothing(words)
        found.reads()
        other.rollback()
        other.execute("lock table accounts, balances in access exclusive mode")
        found.refuses_everything(words)
        other.rollback()
        other.execute("select pg_advisory_xact_lock(%s)", [0x6470_7465_7874])
        found.refuses(ledger.upgrade, words)
    found.is_well_again()


def test_no_wait_is_none(location: str) -> None:
    with contextlib.closing(connect(location)) as other, contextlib.closing(at(location, wait=0.0)) as ledger:
        other.execute("select * from balances for update")
        timer = threading.Timer(1.5, other.rollback)
        timer.start()
        try:
            with pytest.raises(LedgerError, match="is locked by another program"):
                ledger.charge("account", request(0.5))
        finally:
            timer.join()


@pytest.mark.parametrize("statement", ["update alembic_version set version_num = 'next'", None])
def test_a_schema_of_another_time(
    postgres: Server, location: str, faulty: Callable[..., Faulty], statement: str | None
) -> None:
    if statement is None:
        to_first_schema(location)
        faulty(location).refuses_everything("older schema 0001: run `dptext budget upgrade`")
        return
    found = faulty(location, secret=postgres.password)
    postgres.sql(statement, database_of(location))
    words = r"was written by a newer dptext \(schema next\): update dptext"
    found.refuses_everything(words)
    found.refuses(found.ledger.upgrade, words)
    create(location)  # an existing ledger stays as it is
    postgres.sql("update alembic_version set version_num = '0002'", database_of(location))
    found.is_well_again()


def before_it_writes(ledger: Ledger, what: Callable[[], object]) -> None:
    """Does something in the middle of the next transaction, just before the charge is inserted."""
    done = []

    def statement(connection: object, cursor: object, text: str, *_: object) -> None:
        if "INSERT INTO charges" in text and not done:
            done.append(True)
            what()

    sa.event.listen(ledger._database._engine, "before_cursor_execute", statement)


@pytest.mark.parametrize("when", ["before", "within"])
def test_a_connection_that_the_server_ends(
    postgres: Server, location: str, faulty: Callable[..., Faulty], when: str
) -> None:
    """Between two charges, or in the middle of one; after an error or none the same object can be used again."""
    found = faulty(location, secret=postgres.password)
    found.reads()

    def end() -> None:
        sql = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{}'"
        assert postgres.sql(sql.format(database_of(location))) == [(True,)]

    ledger, words = found.ledger, "was shut down by the server|check that the server runs"
    if when == "before":
        end()
    else:
        before_it_writes(ledger, end)
    found.refuses(lambda: ledger.charge("account", request(0.5), key="refused", subjects=["a", "new"]), words)
    found.is_well_again()


def test_a_server_that_dies_within_a_charge(postgres: Server, location: str, faulty: Callable[..., Faulty]) -> None:
    found = faulty(location, secret=postgres.password)
    found.reads()
    before_it_writes(found.ledger, postgres.stop)
    many = [f"person {n}" for n in range(2000)]
    words = "was shut down by the server|check that the server runs"
    try:
        found.refuses(lambda: found.ledger.charge("account", request(0.5), key="refused", subjects=many), words)
    finally:
        postgres.start()
    found.is_well_again()


def test_a_server_that_dies_while_many_charge(
    postgres: Server,
    location: str,
    children: Children,  # noqa: F811
) -> None:
    n = 4
    look = {"do": "look", "account": "account"}
    charging = [
        {"do": "charge until it fails", "account": "account", "key": f"process {i}", "by_subject": i % 2 == 1}
        for i in range(n)
    ]
    crash = threading.Timer(1.5, postgres.stop)
    crash.start()
    try:
        _, results = children.do("crowd", location=location, steps=[[look] * n, charging])
    finally:
        crash.join()
        postgres.start()
    acknowledged = {
        f"process {i} {k}": number for i, result in enumerate(results) for k, number in enumerate(result["value"])
    }
    assert acknowledged
    ledger = at(location)
    before = {each.key: each.number for each in ledger.log("account")}
    assert before.items() >= acknowledged.items()
    pending = [f"process {i} {len(result['value'])}" for i, result in enumerate(results)]
    assert {*before} <= {*acknowledged, *pending, *(f"{k}" for k in range(30))}
    for i, key in enumerate(pending):
        asked, names = small_charge(key, subjects=i % 2 == 1)
        number = ledger.charge("account", asked, key=key, subjects=names).number
        assert number == before.get(key, number)
    assert {each.key for each in ledger.log("account")} == {*before, *pending}
    assert ledger.verify("account").problems == ()
    ledger.close()


# -------------------------------------------------------------------------------- both, in the middle of a run


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue({"sqlite": "path", "postgresql": "location"}[request.param]))


@pytest.mark.parametrize(
    "fails",
    [
        "charge",
        "charge, which was written",
        "settle",
        "settle, which was written",
    ],
)
def test_a_ledger_that_fails_in_the_middle_of_a_run(either: str, faulty: Callable[..., Faulty], fails: str) -> None:
    class Failing(Ledger):
        def charge(self, *args: Any, **named: Any) -> Any:
            if fails == "charge":
                raise LedgerError("It fails.")
            made = super().charge(*args, **named)
            if fails == "charge, which was written":
                raise LedgerError("It fails.", unsure=True)
            return made

        def settle(self, *args: Any, **named: Any) -> None:
            if fails == "settle":
                raise LedgerError("It fails.")
            super().settle(*args, **named)
            if fails == "settle, which was written":
                raise LedgerError("It fails.")

    found = faulty(Failing.at(either, key=SUBJECT_KEY))
    found.runs_nothing("It fails.")
    ledger = at(either)
    n = 0 if fails == "charge" else 2
    assert ledger.balance("account").charges == 30 + n
    if fails == "charge":  # surely not written: nothing to go on with
        assert not list(found.folder.iterdir())
        ledger.close()
        return
    for i, target in enumerate(found.unfinished, start=1):
        found.run(ledger, target, by_subject="True" in target.name, resume=True)
        assert ledger.balance("account").charges == 30 + max(n, i)
    assert len(found.unfinished) == 2
    assert len(list(found.folder.iterdir())) == 4
    assert len({each.release for each in ledger.log("account", last=2)} - {None}) == 2
    assert ledger.verify("account").problems == ()
    ledger.close()


def test_a_locked_ledger_refuses_a_run_that_is_then_begun_again(either: str, faulty: Callable[..., Faulty]) -> None:
    """The message says to run the command again; where files are left behind it says --resume."""
    found = faulty(either)
    with contextlib.ExitStack() as stack:
        if either.startswith("postgresql"):
            stack.enter_context(contextlib.closing(connect(either))).execute("select * from balances for update")
        else:
            other = stack.enter_context(contextlib.closing(sqlite3.connect(either, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
        target = found.folder / "out.jsonl"
        message = found.refuses(
            lambda: found.run(found.ledger, target, by_subject=False), "is locked by another program"
        )
    left = list(found.folder.iterdir())
    assert bool(left) == ("--resume" in message)
    assert not (left and "run the command again" in message), message


# --------------------------------------------------------------------------------------------- what a URL holds


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://user:SECRET@127.0.0.1:1/books",
        "postgresql://user:SECRET@127.0.0.1:1/books",
        "postgresql://user:SEC%2FSECRET@127.0.0.1:1/books",
        "postgresql://user:SEC/SECRET@127.0.0.1:1/books",
        "postgresql://user:SECRET@127.0.0.1:none/books",
        "postgresql://user:SECRET@127.0.0.1:1/books?sslmode=absent",
        "postgresql://user:SECRET@127.0.0.1:1/books?absent=1",
        "postgresql+psycopg2://user:SECRET@127.0.0.1:1/books",
        "mysql://user:SECRET@127.0.0.1:1/books",
        "sqlite://user:SECRET@127.0.0.1/books",
        "postgresql://127.0.0.1:1/books?user=user&password=SECRET",
        "postgresql://user@127.0.0.1:1/books?sslpassword=SECRET",
        "postgresql:///books?host=/absent&user=user&password=SECRET",
        "postgresql://user:half@SECRET@127.0.0.1:1/books",
        "user:SECRET@127.0.0.1:1/books",
        "//user:SECRET@127.0.0.1:1/books",
        "postgresql:/user:SECRET@127.0.0.1:1/books",
    ],
)
def test_no_error_shows_a_password_in_a_url(url: str) -> None:
    def use() -> None:
        ledger = Ledger.at(url, wait=SHORT)
        assert "SECRET" not in f"{ledger.name} {ledger!r} {ledger._database!r}"
        ledger.accounts()

    with pytest.raises(ConfigError) as caught:
        use()
    assert "SECRET" not in shown(caught.value)


@pytest.mark.parametrize("url", ["folder", "postgresql://user:SECRET@127.0.0.1:1/books"])
def test_a_traceback_does_not_show_the_words_of_the_driver(tmp_path: Path, url: str) -> None:
    location = str(tmp_path) if url == "folder" else url
    with pytest.raises(LedgerError) as caught:
        at(location).accounts()
    text = "".join(traceback.format_exception(caught.value))
    assert "sqlalchemy.exc" not in text
    assert "psycopg.Operational" not in text
