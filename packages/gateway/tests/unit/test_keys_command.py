"""`dptext keys` and `dptext serve` from the shell."""

import json
import re
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import traceback
import warnings
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from typer.testing import CliRunner

from commands import dptext
from dptext.cli.app import app, exit_code
from dptext.errors import DPTextError, LedgerError
from dptext.ledger.database import Database
from dptext.text.files import held
from dptext_gateway.keys import Keys
from dptext_gateway.settings import Secret
from dptext_gateway.store import Store


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("opened") / "books.db"
    done = dptext("budget", "open", "reviews", "--epsilon", 10, "--unit", "document", "--ledger", found)
    assert done.returncode == 0, done.stderr
    return found


@pytest.fixture
def books(opened: Path, tmp_path: Path) -> Path:
    return shutil.copy(opened, tmp_path / "books.db")


def test_a_key_is_made_listed_rotated_and_revoked(books: Path) -> None:
    def keys(*arguments: object) -> str:
        found = dptext("keys", *arguments, "--ledger", books)
        assert found.returncode == 0, found.stderr
        assert ("Shown once" in found.stderr) is (arguments[0] in ("create", "rotate"))
        return found.stdout.removesuffix("\n")

    key = keys("create", "team", "--account", "reviews", "--scope", "privatize", "--scope", "jobs", "--days", 30)
    assert re.fullmatch(r"dptext_[0-9a-f]{12}_[\w-]{43}", key)
    prefix = key.split("_")[1]
    listed = keys("list")
    assert f"{prefix}  team: privatize jobs, account reviews, until 20" in listed
    assert key not in listed
    keys("create", "bound", "--scope", "metrics", "--model", "labels", "--model", "topics")
    assert "bound: metrics, account none, models labels topics" in keys("list").splitlines()[-1]
    assert json.loads(keys("list", "--json"))[0]["name"] == "team"
    new = keys("rotate", prefix, "--days", 1)
    assert new != key
    assert "revoked" in keys("revoke", new.split("_")[1])
    again = dptext("keys", "revoke", new.split("_")[1], "--ledger", books)
    assert again.returncode == 2
    assert "no key" in again.stderr
    with closing(sqlite3.connect(books)) as database:
        log = database.execute("SELECT who, account, event FROM gateway_events ORDER BY number").fetchall()
    later = new.split("_")[1]
    assert [line for line in log if "bound" not in line[2]] == [
        ("administrator", "reviews", f"key created: team ({prefix})"),
        ("administrator", "reviews", f"key rotated: team ({prefix}), now {later}"),
        ("administrator", "reviews", f"key revoked: team ({later})"),
    ]


def test_a_rotation_is_whole_or_nothing(books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(Database(books))
    keys = Keys(store, Secret.at(tmp_path / "secret"))
    made = keys.create("team", account="reviews", scopes=("privatize",))
    before = keys.listed()
    monkeypatch.setattr(secrets, "token_hex", lambda _: made.split("_")[1])  # a prefix that is taken
    with pytest.raises(LedgerError):
        keys.rotate(made.split("_")[1], days=0)
    assert keys.listed() == before
    assert keys.find(made) is not None
    assert len(store.events(None, 9)) == 1
    store.close()


@pytest.mark.parametrize(("lasts", "days", "ends"), [(5, 30, 5), (30, 5, 5), (None, 5, 5)])
def test_a_rotation_gives_no_key_more_time(
    books: Path, tmp_path: Path, lasts: int | None, days: int, ends: int
) -> None:
    store = Store(Database(books))
    keys = Keys(store, Secret.at(tmp_path / "secret"))
    prefix = keys.create("team", account="reviews", scopes=("privatize",), days=lasts).split("_")[1]
    keys.rotate(prefix, days=days)
    (old,) = (each for each in keys.listed() if each["prefix"] == prefix)
    assert old["expires"] == pytest.approx(time.time() + ends * 86_400, abs=60)
    store.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("team", "--scope", "privatize"), "Expected the account"),
        (("team", "--scope", "all", "--account", "reviews"), "Expected scopes among"),
        (("team", "--scope", "privatize", "--account", "other"), "other"),
        (("<script>", "--scope", "metrics"), "name of a key"),
        (("team", "--scope", "metrics", "--model", ""), "Expected --model with a value, found an empty one"),
        (("team", "--scope", "metrics", "--model", "labels", "--model", "a b"), "name of a model, found 'a b'"),
        (("team", "--scope", "metrics", "--days", "nan"), "Expected days=nan to be a number"),
        (("team", "--scope", "metrics", "--days", "inf"), "Expected days=inf > 0 and finite"),
        (("team", "--scope", "metrics", "--days", "0"), "Expected days=0.0 > 0"),
        (("team", "--scope", "metrics", "--days", "1e9"), "Expected days=1000000000.0 in [0, 36500]"),
    ],
)
def test_keys_that_are_not_made(books: Path, arguments: tuple[str, ...], message: str) -> None:
    found = dptext("keys", "create", *arguments, "--ledger", books)
    assert found.returncode == 2
    assert message in found.stderr
    assert not json.loads(dptext("keys", "list", "--json", "--ledger", books).stdout)


