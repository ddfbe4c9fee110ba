"""`make bench`: every benchmark is run, its ratios are read off what it prints, and the last result is kept."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scripts import load_script

ROOT = Path(__file__).parents[2]

#: A line as each of them prints it, and what is to be read.
LINES = {
    "nearest": (
        "50000    10       27.5           0.61, 0.64                 35         of 8192      0.31",
        "50000 10",
        "0.64",
    ),
    "samplers": (f"{'discrete Laplace':<42} {'0.123':<10} {'0.0081':<20} opendp", "discrete Laplace", "0.0081"),
    "audits": ("| GridLaplace | 1,200,000 | 900,000 | 30,000 | 40.1 |", "GridLaplace", "40.1"),
    "files": (
        "| read Parquet against pyarrow | 0.31 | 0.03 | 9.87 | 9.20 to 12.85 | at most 12.0 |",
        "read Parquet",
        "9.87",
    ),
    "startup": (
        "dptext --help takes 1.21 times as long as python -c 'import typer, rich' (median of 40; ...)",
        "dptext --help",
        "1.21",
    ),
    "ledger": (
        f"{'SQLite':10} {'pure, one account':42}    1,610 a second (1,365 to 1,826),  0.23 x bare",
        "SQLite pure, one account",
        "0.23",
    ),
    "adept": ("| + batch 512 | 566 | 3.41 |", "+ batch 512", "3.41"),
    "accounting": (
        f"{'20,000 runs, quick bound, top-k':58} {0.8:8.3f} ms, {2.7:8.2f} x one run",
        "20,000 runs, quick bound, top-k",
        "2.70",
    ),
    "sentence_encoder": (
        f"{'imdb':<13} {'ours, bfloat16':<23} {5.91:<6.2f} 5.80-6.02    650          0.99994, 0.99999",
        "imdb ours, bfloat16",
        "5.91",
    ),
    "writing": ("| 64 texts, 600 tokens, transformers | 108 | 61 | 1.77 |", "64 texts, 600 tokens", "1.77"),
    "static_encoder": ("| snips | 370 | 265-447 | 115,271 | 25,922 | 16 | 0.870 | 0.650 | 0.672 |", "snips", "370"),
    "depth": ("| dptext_lab.sentdp.depth | 6,677 | 76.9 |", "dptext_lab.sentdp.depth", "76.9"),
    "tem": ("| 50000 words, epsilon 0.05 | 709.06 | 1.0 | 16000 | 1.6e+04 |", "50000 words, epsilon 0.05", "1.6e+04"),
    "erae": (
        "| hub: a batch against torch, one text at a time | 6.1 | 5.9 | 6.4 |",
        "hub: a batch against torch, one text at a time",
        "6.1",
    ),
    "profiles": ("| ADePT, LSTM: decoding | 0.512 | 130.1 | 20.4 | operations |", "ADePT, LSTM: decoding", "0.512"),
    "whole_corpus": ("| votes, author | 4,000 | 9.1 | 1.043 | 12 |", "votes, author", "1.043"),
    "compare": ("| snips, erae | 6 | 41.0 | 13.5 | 3.04 |", "snips, erae", "3.04"),
    "batch": ("one worker       10,000 texts  0.956 of the time of the plain loop", "one worker 10,000 texts", "0.956"),
    "gateway": (
        "candidates        267 texts/s by 8 clients, 1.273 of the throughput of the library (210); p95 1.97 s",
        "candidates",
        "1.273",
    ),
    "gpu_writer": ("| transformers, cuda | 21.30 | 3,210 | 900 | -1.204 | 0.31 |", "transformers, cuda", "21.30"),
    "peers": (
        "| opendp 0.16.0 | 10,000 draws, discrete Laplace | 5.3 | 102.6 | 19.5 (19.4 to 19.6) | 8 | 1, 1 | the same |",
        "10,000 draws, discrete Laplace",
        "19.5",
    ),
}


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return load_script("bench", ROOT / "benchmarks" / "__main__.py")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The peers' benchmark, with one peer, an empty folder and this process's settings left alone."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = load_script("peers", ROOT / "benchmarks" / "peers.py")
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    return script


def test_every_benchmark_is_run_and_read(bench: ModuleType) -> None:
    assert set(bench.PLANS) == {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")} == set(LINES)
    for name, (line, what, ratio) in LINES.items():
        ((found, value, against),) = bench.ratios(name, f"a heading\n{line}\nmissed: nothing")
        assert (found, value) == (what, ratio)
        assert against


def test_the_last_result_is_kept_and_a_miss_shows(bench: ModuleType, tmp_path: Path) -> None:
    good = {"depth": bench.Result(LINES["depth"][0] + "\n", 0, 1.0)}
    assert bench.table(good)[1]
    assert not bench.table({"depth": bench.Result("nothing", 0, 1.0)})[1]
    missed = {"depth": bench.Result(LINES["depth"][0] + "\n", 1, 1.0)}
    assert not bench.table(missed)[1]
    assert "MISSED" in bench.keep(missed, tmp_path).read_text("utf-8")
    absent, good_too = bench.table({"depth": bench.Result(LINES["depth"][0] + "\n", 3, 1.0)})
    assert "NOT MEASURED" in absent
    assert not good_too
    last = bench.keep(good, tmp_path).read_text("utf-8")
    assert "76.9" in last
    assert "MISSED" not in last
    assert "MISSED" in (tmp_path / "before.md").read_text("utf-8")


def test_a_peer_that_cannot_be_installed_is_not_measured(
    peers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise subprocess.CalledProcessError(1, "pip", stderr="a warning\nno network")

    monkeypatch.setattr(peers.venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(peers.subprocess, "run", fail)
    monkeypatch.setattr(sys, "argv", ["peers.py", "opendp"])
    assert peers.main() == 3
    shown = capsys.readouterr()
    assert "| opendp | NOT MEASURED |" in shown.out
    assert "not measured: opendp: it cannot be installed: no network" in shown.err
    assert not list(peers.FOLDER.rglob("pins.txt"))


def test_a_peer_that_does_not_start_is_not_measured(peers: ModuleType) -> None:
    with pytest.raises(peers.NotMeasuredError, match="it does not work: KeyError"):
        peers.Worker(Path(sys.executable), "no peer", {})


def test_a_ratio_below_what_is_required_is_missed_and_said(
    peers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Slow:
        tasks = ("work",)

        def __init__(self, *_: object) -> None: ...

        def timed(self, task: str) -> tuple[float, float]:
            return 1e-9, 1.0

        def close(self) -> None: ...

    case = peers.Case("work", "the work", (lambda: sum(range(10_000)), float), 2, "the same")
    monkeypatch.setattr(peers, "Worker", Slow)
    monkeypatch.setattr(peers, "python_of", lambda _: Path(sys.executable))
    monkeypatch.setattr(peers, "jobs", lambda *_: [({}, [case])])
    monkeypatch.setattr(sys, "argv", ["peers.py", "opendp", "--rounds", "1"])
    assert peers.main() == 1
    shown = capsys.readouterr()
    assert "We lose:\n- opendp 0.16.0, the work" in shown.out
    assert "expected 2" in shown.err


def test_what_came_out_is_described(peers: ModuleType) -> None:
    assert peers.kept(["a", "b", "c", "d"])(["a", "b", "x", "y"]) == 0.5
    assert peers.root_mean_square([3, -3]) == 3


def test_a_peer_finds_the_same_words_in_a_text(peers: ModuleType) -> None:
    known = frozenset(word for i, word in enumerate(sorted(set(peers.words_of(peers.utterances())))) if i % 3)
    texts = peers.plain_texts(known, 20)
    assert len(texts) == 20
    for text in texts:
        assert known.issuperset(text.split())
        assert peers.tokenize(text) == [text.split()]
        assert len(text.split()) <= peers.TEXT_WORDS
