"""`python benchmarks [NAME ...] [--quick]` (`make bench`): one benchmark after the other, their ratios in one table.

With --quick (`make bench QUICK=1`) those that take seconds, or less of what others measure: for everyday use. Each is
printed as it goes, then the table. The last result is kept in build/bench/last.md, the one before it in
build/bench/before.md. Exits 1 where a bound is missed, where a benchmark fails or prints no row, or where something
that can be installed is absent. A bound is missed where the median of its rounds misses it, and called unclear if their
better quartile keeps it (decision 31).
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
KEPT = HERE.parent / "build" / "bench"
#: The form of `_timing.Rows`.
ROW = re.compile(
    r"\| (.+) \| (.+) \| (\S+) \| (\S+) \| (\S+) \| (none.*|at .+) \| (-|kept|unclear|MISSED) \|$", re.MULTILINE
)
ABSENT = re.compile(r"^not measured: (.+)$", re.MULTILINE)
HEAD = """| benchmark | what | ratio | minimum | median | maximum | bound of the median | |
|---|---|---|--:|--:|--:|---|---|"""
#: What a processor may have, of which bounds depend.
FEATURES = ("amx_bf16", "avx512_bf16", "avx512_vnni", "avx512f", "avx2")


@dataclass(frozen=True, slots=True)
class Plan:
    """How one benchmark is run.

    Attributes:
        threads: of the processor's libraries; None leaves them alone.
        arguments: of the command line.
        quick: those of a quick run; None leaves the benchmark out of it.
    """

    threads: str | None = None
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = None


PLANS: dict[str, Plan] = {
    "nearest": Plan(
        "1", ("--threads", "1", "--queries", "2048"), ("--threads", "1", "--queries", "1024", "--words", "50000")
    ),
    "samplers": Plan(quick=()),
    "audits": Plan(quick=("--trials", "5000")),
    "startup": Plan(quick=()),
    "files": Plan("1", quick=("--records", "40000")),
    "accounting": Plan(quick=()),
    "ledger": Plan(arguments=("--rows", "200000")),
    "adept": Plan("1"),
    "sentence_encoder": Plan("1", quick=("--sentences", "96", "--rounds", "3", "--corpora", "snips")),
    "writing": Plan("1", quick=("--rounds", "1", "--texts", "16")),
    "static_encoder": Plan("1"),
    "depth": Plan("2", quick=()),
    "tem": Plan("1", quick=("--words", "50000", "--tokens", "4096")),
    "erae": Plan("1"),
    "profiles": Plan("1"),
    "whole_corpus": Plan("1"),
    "compare": Plan("1", ("--part", "40", "--rounds", "2")),
    "batch": Plan("1", quick=("--texts", "2000", "--rounds", "1")),
    "gateway": Plan("1"),
    "gpu_writer": Plan(),
    "peers": Plan("1"),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark printed, its exit code and its seconds."""

    printed: str
    code: int
    seconds: float

    def rows(self, verdict: str) -> list[str]:
        """The rows of this verdict: what was measured, the median, and its bound."""
        rows = ROW.findall(self.printed)
        return [
            f"{what}: {median} {ratio}, {bound}" for what, ratio, _, median, _, bound, said in rows if said == verdict
        ]

    def faults(self) -> list[str]:
        """Why it does not pass: each missed row, and what else is wrong."""
        missed = [*self.rows("MISSED"), *self.rows("unclear")]
        if "Traceback (most recent call last)" in self.printed or self.code not in {0, 3, bool(missed)}:
            missed.append(f"it failed, with exit code {self.code}")
        if self.code == 3:
            missed.append("something that can be installed was not measured")
        if not ROW.search(self.printed) and not ABSENT.search(self.printed):
            missed.append("it printed no row")
        return missed


def run(name: str, *, quick: bool) -> Result:
    """Run a benchmark; what it prints is printed meanwhile."""
    plan = PLANS[name]
    environment = {**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    if plan.threads is not None:
        environment["OMP_NUM_THREADS"] = plan.threads
    began, lines = time.perf_counter(), []
    arguments = plan.arguments if plan.quick is None or not quick else plan.quick
    command = [sys.executable, "-u", str(HERE / f"{name}.py"), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return Result("".join(lines), process.returncode, time.perf_counter() - began)


def processor() -> str:
    """The processor's name, its cores, and which of the features it has that bounds depend on."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n\n")[0].splitlines()
    except OSError:
        lines = []
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = told.get("model name") or platform.processor() or platform.machine()
    if "model" in told:
        name += f" (family {told.get('cpu family')}, model {told['model']})"
    flags = told.get("flags", "").split()
    return ", ".join([name, f"{os.cpu_count()} cores", *([each for each in FEATURES if each in flags] or ["no AVX2"])])


def table(results: dict[str, Result]) -> str:
    """The rows of all, and beneath them what was not measured and what does not pass."""
    rows = [f"| {name} | {' | '.join(row)} |" for name, each in results.items() for row in ROW.findall(each.printed)]
    absent = [
        f"- not measured: {name}: {what}" for name, each in results.items() for what in ABSENT.findall(each.printed)
    ]
    faults = [
        f"- {'unclear' if what in each.rows('unclear') else 'MISSED'}: {name}: {what}"
        for name, each in results.items()
        for what in each.faults()
    ]
    last = faults or ["- Every bound is kept."]
    return "\n".join([HEAD, *rows, "", *absent, *last])


def keep(results: dict[str, Result], folder: Path) -> Path:
    """Write the table and all that was printed; the result that was there stays beside the new one."""
    whole = f"{sum(each.seconds for each in results.values()) / 60:.0f} minutes"
    machine = f"{processor()}, Python {platform.python_version()}"
    head = f"# Benchmarks\n\n{dt.date.today()}, dptext {version('dptext')}, {machine}; {whole}.\n\n{table(results)}\n"
    printed = [
        f"## {name}, {result.seconds:.0f} s\n\n```text\n{result.printed.rstrip()}\n```\n"
        for name, result in results.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    last = folder / "last.md"
    if last.exists():
        last.replace(folder / "before.md")
    last.write_text("\n".join([head, *printed]), "utf-8")
    return last


def main() -> int:
    """Run those that are named, or all."""
    quick = "--quick" in sys.argv
    own = [name for name, plan in PLANS.items() if not quick or plan.quick is not None]
    names = [name for name in sys.argv[1:] if name != "--quick"] or own
    if unknown := [name for name in names if name not in PLANS]:
        print(f"Expected names among {', '.join(PLANS)}, found {', '.join(unknown)}.", file=sys.stderr)
        return 2
    results = {}
    for name in names:
        print(f"\n== {name}", flush=True)
        results[name] = run(name, quick=quick)
    print(f"\n{processor()}\n\n{table(results)}\n\nKept in {keep(results, KEPT)}")
    return int(any(each.faults() for each in results.values()))


if __name__ == "__main__":
    sys.exit(main())