def test_no_key_releases_for_an_account_of_named_subjects(books: Path) -> None:
    account = ("people", "--epsilon", 10, "--unit", "document", "--by-subject", "--subject-key", books.parent / "s.key")
    assert dptext("budget", "open", *account, "--ledger", books).returncode == 0
    for scope in ("privatize", "jobs", "synthesize"):
        found = dptext("keys", "create", "team", "--scope", scope, "--account", "people", "--ledger", books)
        assert found.returncode == 2
        assert "found 'people', opened --by-subject" in found.stderr
        assert "Take an account opened without --by-subject." in found.stderr
    assert not books.with_name("books.db.gateway.key").exists()
    looks = dptext("keys", "create", "team", "--scope", "accounts", "--account", "people", "--ledger", books)
    assert looks.returncode == 0, looks.stderr


@pytest.mark.slow_cases("inf", "-1", why="nan stays; a key is made with none of them")
@pytest.mark.parametrize("days", ["nan", "inf", "-1"])
def test_an_old_key_does_not_hold_for_ever(books: Path, days: str) -> None:
    made = dptext("keys", "create", "team", "--scope", "metrics", "--days", 1, "--ledger", books).stdout
    before = dptext("keys", "list", "--json", "--ledger", books).stdout
    found = dptext("keys", "rotate", made.split("_")[1], "--days", days, "--ledger", books)
    assert found.returncode == 2
    assert "Expected days=" in found.stderr
    assert dptext("keys", "list", "--json", "--ledger", books).stdout == before


def serve(*arguments: object) -> tuple[int, str]:
    """Exit code and all that is said by a gateway that does not start, in this process: its imports take a second."""
    done = CliRunner().invoke(app, ["serve", *map(str, arguments)])
    error = done.exception
    assert isinstance(error, DPTextError), (error, done.output)
    if error.__context__:
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # the socket of port 80000
            traceback.clear_frames(error.__context__.__traceback__)
    return exit_code(error), f"{done.output}{error}"


def test_a_gateway_needs_models_books_and_a_secret_of_its_own(books: Path, tmp_path: Path) -> None:
    code, said = serve("--models", tmp_path / "none", "--ledger", books)
    assert (code, "dptext fit --out" in said) == (2, True), said
    (tmp_path / "models").mkdir()
    code, said = serve("--models", tmp_path / "models", "--ledger", tmp_path / "none.db")
    assert (code, "dptext budget open" in said) == (2, True), said
    server = "postgresql+psycopg://dptext@127.0.0.1:1/dptext"
    code, said = serve("--models", tmp_path / "models", "--ledger", server)
    assert (code, "--key-file" in said) == (2, True), said
    secret = tmp_path / "secret"
    secret.write_text("0" * 64)
    secret.chmod(0o644)
    code, said = serve("--models", tmp_path / "models", "--ledger", books, "--key-file", secret)
    assert (code, "0600" in said) == (2, True), said


def test_a_start_names_the_models_that_can_be_used(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dptext_gateway.server.server", lambda _: SimpleNamespace(run=lambda sockets: None))
    models = tmp_path / "models"
    models.mkdir()
    given = ("--models", models, "--ledger", books, "--port", 0)
    done = CliRunner().invoke(app, ["serve", *map(str, given), "--spool", str(tmp_path / "first")])
    assert "Models: none yet." in done.output
    for name, text in (("good", 'kind = "topics"\n'), ("bad", 'kind = "nothing"\n')):
        (models / name).mkdir()
        (models / name / "synthesis.toml").write_text(text)
        (models / name / "pool.jsonl").write_text('{"text": "a public text"}\n')
    done = CliRunner().invoke(app, ["serve", *map(str, given), "--spool", str(tmp_path / "second")])
    assert "Models: good." in done.output


@pytest.mark.slow_cases("SIGTERM", why="test_container ends a gateway so")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_is_the_normal_end_of_a_server(books: Path, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "models").mkdir()
    given = ["--models", str(tmp_path / "models"), "--ledger", str(books), "--port", "0"]
    start = [sys.executable, "-c", "from dptext.cli.app import main; main()", "serve", *given]
    process = subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = [process.stderr.readline(), process.stderr.readline()]
        assert said[1].startswith("Serving ")
        port = int(re.findall(r":(\d+)\. ", said[1])[0])
        # A connection is taken before the server runs, and a signal would then end the start of Python's loop.
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=60, trust_env=False).status_code == 200
    finally:
        process.send_signal(number)
        out, rest = process.communicate(timeout=60)
    assert (process.returncode, out, rest) == (0, "", "Stopped. Unfinished jobs go on at the next start.\n")


def test_an_address_or_spool_that_is_taken_is_said_before_anything_is_served(books: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()

    def refused(*more: object) -> str:
        code, said = serve("--models", tmp_path / "models", "--ledger", books, *more)
        assert code == 2
        assert "Serving" not in said
        return said

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "Give others with --host and --port." in refused("--port", taken.getsockname()[1])
    assert "Give others with --host and --port." in refused("--port", 80_000)
    (tmp_path / "spool").mkdir()
    with held(tmp_path / "spool" / "lock", "It is held."):
        assert "Another gateway uses the spool" in refused("--port", 0, "--spool", tmp_path / "spool")
