"""The same tests on both databases: SQLite everywhere, PostgreSQL where it is installed."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ledger_tools import KEY, Raw

from dptext.ledger.books import Ledger


@pytest.fixture(scope="module", autouse=True)
def close_databases() -> Iterator[None]:
    yield
    Raw.close_all()


@pytest.fixture(scope="module")
def fast_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Linux's folder in memory: SQLite waits for the disk, which only a machine that loses power would show."""
    memory = Path("/dev/shm")  # noqa: S108  # the folder made there is for its owner alone
    if not os.access(memory, os.W_OK):
        yield tmp_path_factory.mktemp("ledger")
        return
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def new_location(request: pytest.FixtureRequest, fast_folder: Path) -> Callable[[], str]:
    """Makes places for a ledger, with nothing in them."""
    if request.param == "sqlite":
        return lambda: str(Path(tempfile.mkdtemp(dir=fast_folder)) / "budget.db")
    server = request.getfixturevalue("postgres")  # only here, so that nothing else needs a server
    return server.create_database


@pytest.fixture(scope="module")
def location(new_location: Callable[[], str]) -> str:
    """One place for the tests of a module, which take a fresh account each."""
    return new_location()


@pytest.fixture(scope="module")
def ledger(location: str) -> Iterator[Ledger]:
    found = Ledger.create(location, key=KEY)
    yield found
    found.close()


@pytest.fixture(scope="module")
def raw(ledger: Ledger, location: str) -> Raw:
    return Raw(location)
