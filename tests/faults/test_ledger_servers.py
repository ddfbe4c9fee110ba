"""Servers that fail: a clear error that holds no password, nothing charged, nothing released, and all well later."""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from ledger_faults import OTHER_SECRET, ROLE_SECRET, Faulty, at, connect, create, database_of, shown
from ledger_processes import Children, request, small_charge

import postgres as server_of_tests
from dptext.errors import LedgerError, LedgerGoneError
from dptext.ledger.books import Ledger
from dptext.runs.certificate import certificate_path
from postgres import Server


@pytest.mark.slow  # a server that dies within a charge stays below
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


@pytest.mark.slow_cases("user", "password", "port", why="an URL without a password gets the same answer")
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


@pytest.mark.slow_cases("no right to log in", why="test_a_wrong_url has a user who is refused")
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


@pytest.mark.slow  # test_ledger_files.py has a locked file of SQLite
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


@pytest.mark.slow  # test_ledger_files.py has a locked file of SQLite
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


@pytest.mark.slow_cases("0003", why="a later schema stays")
@pytest.mark.parametrize("other", ["next", "0003"])
def test_a_schema_of_another_time(postgres: Server, location: str, faulty: Callable[..., Faulty], other: str) -> None:
    found = faulty(location, secret=postgres.password)
    told = "update alembic_version set version_num = '{}'"
    postgres.sql(told.format(other), database_of(location))
    words = f"to have the schema 0.2.0, found {other}: use the version of dptext that wrote it"
    found.refuses_everything(words)
    found.refuses(found.ledger.upgrade, words)
    create(location)  # an existing ledger stays as it is
    postgres.sql(told.format("0.2.0"), database_of(location))
    found.is_well_again()


def before_it_writes(ledger: Ledger, what: Callable[[], object]) -> None:
    """Does something in the middle of the next transaction, just before the charge is inserted."""
    done = []

    def statement(connection: object, cursor: object, text: str, *_: object) -> None:
        if "INSERT INTO charges" in text and not done:
            done.append(True)
            what()

    sa.event.listen(ledger._database._engine, "before_cursor_execute", statement)


def test_a_connection_that_the_server_ends(postgres: Server, location: str, faulty: Callable[..., Faulty]) -> None:
    """In the middle of a charge; after the error the same object can be used again."""
    found = faulty(location, secret=postgres.password)
    found.reads()

    def end() -> None:
        sql = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{}'"
        assert postgres.sql(sql.format(database_of(location))) == [(True,)]

    ledger, words = found.ledger, "was shut down by the server|check that the server runs"
    before_it_writes(ledger, end)
    found.refuses(lambda: ledger.charge("account", request(0.5), key="refused", subjects=["a", "new"]), words)
    found.is_well_again()


