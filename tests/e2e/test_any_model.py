"""`dptext write` with a model of transformers, and with a server, from the shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")

import rome
import torch_folders
from commands import dptext
from dptext.language.server import KEY
from fake_server import FakeServer, serving

SECRET = "sk-secret"
DRAFTS = ("--set", "drafts=16", "--set", "matches=0")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setenv(KEY, SECRET)
    with serving() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rome.summary().write(tmp_path / "a.summary")
    return tmp_path


def ran(folder: Path, *given: object, code: int = 0) -> str:
    done = dptext(*given, cwd=folder)
    assert done.returncode == code, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done.stdout if not code else done.stderr


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow  # a server that fails in the middle stays, and tests/unit/synthesis/test_from_endpoint.py
def test_a_server_writes_a_corpus(folder: Path, fake: FakeServer) -> None:
    given = ("write", "a.summary", "out.jsonl", "--writer", f"endpoint:{fake.address}#tiny", "--size", 40, *DRAFTS)
    planned = ran(folder, *given, "--dry-run", "--price", "1,2")
    assert planned.startswith(
        "Nothing is asked or written now.\n56 requests, 16 of them for drafts, would go to 127.0.0.1"
    )
    assert "by the price that was named" in planned
    assert (fake.asked, {path.name for path in folder.iterdir()} & {"out.jsonl", "out.jsonl.part.jsonl"}) == ([], set())
    said = ran(folder, *given)
    assert said.splitlines()[0].startswith("Written: 40 texts to out.jsonl")
    assert "named the model 'tiny': its weights were not checked" in said
    assert len(rows(folder / "out.jsonl")) == 40
    assert not (folder / "out.jsonl.part.jsonl").exists()
    assert "the server alone named it" in ran(folder, "explain", "out.jsonl")
    assert not any(rome.CANARY in str(each) for each in fake.asked)
    assert all(SECRET not in path.read_text("utf-8", "replace") for path in folder.iterdir())


# --force: test_what_another_run_kept_is_replaced_by_force writes again in one process
@pytest.mark.parametrize("more", [(), pytest.param(("--force",), marks=pytest.mark.slow)])
def test_a_server_that_fails_in_the_middle_loses_nothing(more: tuple[str, ...], folder: Path, fake: FakeServer) -> None:
    """A failed run keeps its texts. The same command goes on, with another budget too, and asks for the rest alone."""
    given = ("write", "a.summary", "out.jsonl", "--writer", f"endpoint:{fake.address}#tiny", "--size", 40, *DRAFTS)
    spent = ran(folder, *given, "--set", "most_requests=30", code=2)
    assert "The budget of 30 requests is spent: set most_requests higher" in spent
    assert "What was written is in out.jsonl.part.jsonl: the same command goes on." in spent
    assert not (folder / "out.jsonl").exists()
    kept = [row["answer"] for row in rows(folder / "out.jsonl.part.jsonl")[1:] if "answer" in row]
    assert len(kept) == 30 - 5  # two found out what the server takes, and three the tokens of words
    fake.asked.clear()
    ran(folder, *given, *more)
    assert len(fake.completions) == 16 + 40 - len(kept)
    assert len(fake.asked) == len(fake.completions) + 2  # the tokens of words are asked for again
    assert {*kept[16:]} <= {row["text"] for row in rows(folder / "out.jsonl")}
    assert not (folder / "out.jsonl.part.jsonl").exists()


@pytest.mark.slow  # tests/unit/synthesis/test_drafted.py refuses and replaces it in one process
def test_what_another_run_kept_is_refused_and_overwritten_by_force(folder: Path, fake: FakeServer) -> None:
    given = ("write", "a.summary", "out.jsonl", "--writer", f"endpoint:{fake.address}#tiny", *DRAFTS)
    ran(folder, *given, "--size", 90, "--set", "most_requests=60", code=2)
    said = ran(folder, *given, "--size", 40, code=2)
    assert "Expected out.jsonl.part.jsonl to hold what this run wrote before, found another run's" in said
    ran(folder, *given, "--size", 40, "--force")
    assert len(rows(folder / "out.jsonl")) == 40


@pytest.mark.parametrize(
    ("writer", "more", "said"),
    [
        ("endpoint:http://example.org/v1#m", (), "give --allow-remote"),
        ("endpoint:http://example.org/v1", ("--allow-remote",), "Expected endpoint:BASE_URL#MODEL"),
        ("endpoint", (), "Expected --writer endpoint:BASE_URL#MODEL, found endpoint without it"),
        ("endpont:http://me:pw@h/v1#m", (), "Expected writer='endpont' to be one of"),
        ("model", (), "Expected --writer model:PATH, found model without it"),
        ("pool", ("--price", "1,2"), "Expected --price with --dry-run alone"),
        ("model:nowhere", (), "Expected model:nowhere to name a folder"),
        ("pool:x", (), "Expected --writer pool, found pool with something after it"),
        ("poet", (), "to be one of pool, builtin, model, endpoint"),
        ("pool", ("--template", "chat"), "Known: size, prior"),
        ("endpoint:http://127.0.0.1:1/v1#m", ("--dry-run", "--price", "cheap"), "Expected --price to be two prices"),
        ("endpoint:http://127.0.0.1:1/v1#m", ("--dry-run", "--price", "-1,2"), "Expected --price to be two prices"),
        ("endpoint:http://127.0.0.1:1/v1#m", ("--dry-run", "--price", "inf,1"), "Expected --price to be two prices"),
        ("endpoint:http://127.0.0.1:1/v1#m", (), "cannot be reached: start the server, and check the address"),
    ],
)
def test_what_cannot_write_is_said(
    writer: str, more: tuple[object, ...], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, SECRET)
    there = {path.name for path in folder.iterdir()}
    assert said in ran(folder, "write", "a.summary", "out.jsonl", "--writer", writer, *more, code=2)
    assert {path.name for path in folder.iterdir()} == there


@pytest.mark.slow  # seconds to load torch; tests/unit/synthesis/test_from_transformers.py writes in one process
@pytest.mark.parametrize("template", ["lines", "chat"])
def test_a_model_of_transformers_writes_a_corpus(template: str, folder: Path) -> None:
    model = torch_folders.saved(folder / "own model", "mistral", chat=torch_folders.CHAT)
    given = (
        "write",
        "a.summary",
        "out.jsonl",
        "--writer",
        f"model:{model}",
        "--size",
        20,
        "--template",
        template,
        "--seed",
        1,
    )
    planned = ran(folder, *given, *DRAFTS, "--dry-run")
    assert "36 texts of at most 9 tokens would be written by" in planned
    said = ran(folder, *given, *DRAFTS)
    assert "by the writer model" in said
    certificate = json.loads((folder / "out.jsonl.guarantee.json").read_text())
    derived = certificate["derived"]
    assert (derived["writer"], derived["model"], derived["template"]) == ("model", "own model", template)
    assert len(derived["weights"]) == 64
    assert str(folder) not in (folder / "out.jsonl.guarantee.json").read_text()
    assert 0 < len(rows(folder / "out.jsonl")) <= 20
