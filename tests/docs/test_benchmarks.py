"""`make bench`: every benchmark is run, its rows are read off what it prints, and the last result is kept."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scripts import load_script

ROOT = Path(__file__).parents[2]


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


def printed(capsys: pytest.CaptureFixture[str], *ratios: float, code: int = 0) -> tuple[str, int]:
    """Rows as a benchmark prints them, each at least 2, and the exit code."""
    rows = load_script("timing", ROOT / "benchmarks" / "_timing.py").Rows()
    for i, ratio in enumerate(ratios):
        found = [ratio - 0.5, ratio, ratio + 0.25]
        rows.add(f"work {i}", "times as fast as NumPy", found, least=2, processor="AVX-512")
    rows.note("work", "ms", [1.0])
    if code:
        rows.absent("PostgreSQL", "it is not installed", code=code)
    return capsys.readouterr().out, rows.code


def test_every_benchmark_is_run() -> None:
    bench = load_script("bench", ROOT / "benchmarks" / "__main__.py")
    assert set(bench.PLANS) == {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")}


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("[!_]*.py")), ids=lambda path: path.stem)
def test_every_benchmark_prints_rows_of_one_form_and_exits_by_them(path: Path) -> None:
    source = path.read_text("utf-8")
    assert "Rows()" in source
    assert "rows.add(" in source or "table.add(" in source
    assert "return rows.code" in source or "return table.code" in source
    assert "sys.exit(main())" in source


def test_a_row_has_least_median_most_and_its_own_verdict(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    said, code = printed(capsys, 3.0, 1.5)
    first, second = bench.ROW.findall(said)
    assert first == ("work 0", "times as fast as NumPy", "2.5", "3", "3.25", "at least 2 (AVX-512)", "kept")
    assert second[-1] == "MISSED"
    assert code == 1
    rows = load_script("timing", ROOT / "benchmarks" / "_timing.py").Rows()
    rows.add("most", "of the time", [1.0], most=0.5)
    rows.add("nothing is asked", "of the time", [9.0])
    rows.add("no number", "of the time", [float("nan")], most=1)
    assert [row[-2:] for row in bench.ROW.findall(capsys.readouterr().out)] == [
        ("at most 0.5", "MISSED"),
        ("none", "-"),
        ("at most 1", "MISSED"),
    ]


@pytest.mark.parametrize(
    ("found", "bound", "said"),
    [
        ([0.9, 1.2, 1.3], {"most": 1.1}, "unclear"),  # the better quartile keeps what the median misses
        ([1.05, 1.2, 1.3], {"most": 1.1}, "MISSED"),  # one of three rounds is not enough if it is near the bound
        ([0.1, *[1.2] * 29], {"most": 1.1}, "MISSED"),  # nor one of thirty
        ([1.0, 1.05, 1.3], {"most": 1.1}, "kept"),
        ([4.1, 4.9, 5.2], {"least": 5}, "unclear"),
        ([4.1, 4.9], {"least": 5}, "MISSED"),
        ([0, 0, 1], {"most": 0}, "MISSED"),  # there may be none at all: one round decides
        ([0, 1, 1], {"most": 0}, "MISSED"),
        ([0, 0, 0], {"most": 0}, "kept"),
        ([float("nan"), float("nan")], {"most": 0}, "MISSED"),
        ([float("nan"), 1.2], {"most": 1.1}, "MISSED"),
        ([float("nan"), 1.0], {"most": 1.1}, "MISSED"),
    ],
)
def test_a_missed_bound_is_unclear_where_the_better_quartile_keeps_it(
    bench: ModuleType, capsys: pytest.CaptureFixture[str], found: list[float], bound: dict[str, float], said: str
) -> None:
    rows = load_script("timing", ROOT / "benchmarks" / "_timing.py").Rows()
    rows.add("work", "of the time", found, **bound)
    ((*_, shown),) = bench.ROW.findall(printed_so_far := capsys.readouterr().out)
    assert shown == said
    assert rows.code == (said != "kept")
    result = bench.Result(printed_so_far, rows.code, 1.0)
    assert bool(result.faults()) == (said != "kept")
    assert ("- unclear: depth: work: " in bench.table({"depth": result})) == (said == "unclear")
    assert ("Every bound is kept" in bench.table({"depth": result})) == (said == "kept")


def test_the_last_result_is_kept_and_a_miss_shows(
    bench: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    good = {"depth": bench.Result(*printed(capsys, 3.0), 1.0)}
    missed = {"depth": bench.Result(*printed(capsys, 3.0, 1.5), 1.0)}
    assert not good["depth"].faults()
    assert missed["depth"].faults() == ["work 1: 1.5 times as fast as NumPy, at least 2 (AVX-512)"]
    shown = bench.keep(missed, tmp_path).read_text("utf-8")
    assert shown.startswith("# Benchmarks\n\n20")
    assert bench.processor() in shown
    assert f"{os.cpu_count()} cores" in bench.processor()
    assert "- MISSED: depth: work 1: 1.5" in shown
    last = bench.keep(good, tmp_path).read_text("utf-8")
    assert "| depth | work 0 | times as fast as NumPy | 2.5 | 3 | 3.25 | at least 2 (AVX-512) | kept |" in last
    assert "- Every bound is kept." in last
    assert "MISSED" not in last
    assert "MISSED" in (tmp_path / "before.md").read_text("utf-8")


def test_what_was_not_measured_or_failed_is_a_fault(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    absent = bench.Result(*printed(capsys, 3.0, code=3), 1.0)
    assert absent.faults() == ["something that can be installed was not measured"]
    assert "- not measured: ledger: PostgreSQL: it is not installed" in bench.table({"ledger": absent})
    rows = load_script("timing", ROOT / "benchmarks" / "_timing.py").Rows()
    rows.absent("writing on a GPU", "no GPU is here", code=0)
    assert not bench.Result(capsys.readouterr().out, rows.code, 1.0).faults()
    said, _ = printed(capsys, 3.0)
    assert bench.Result(said, 1, 1.0).faults() == ["it failed, with exit code 1"]
    assert bench.Result(said, -11, 1.0).faults() == ["it failed, with exit code -11"]
    assert bench.Result("", 0, 1.0).faults() == ["it printed no row"]
    died = bench.Result(f"{printed(capsys, 1.5)[0]}Traceback (most recent call last):\n", 1, 1.0)
    assert len(died.faults()) == 2


#: Benchmarks that print a missed row, and nothing.
PLANTED = {
    "slow": "from _timing import Rows\nrows = Rows()\nrows.add('sorting', 'of the time of NumPy', [9.0, 8.0], most=2)\n"
    "rows.add('adding', 'of the time of NumPy', [1.0], most=2)\nraise SystemExit(rows.code)\n",
    "silent": "print('done')\n",
    "good": "from _timing import Rows\nrows = Rows()\nrows.add('adding', 'of the time of NumPy', [1.0], most=2)\n",
}


@pytest.mark.parametrize(
    ("name", "code", "shown"),
    [
        ("slow", 1, "- MISSED: slow: sorting: 8.5 of the time of NumPy, at most 2"),
        ("silent", 1, "- MISSED: silent: it printed no row"),
        ("good", 0, "- Every bound is kept."),
    ],
)
def test_a_planted_benchmark_decides_the_exit_code_and_is_named(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    name: str, code: int, shown: str,
) -> None:  # fmt: skip
    (tmp_path / f"{name}.py").write_text(PLANTED[name], "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "benchmarks"))
    monkeypatch.setattr(bench, "HERE", tmp_path)
    monkeypatch.setattr(bench, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(bench, "PLANS", {name: bench.Plan("1")})
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    assert bench.main() == code
    out = capsys.readouterr().out
    assert shown in out
    assert "MISSED: slow: adding" not in out
    assert shown in (tmp_path / "kept" / "last.md").read_text("utf-8")


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
    assert "not measured: opendp: it cannot be installed: no network" in shown.out
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
    assert "| at least 2 | MISSED |" in shown.out


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