class Wire:
    """Between a client and the server; it is cut when a charge is made final, before COMMIT arrives or after it did."""

    def __init__(self, server: tuple[str, int], *, cut: str) -> None:
        self.server, self.cut = server, cut
        self.charged = self.was_cut = False
        self._listening = socket.create_server((server[0], 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        """One client after the other."""
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client, socket.create_connection(self.server) as server:
                while True:
                    ready, _, _ = select.select([client, server], [], [])
                    here, there = (client, server) if client in ready else (server, client)
                    data = here.recv(1 << 16)
                    if not data or (here is client and self._is_final(data) and self._ends(server, data)):
                        break
                    there.sendall(data)

    def _is_final(self, data: bytes) -> bool:
        self.charged |= b"INSERT INTO charges" in data
        return self.charged and not self.was_cut and b"COMMIT" in data

    def _ends(self, server: socket.socket, data: bytes) -> bool:
        self.was_cut = True
        if self.cut == "after":
            server.sendall(data)
            assert server.recv(1 << 16)  # what the client will not hear: it is written
        return True


@pytest.mark.slow_cases("before", why="a commit that nobody hears of stays, which is harder")
@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_connection_that_is_lost_at_commit(
    postgres: Server, location: str, faulty: Callable[..., Faulty], cut: str
) -> None:
    """The client cannot know whether the charge was written: it leaves what the run needs to find out."""
    wire = Wire((postgres.host, postgres.port), cut=cut)
    try:
        found = faulty(location.replace(f":{postgres.port}/", f":{wire.port}/"), secret=postgres.password)
        target = found.folder / "out.jsonl"
        words = "check that the server runs, its host and port.*Go on with --resume"
        found.refuses(lambda: found.run(found.ledger, target, by_subject=True), words)
        assert wire.was_cut
        assert not target.exists()
        assert not certificate_path(target).exists()
        written = 31 if cut == "after" else 30
        with contextlib.closing(at(location)) as ledger:
            assert ledger.balance("account").charges == written
        found.run(found.ledger, target, by_subject=True, resume=True)  # the same object, once the wire is whole again
        assert target.exists()
        (charge,) = found.ledger.log("account", last=1)
        assert charge.release is not None
        assert found.ledger.balance("account").charges == 31
        assert found.ledger.verify("account").problems == ()
    finally:
        found.ledger.close()
        wire.close()


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


@pytest.mark.slow  # a server that dies within a charge stays above, a crowd in test_ledger_crowd.py
def test_a_server_that_dies_while_many_charge(
    postgres: Server,
    location: str,
    children: Children,
) -> None:
    n = 4
    look = {"do": "look", "account": "account"}
    charging = [
        {"do": "charge until it fails", "account": "account", "key": f"process {i}", "by_subject": i % 2 == 1}
        for i in range(n)
    ]

    def stop_in_the_middle() -> None:
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            ((charges,),) = postgres.sql("select count(*) from charges", database_of(location))
            if charges > 30 + 10 * n:
                break
            time.sleep(0.02)
        postgres.stop()

    crash = threading.Thread(target=stop_in_the_middle)
    crash.start()
    try:
        _, results = children.do("crowd", location=location, steps=[[look] * n, charging])
    finally:
        crash.join()
        postgres.start()
    acknowledged = {
        f"process {i} {k}": number for i, result in enumerate(results) for k, number in enumerate(result["value"])
    }
    assert len(acknowledged) > 9 * n
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


def test_a_connection_from_before_a_restart_is_replaced(postgres: Server, location: str) -> None:
    """Also those of other threads, and whatever is done first."""
    doings: list[Callable[[Ledger], object]] = [
        lambda ledger: ledger.charge("account", request(0.5), key="new"),
        lambda ledger: ledger.charge("account", request(0.5), subjects=["a"]),
        lambda ledger: ledger.settle("account", "new", "a release"),
        lambda ledger: ledger.balance("account"),
        lambda ledger: list(ledger.log("account", last=2)),
    ]
    ledgers = [at(location) for _ in doings]
    for ledger in ledgers:
        with ledger._database.reading():
            ledger.account("account")  # another connection
    postgres.stop()
    postgres.start()
    for do, ledger in zip(doings, ledgers, strict=True):
        do(ledger)
    assert ledgers[0].balance("account").charges == 32
    for ledger in ledgers:
        ledger.close()


def test_a_database_of_the_same_name_is_not_the_ledger(postgres: Server, template: str) -> None:
    """Dropped and restored from a copy: what was charged since is forgotten."""
    name = f"copy_of_{template}"
    postgres.sql(f"create database {name} template {template}")
    ledger = at(postgres.url(name))
    ledger.charge("account", request(0.5))
    postgres.sql(f"drop database {name} with (force)")
    postgres.sql(f"create database {name} template {template}")
    for do in (lambda: ledger.charge("account", request(0.5)), lambda: ledger.balance("account")):
        with pytest.raises(LedgerGoneError, match="found another of this name"):
            do()
    ledger.close()
    assert ledger.balance("account").charges == 30
    ledger.close()
    postgres.sql(f"drop database {name} with (force)")
