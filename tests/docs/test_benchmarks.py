"""`make bench`: every benchmark is run, its ratios are read off what it prints, and the last result is kept."""

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
    "startup": ("dptext --help takes 1.21 times as long as python -c 'import typer, rich'", "dptext --help", "1.21"),
    "ledger": (
        f"{'SQLite':10} {'pure, one account':42}    1,610 a second (1,365 to 1,826),  0.23 x bare",
        "SQLite pure, one account",
        "0.23",
    ),
    "adept": ("| + batch 512 | 566 | 3.41 |", "+ batch 512", "3.41"),
    "sentence_encoder": (f"{1:<8} {'ours, bfloat16':<23} {2.25:<6.2f} 1.94-2.50    99  .9", "ours, bfloat16", "2.25"),
    "static_encoder": ("| snips | 370 | 265-447 | 115,271 | 25,922 | 16 | 0.870 | 0.650 | 0.672 |", "snips", "370"),
    "depth": ("| dptext.embeddings.depth | 6,677 | 76.9 |", "dptext.embeddings.depth", "76.9"),
    "erae": (
        "| hub: a batch against one text at a time | 6.1 | 5.9 | 6.4 |",
        "hub: a batch against one text at a time",
        "6.1",
    ),
}


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return load_script("bench", ROOT / "benchmarks" / "__main__.py")


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
    last = bench.keep(good, tmp_path).read_text("utf-8")
    assert "76.9" in last
    assert "MISSED" not in last
    assert "MISSED" in (tmp_path / "before.md").read_text("utf-8")
