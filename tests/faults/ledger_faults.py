"""Ledgers that cannot be used, or not be written: what every test of them asks for, and the fixtures."""

import contextlib
import random
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ledger_processes import SUBJECT_KEY, limit, request, small_charge, word_metric, write_input

from dptext.errors import ConfigError, LedgerError
from dptext.ledger.books import Ledger
from dptext.ledger.database import Database
from dptext.mechanism import Mechanism
from dptext.runs.certificate import certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.payment import Payment
from dptext.runs.plan import Plan
from dptext.text.records import Fields
from postgres import Server

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
        return privatize_file(
            source, target, mechanism, plan=plan, payment=Payment(ledger, "account", everyone=not by_subject)
        )

    def make(ledger: Ledger | str, *, secret: str = NO_SECRET) -> Faulty:
        opened.append(ledger if isinstance(ledger, Ledger) else at(ledger))
        return Faulty(opened[-1], tmp_path / "outputs", run, secret)

    yield make
    for ledger in opened:
        ledger.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(fill(str(tmp_path_factory.mktemp("whole") / "ledger.db")))


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "ledger.db"))


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


def connect(location: str) -> psycopg.Connection[Any]:
    return psycopg.connect(location.replace("+psycopg", ""))


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue({"sqlite": "path", "postgresql": "location"}[request.param]))
