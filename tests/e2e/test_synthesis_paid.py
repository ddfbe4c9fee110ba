"""`dptext synthesize` with an account: what costs nothing, and how a run that was paid goes on."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from commands import dptext
from dptext import Ledger, sample_records

LABELS = 'labels=["health", "travel", "money", "leisure"]'
SMALL = ("--public", "pool.jsonl", "-m", "topics", "--set", "encoder=glove", "--set", "words=8", "--set", "topics=4")
PAID = (*SMALL, "--set", "epsilon=2", "--ledger", "books.db", "--account", "letters")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private corpus, a pool, and an account."""
    made = tmp_path_factory.mktemp("paid")
    for name, n, seed in (("private", 60, 1), ("pool", 60, 2)):
        rows = [{"text": r.text, "label": r.label} for r in sample_records(n, seed=seed)]
        (made / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    opened = dptext(
        "budget", "open", "letters", "--unit", "document", "--epsilon", 20, "--delta", 1e-5, "--relation",
        "add_or_remove_one", "--ledger", "books.db", cwd=made,
    )  # fmt: skip
    assert opened.returncode == 0, opened.stderr
    return made


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def charges(folder: Path) -> list[bool]:
    """Of each charge whether it was settled."""
    return [charge.release is not None for charge in Ledger.at(str(folder / "books.db")).log("letters")]


@pytest.mark.parametrize(
    ("source", "target", "more", "said"),
    [
        ("private.jsonl", "o.json", ("--set", LABELS, "--label-field", "lable"), "record of a file"),
        ("private.jsonl", "o.json", ("--text-field", "txt", "--public-text-field", "text"), "record of a file"),
        ("private.jsonl", f"{'o' * 225}.json", (), "name"),
        ("private.jsonl", "no/o.json", (), "No such file"),
        ("private.jsonl", "o.json", ("--set", "relation=replace_one"), "Choose an account of the same meaning"),
        ("copy.jsonl", "o.json", (), "public pool other than the private corpus"),
        ("file://HERE/pool.jsonl", "o.json", (), "public pool other than the private corpus"),
        ("private.jsonl", "o.json", ("--resume",), "no unfinished run"),
    ],
)  # fmt: skip
def test_what_is_refused_costs_nothing_and_leaves_nothing(
    source: str, target: str, more: tuple[str, ...], said: str, folder: Path
) -> None:
    (folder / "copy.jsonl").write_bytes((folder / "pool.jsonl").read_bytes())
    before = sorted(path.name for path in folder.iterdir())
    done = dptext("synthesize", source.replace("HERE", str(folder)), target, *PAID, *more, cwd=folder)
    assert done.returncode in (2, 4), done.stdout
    assert said in done.stderr
    assert charges(folder) == []
    assert sorted(path.name for path in folder.iterdir()) == before


def test_what_was_drawn_is_published_by_the_next_run(folder: Path) -> None:
    """A file of somebody else appears while the corpus is read; nothing lies beside it, and nothing is lost."""
    pipe, out = folder / "pipe.jsonl", folder / "o.json"
    os.mkfifo(pipe)

    def feed() -> None:
        with pipe.open("w") as file:
            file.write((folder / "private.jsonl").read_text())
            out.write_text("somebody else's")

    feeder = threading.Thread(target=feed)
    feeder.start()
    given = ("synthesize", "pipe.jsonl", "o.json", *PAID, "--charge-key", "may")
    done = dptext(*given, cwd=folder)
    feeder.join()
    assert done.returncode == 2, done.stderr
    assert "Expected nothing at" in done.stderr
    assert out.read_text() == "somebody else's"
    assert not list(folder.glob("o.json.*"))
    assert charges(folder) == [False]
    again = dptext(*given, cwd=folder)
    assert (again.returncode, out.read_text()) == (2, "somebody else's")
    out.unlink()
    pipe.unlink()  # nothing private is read again
    pipe.write_text("")
    done = dptext(*given, "--resume", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"] == json.loads(out.read_text())
    assert charges(folder) == [True]
    assert not list(folder.glob(".o.json*"))
    assert dptext("explain", "o.json", "--ledger", "books.db", cwd=folder).returncode == 0


@pytest.mark.slow
def test_what_is_paid_and_whole_is_published_whatever_became_of_its_inputs(folder: Path) -> None:
    private, pool, out = folder / "private.jsonl", folder / "pool.jsonl", folder / "o.json"
    given = ["synthesize", "private.jsonl", "o.json", *PAID]
    code = [sys.executable, "-c", KILLED, *given, "SIGKILL"]
    done = subprocess.run(code, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, charges(folder), out.exists()) == (-9, [True], False), done.stderr
    private.unlink()
    pool.write_text(pool.read_text() + '{"text": "one more"}\n')
    given[1] = "./private.jsonl"
    for mine, other in (("epsilon=2", "epsilon=3"), ("topics=4", "topics=5")):
        refused = dptext(*(other if each == mine else each for each in given), "--resume", cwd=folder)
        assert (refused.returncode, out.exists()) == (2, False)
        assert f"which is paid and whole: these differ ({mine.partition('=')[0]}). With its own" in refused.stderr
    refused = dptext("synthesize", "private.jsonl", "o.json", *PAID[:-4], "--resume", cwd=folder)  # no account
    assert (refused.returncode, out.exists()) == (2, False)
    done = dptext(*given, "--resume", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert charges(folder) == [True]
    assert not list(folder.glob(".o.json*"))
    assert dptext("explain", "o.json", "--ledger", "books.db", cwd=folder).returncode == 0


KILLED = """
import os, signal, sys
from dptext.runs import unpublished
share, number = unpublished.share, getattr(signal, sys.argv.pop())
def stopped(path):
    os.kill(os.getpid(), number)
    unpublished.share = share
    share(path)
unpublished.share = stopped
from dptext.cli.app import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_stop_between_settling_and_renaming_loses_nothing(number: str, folder: Path) -> None:
    given = ["synthesize", "private.jsonl", "o.json", *PAID]
    code = [sys.executable, "-c", KILLED, *given, number]
    done = subprocess.run(code, cwd=folder, capture_output=True, text=True, check=False)
    assert charges(folder) == [True]
    if number == "SIGKILL":
        assert done.returncode == -9
        assert not (folder / "o.json").exists()
        refused = dptext(*given, cwd=folder)
        assert refused.returncode == 2
        assert "--resume goes on" in refused.stderr
        assert dptext(*given, "--resume", cwd=folder).returncode == 0
    else:
        assert done.returncode == 0, done.stderr
    assert charges(folder) == [True]
    assert dptext("explain", "o.json", "--ledger", "books.db", cwd=folder).returncode == 0


@pytest.mark.slow  # it runs in processes of its own; tests/e2e/test_carried_columns.py has the types
def test_labels_of_a_run_that_goes_on_have_the_type_of_a_pool_that_is_gone(folder: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa  # an extra

    for name, seed in (("private", 1), ("pool", 2)):
        rows = sample_records(200, seed=seed)
        stars = {label: i + 1 for i, label in enumerate(sorted({each.label or "" for each in rows}))}
        own = {"text": [each.text for each in rows], "stars": [stars[each.label or ""] for each in rows]}
        pq.write_table(pa.table(own), folder / f"{name}.parquet")
    given = ["synthesize", "private.parquet", "o.jsonl", "--public", "pool.parquet", "--encoder", "glove", "--epsilon",
             "2", "--labels", "1,2,3,4", "--label-field", "stars", *PAID[-4:]]  # fmt: skip
    code = [sys.executable, "-c", KILLED, *given, "SIGKILL"]
    done = subprocess.run(code, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, charges(folder), (folder / "o.jsonl").exists()) == (-9, [True], False), done.stderr
    for name in ("private", "pool"):
        (folder / f"{name}.parquet").unlink()
    done = dptext(*given, "--resume", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in (folder / "o.jsonl").read_text("utf-8").splitlines()]
    assert {type(row["stars"]) for row in found} == {int}
    assert charges(folder) == [True]
