"""`dptext keys` and `dptext serve` from the shell."""

import json
import re
from pathlib import Path

import pytest

from commands import dptext


@pytest.fixture
def books(tmp_path: Path) -> Path:
    found = tmp_path / "books.db"
    opened = dptext("budget", "open", "reviews", "--epsilon", 10, "--unit", "document", "--ledger", found)
    assert opened.returncode == 0, opened.stderr
    return found


def test_a_key_is_made_listed_rotated_and_revoked(books: Path) -> None:
    def keys(*arguments: object) -> str:
        found = dptext("keys", *arguments, "--ledger", books)
        assert found.returncode == 0, found.stderr
        return found.stdout

    made = keys("create", "team", "--account", "reviews", "--scope", "privatize", "--scope", "jobs", "--days", 30)
    key = made.splitlines()[0]
    assert re.fullmatch(r"dptext_[0-9a-f]{12}_[\w-]{43}", key)
    assert "Shown once" in made
    prefix = key.split("_")[1]
    listed = keys("list")
    assert f"{prefix}  team: privatize jobs, account reviews, until 20" in listed
    assert key not in listed
    assert json.loads(keys("list", "--json"))[0]["name"] == "team"
    new = keys("rotate", prefix, "--days", 1).splitlines()[0]
    assert new != key
    assert "revoked" in keys("revoke", new.split("_")[1])
    again = dptext("keys", "revoke", new.split("_")[1], "--ledger", books)
    assert again.returncode == 2
    assert "no key" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("team", "--scope", "privatize"), "Expected the account"),
        (("team", "--scope", "all", "--account", "reviews"), "Expected scopes among"),
        (("team", "--scope", "privatize", "--account", "other"), "other"),
        (("<script>", "--scope", "metrics"), "name of a key"),
    ],
)
def test_keys_that_are_not_made(books: Path, arguments: tuple[str, ...], message: str) -> None:
    found = dptext("keys", "create", *arguments, "--ledger", books)
    assert found.returncode == 2
    assert message in found.stderr


def test_a_gateway_needs_models_books_and_a_secret_of_its_own(books: Path, tmp_path: Path) -> None:
    absent = dptext("serve", "--models", tmp_path / "none", "--ledger", books)
    assert absent.returncode == 2
    assert "dptext fit --out" in absent.stderr
    (tmp_path / "models").mkdir()
    no_books = dptext("serve", "--models", tmp_path / "models", "--ledger", tmp_path / "none.db")
    assert no_books.returncode == 2
    assert "dptext budget open" in no_books.stderr
    server = "postgresql+psycopg://dptext@127.0.0.1:1/dptext"
    remote = dptext("serve", "--models", tmp_path / "models", "--ledger", server)
    assert remote.returncode == 2
    assert "--key-file" in remote.stderr
    secret = tmp_path / "secret"
    secret.write_text("0" * 64)
    secret.chmod(0o644)
    shown = dptext("serve", "--models", tmp_path / "models", "--ledger", books, "--key-file", secret)
    assert shown.returncode == 2
    assert "0600" in shown.stderr
