"""Ctrl-C and SIGTERM: exit codes 130 and 143, what lies there, how to go on, and nothing private."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import dptext
from compared import as_toml, experiment, plant, replacement, write_texts
from vectors import WORDS

CANARY = "zq9canaryxv"
RUN = [sys.executable, "-c", "from dptext.cli.app import main; main()"]
#: Put before everything: each batch of words takes a while, most of all after the first, of which Parquet is written.
SLOW = """
import itertools, time
from dptext.mechanisms.words.word_metric import WordChoiceMechanism
kept, seconds = WordChoiceMechanism.privatize, itertools.chain([0.01] * 25, itertools.repeat(0.1))
def privatize(self, records, randomness):
    time.sleep(next(seconds))
    return kept(self, records, randomness)
WordChoiceMechanism.privatize = privatize
"""
CODES = {signal.SIGINT: (130, "Ctrl-C"), signal.SIGTERM: (143, "SIGTERM")}
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])


@pytest.fixture
def room(tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = (json.dumps({"text": f"{WORDS[i]} {CANARY}", "who": f"{CANARY}{i}"}) for i in range(200))
    (tmp_path / "in.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    spec = (
        f'kind = "word_metric"\nepsilon = 0.01\nvectors = "{vectors}"\nn_words = 300\n'
        'noise = "tem"\nmax_tokens = 4\ndiameter = 100.0\n'
    )
    (tmp_path / "spec.toml").write_text(spec, "utf-8")
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stopped(
    arguments: list[str], number: signal.Signals, ready: Callable[[int], bool], *first: str
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command that is sent a signal as soon as it is ready."""
    path = os.pathsep.join([*first, str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [*RUN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    end = time.monotonic() + 100
    while not ready(process.pid) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert CANARY not in out + err
    return process.returncode, out, err


def begun(state: Path) -> Callable[[int], bool]:
    """Whether a run has marked a batch."""

    def ready(_: int) -> bool:
        try:
            return json.loads(state.read_text("utf-8"))["records"] > 0
        except (OSError, ValueError):
            return False

    return ready


@SIGNALS
def test_privatize_says_what_lies_there_and_goes_on(room: Path, number: signal.Signals) -> None:
    run = ["privatize", "in.jsonl", "out.jsonl", "--spec", "spec.toml", "--batch-size", "5"]
    code, out, err = stopped(run, number, begun(room / ".out.jsonl.resume.json"), str(room / "slow"))
    name = CODES[number][1]
    assert (code, out) == (CODES[number][0], "")
    assert err == (
        f"dptext: stopped by {name}. What is done lies unpublished beside out.jsonl: --resume goes on, --force begins "
        "anew.\n"
    )
    assert not (room / "out.jsonl").exists()
    done = dptext(*run, "--resume")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (room / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == [str(i) for i in range(200)]


def test_a_run_that_was_paid_for_says_so(room: Path) -> None:
    ledger = ["--ledger", "books.db"]
    assert dptext("budget", "open", "acc", "--epsilon", "10", "--unit", "document", *ledger).returncode == 0
    run = ["privatize", "in.jsonl", "out.csv", "--spec", "spec.toml", "--batch-size", "5", *ledger, "--account", "acc"]
    code, _, err = stopped(run, signal.SIGINT, begun(room / ".out.csv.resume.json"), str(room / "slow"))
    assert code == 130
    assert "What was charged stays charged: --resume finds the charge, --force charges anew." in err
    assert dptext(*run, "--resume").returncode == 0
    assert len(json.loads(dptext("budget", "log", "acc", *ledger, "--json").stdout)) == 1


@pytest.mark.slow  # tests/unit/cli/test_unfinished_runs.py has what is said, other formats stay
def test_a_format_that_cannot_go_on_says_so(room: Path) -> None:
    run = ["privatize", "in.jsonl", "out.parquet", "--spec", "spec.toml", "--batch-size", "5"]
    part = room / ".out.parquet.part"
    ready = lambda _: part.exists() and part.stat().st_size > 0  # noqa: E731
    code, _, err = stopped(run, signal.SIGTERM, ready, str(room / "slow"))
    assert code == 143
    assert "cannot be gone on with in this format: --force begins anew" in err
    assert dptext(*run, "--force").returncode == 0


@pytest.mark.slow  # tests/unit/runs/test_payment.py begins such a run anew, the test before the last says what is paid
def test_such_a_format_that_was_paid_for_begins_anew_under_its_charge(room: Path) -> None:
    ledger = ["--ledger", "books.db"]
    assert dptext("budget", "open", "acc", "--epsilon", "10", "--unit", "document", *ledger).returncode == 0
    run = ["privatize", "in.jsonl", "out.parquet", "--spec", "spec.toml", "--batch-size", "5", *ledger]
    run += ["--account", "acc"]
    part = room / ".out.parquet.part"
    ready = lambda _: part.exists() and part.stat().st_size > 0  # noqa: E731
    code, _, err = stopped(run, signal.SIGTERM, ready, str(room / "slow"))
    assert code == 143
    assert "cannot be gone on with in this format: --resume begins anew. What was charged stays charged" in err
    assert "--force begins" not in err
    done = dptext(*run, "--resume")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(dptext("budget", "log", "acc", *ledger, "--json").stdout)) == 1


def test_fit_keeps_nothing(room: Path) -> None:
    run = [
        "fit",
        "-m",
        "candidates",
        "-s",
        "epsilon=5",
        "-s",
        "ranker=tfidf",
        "--public",
        "pipe.jsonl",
        "--out",
        "model",
    ]
    os.mkfifo(room / "pipe.jsonl")
    writing: list[int] = []

    def ready(pid: int) -> bool:
        if not writing:
            try:
                writing.append(os.open(room / "pipe.jsonl", os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                return False
        state = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
        return state == "S"  # it reads, and waits for more: a signal just before would not wake it

    code, out, err = stopped(run, signal.SIGINT, ready)
    os.close(writing[0])
    assert (code, out) == (130, "")
    assert "Nothing is kept of an unfinished fit: there is no model." in err
    assert sorted(path.name for path in room.iterdir() if "model" in path.name) == []


@pytest.mark.slow  # packages/lab/tests/compare has killed runs, the tests here the signals
@SIGNALS
def test_compare_keeps_finished_cells(
    room: Path, vectors: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = write_texts(room / "texts.jsonl")
    hangs = replacement(vectors, name="hangs", set={"rate": 0.4})
    data = experiment(texts, vectors, mechanisms=[replacement(vectors), hangs])
    (room / "e.toml").write_text(as_toml(data), "utf-8")
    faults, hanging = plant(room / "faults"), room / "hanging"
    monkeypatch.setenv("HANG", str(hanging))
    ready = lambda _: hanging.exists() and hanging.read_text("utf-8") != ""  # noqa: E731
    code, out, err = stopped(["compare", "e.toml", "--out", "grid", "--workers", "1"], number, ready, faults)
    assert (code, out) == (CODES[number][0], "")
    assert "Finished cells are kept: the same command goes on." in err
    assert len(list((room / "grid" / "cells").glob("*.json"))) == 4
    worker = Path(f"/proc/{hanging.read_text('utf-8')}/stat")
    assert not worker.exists() or worker.read_text("ascii").rpartition(")")[2].split()[0] == "Z"


def listens(pid: int) -> bool:
    """Whether the process has a handler for SIGTERM."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines())
    return bool(int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1)


def test_another_command_ends_with_the_code_alone(room: Path) -> None:
    run = ["audit", "distinguish", "--noise", "laplace", "--trials", "1000000000"]
    code, out, err = stopped(run, signal.SIGTERM, listens)
    assert (code, out, err) == (143, "", "dptext: stopped by SIGTERM. Run the command again.\n")


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    """As with nohup, or in the background of a script."""
    code = (
        "import os, signal\nfrom dptext.cli import terminal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nterminal.listen()\n"
        "os.kill(os.getpid(), signal.SIGINT)\nprint('on')\n"
        "try:\n    os.kill(os.getpid(), signal.SIGTERM)\n    signal.pause()\n"
        "except terminal.Stopped as found:\n    print(found)\n"
        "os.kill(os.getpid(), signal.SIGTERM)  # the second time it ends at once\nsignal.pause()"
    )
    done = subprocess.run([sys.executable, "-uc", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGTERM
    assert done.stdout == "on\nstopped by SIGTERM. Run the command again.\n"
