"""Where a ledger may lie: what is no plain path and no URL of a known scheme is refused unseen."""

import os
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest
from ledger_tools import KEY, limit, request

from dptext.cli import options
from dptext.errors import ConfigError, LedgerError
from dptext.ledger.books import Ledger
from dptext.ledger.subjects import create_subject_key, read_subject_key

# Each may hold a password where SECRETPW stands, as people mistype it.
UNKNOWN = [
    "host=h user=u PASSWORD=SECRETPW",
    "host=127.0.0.1 password=SECRETPW dbname=x",
    " host=h user=u password=SECRETPW",
    "host = h user = u password = SECRETPW",
    "host='/var/run/postgresql' password=SECRETPW",
    "./host=h password=SECRETPW",
    "/var/run PASSWORD = SECRETPW",
    "Server=h;Uid=u;Pwd=SECRETPW",
    "/books;PWD=SECRETPW",
    "/books;Secret=SECRETPW",
    "user=SECRETPW",
    "u:SECRETPW",
    "u:SECRETPW@h",
    "u:SECRETPW@h/books",
    "u:SECRETPW/x@h",
    "u:x/SECRETPW@h",
    "u:SECRETPW\\x@h",
    "u:half@SECRETPW@h",
    "u:SECRETPW\n@h",
    ":SECRETPW@h",
    "u/SECRETPW@h",
    "/u:SECRETPW@h/books",
    "./u:SECRETPW@h/books",
    "runs/u:SECRETPW@h",
    "//u:SECRETPW@h/books",
    "//SECRETPW@h/books",
    "SECRETPW@h",
    "postgresql:u:SECRETPW",
    "postgresql:/u:SECRETPW@h/books",
    "postgresql:///u:SECRETPW@h/books",
    "postgres://u:SECRETPW@h/books",
    "POSTGRESQL://u:SECRETPW@h/books",
    "postgresql+psycopg2://u:SECRETPW@h/books",
    "SECRETPW://h/books",
    "u:SECRETPW@h://books",
    "mysql://u:SECRETPW@h/books",
    "jdbc:postgresql://h/books?user=u&password=SECRETPW",
    "file:books.db?key=SECRETPW",
    "https://u:SECRETPW@h/books",
    "sqlite:books.db?key=SECRETPW",
    "sqlite://u:SECRETPW@h/books.db",
    "sqlite://u:SECRETPW@/books.db",
    "sqlite:///books.db?password=SECRETPW",
    "sqlite:///u:SECRETPW@h/books",
    "sqlite:///host=h password=SECRETPW",
    "postgresql+psycopg://u@h/db?password=SECRETPW",
    "postgresql+psycopg://u:a@SECRETPW@h/db",
    "postgresql+psycopg://u:SECRETPW@h@127.0.0.1/db",
    "postgresql+psycopg://u:SECRETPW@h:1x/db",
    "postgresql://u%3ASECRETPW@h/books",
    "postgresql://h/books password=SECRETPW",
    "postgresql://h/books:SECRETPW",
    "postgresql://h password=SECRETPW/books",
    "postgresql://h:SECRETPW/books",
    "books\0SECRETPW",
    "/books\0SECRETPW",
]


def refuse_unseen(location: str | Path) -> None:
    for use in (Ledger.at, Ledger.create):
        with pytest.raises(ConfigError) as caught:
            use(location)
        assert not isinstance(caught.value, LedgerError)
        assert "SECRETPW" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("location", UNKNOWN, ids=ascii)
def test_what_is_no_location_is_refused_unseen(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refuse_unseen(location)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("location", ["u:SECRETPW/x@h", "host=h PASSWORD=SECRETPW", "postgresql://u:SECRETPW@h/books"])
def test_a_path_is_not_one_because_it_is_called_so(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refuse_unseen(Path(location))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "location", ["", " ", "\t", ":memory:", ".", "/", "./", "sqlite://", "sqlite:///", "sqlite:///:memory:"]
)
def test_books_that_no_file_holds_are_refused(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="Expected"):
        Ledger.create(location)


ORDINARY = [
    "budget.db",
    "a ledger of ours.db",
    " budget",
    "~budget.db",
    "budget.db~",
    "postgres.db",
    "host",
    "années/größe.db",
    "東京.db",
    "100%/50%25.db",
    "#1?.db",
    "back\\slash.db",
    "runs/epsilon=1/budget.db",
    "runs/12:30/budget.db",
    "./epsilon=1.db",
    "./12:30.db",
    "./me@home.db",
    "../runs/me@home.db",
    "'quoted' \"name\".db",
]


#: A quarter of the pairs, so that each name and each form has its turn; the others wait for `make test-all`.
NAMED = [
    pytest.param(name, form, marks=pytest.mark.slow if (i + j) % 4 else ())
    for i, name in enumerate(ORDINARY)
    for j, form in enumerate(["{}", "{folder}/{}", "sqlite:///{}", "sqlite:///{folder}/{}"])
]


@pytest.mark.parametrize(("name", "form"), NAMED)
def test_ordinary_paths_hold_books(name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    path = folder / name
    path.parent.mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    written = quote(name) if form.startswith("sqlite") else name
    location = form.format(written, folder=folder)
    ledger = Ledger.create(location, key=KEY)
    ledger.open_account("reviews", limit())
    ledger.charge("reviews", request(1.0))
    ledger.close()
    assert path.is_file()
    assert ledger.path is not None
    assert ledger.path.resolve() == path.resolve()
    assert ledger.name == str(Path(form.removeprefix("sqlite:///").format(name, folder=folder))) == str(ledger.path)
    again = Ledger.at(path)
    assert again.balance("reviews").charges == 1
    again.close()


def test_a_file_name_need_not_be_utf_8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.db"))
    ledger = Ledger.create(path)
    assert ledger.accounts() == []
    ledger.close()


@pytest.mark.parametrize("path", ["", "/", ".", "a\0b", "folder"])
def test_a_subject_key_is_a_file(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for use in (read_subject_key, create_subject_key):
        with pytest.raises(ConfigError, match=r"subject[ -]key"):
            use(Path(path))


def test_a_subject_key_in_the_place_of_its_file_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    digits = KEY.secret.hex()
    for use in (read_subject_key, create_subject_key):
        for path in (Path(digits), tmp_path / digits.upper()):
            with pytest.raises(ConfigError) as caught:
                use(path)
            assert digits not in str(caught.value).lower()
    assert not list(tmp_path.iterdir())


def test_an_endless_subject_key_is_read_no_further(tmp_path: Path) -> None:
    for endless in (Path("/dev/zero"), Path("/dev/urandom")):
        if endless.exists():
            with pytest.raises(ConfigError, match="to hold a subject key"):
                read_subject_key(endless)


def test_the_key_lies_beside_a_relative_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert options.default_key(Ledger.at("budget.db")) == Path("budget.db.key")
    assert options.default_key(Ledger.at("..")) == Path("...key")
