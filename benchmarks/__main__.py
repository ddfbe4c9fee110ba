"""`python benchmarks [NAME ...] [--quick]` (`make bench`): one benchmark after the other, their ratios in one table.

With --quick (`make bench QUICK=1`) those that take seconds, or less of what others measure: for everyday use. Each is
printed as it goes, then the table. The last result is kept in build/bench/last.md, the one before it in
build/bench/before.md. Exits 1 if a requirement was missed or not measured, or where no ratio can be read from what was
printed.
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
SAID = {0: "kept", 3: "NOT MEASURED in full (exit code 3)"}


@dataclass(frozen=True, slots=True)
class Plan:
    """How one benchmark is run and read.

    Attributes:
        ratio: of a printed line: groups `what` and `ratio`, and `other` where lines name what they are compared with.
        against: what the ratio is, where lines do not say.
        threads: of the processor's libraries; None leaves them alone.
        arguments: of the command line.
        quick: those of a quick run; None leaves the benchmark out of it.
    """

    ratio: str
    against: str
    threads: str | None = None
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = None


PLANS: dict[str, Plan] = {
    "nearest": Plan(
        r"(?P<what>\d+ +[\d.]+) +[\d.]+ +[\d.]+, (?P<ratio>[\d.]+)",
        "of the time of FAISS (words, epsilon)",
        "1",
        ("--threads", "1"),
        ("--threads", "1", "--queries", "1024", "--rounds", "2"),
    ),
    "samplers": Plan(r"(?P<what>.{42}) [\d.]+ +(?P<ratio>[\d.e+-]+) +(?P<other>.+)", "of the time of", quick=()),
    "audits": Plan(r"\| (?P<what>\w+) \|.*\| (?P<ratio>[\d.]+) \|", "times one release at a time", quick=()),
    "startup": Plan(
        r"(?P<what>dptext --help|import dptext) takes (?P<ratio>[\d.]+) times as long as python -c '(?P<other>[^']+)'",
        "of the time of",
        quick=(),
    ),
    "files": Plan(
        r"\| (?P<what>[^|]+) against (?P<other>[^|]+?) \| [\d.]+ \| [\d.]+ \| (?P<ratio>[\d.]+) \|",
        "times as long as",
        "1",
        quick=("--records", "50000"),
    ),
    "accounting": Plan(r"(?P<what>.{58}) .* ms, +(?P<ratio>[\d.]+) x one run", "of the time of one run"),
    "ledger": Plan(r"(?P<what>.{53}) .*, +(?P<ratio>[\d.]+) x bare", "of the bare database's inserts a second"),
    "adept": Plan(r"\| (?P<what>[^|]+) \| \d+ \| (?P<ratio>[\d.]+) \|", "times the plain loop", "1"),
    "sentence_encoder": Plan(
        r"(?P<what>\S+(?: sample)? +ours\D{3,19}\d*) +(?P<ratio>[\d.]+) +[\d.]+-",
        "times encode(batch_size=32)",
        "1",
        quick=("--sentences", "192", "--rounds", "2", "--corpora", "snips"),
    ),
    "writing": Plan(
        r"\| (?P<what>\d+ texts, \d+ tokens), (?P<other>\S+) \| \d+ \| \d+ \| (?P<ratio>[\d.]+) \|",
        "times",
        "1",
        quick=("--rounds", "1"),
    ),
    "static_encoder": Plan(r"\| (?P<what>[^|]+) \| (?P<ratio>\d+) \| \d+-\d+ \|", "times encode(batch_size=32)", "1"),
    "depth": Plan(r"\| (?P<what>[^|]+) \| [\d,]+ \| (?P<ratio>[\d.]+) \|", "times plain NumPy", "2", quick=()),
    "tem": Plan(
        r"\| (?P<what>\d+ words, .+?) \|.*\| (?P<ratio>[\d.e+]+) \|",
        "times weighing all near words",
        "1",
        quick=("--words", "50000", "--tokens", "4096", "--rounds", "1"),
    ),
    "erae": Plan(r"\| (?P<what>.+ against .+?) \| (?P<ratio>[\d.]+) \|", "times", "1"),
    "profiles": Plan(r"\| (?P<what>[^|]+: [^|]+) \| (?P<ratio>[\d.]+) \|", "of the job's time", "1"),
    "whole_corpus": Plan(
        r"\| (?P<what>\w+, \w+) \| [\d,]+ \| [\d.]+ \| (?P<ratio>[\d.]+) \|", "times its encoder alone", "1"
    ),
    "compare": Plan(
        r"\| (?P<what>[^|]+) \| \d+ \| [\d.]+ \| [\d.]+ \| (?P<ratio>[\d.]+) \|", "times each cell for itself", "1"
    ),
    "batch": Plan(
        r"(?P<what>.+ texts) +(?P<ratio>[\d.]+) of the time of the plain loop",
        "of the time of the plain loop",
        "1",
        ("--texts", "20000", "--rounds", "1"),
        ("--texts", "2000", "--rounds", "1"),
    ),
    "gateway": Plan(
        r"(?P<what>\w+) .+ clients, (?P<ratio>[\d.]+) of the throughput of the library", "of the library's texts", "1"
    ),
    "gpu_writer": Plan(r"\| (?P<what>transformers, \w+) \| (?P<ratio>[\d.]+) \|", "times as fast as our kernels"),
    "peers": Plan(
        r"\| (?P<other>[^|]+) \| (?P<what>[^|]+) \| [\d.]+ \| [\d.]+ \| (?P<ratio>[\d.e+]+) \(", "times as fast as", "1"
    ),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark printed, its exit code and its seconds."""

    printed: str
    code: int
    seconds: float


def run(name: str, *, quick: bool) -> Result:
    """Run a benchmark; what it prints is printed meanwhile."""
    plan = PLANS[name]
    environment = dict(os.environ) if plan.threads is None else {**os.environ, "OMP_NUM_THREADS": plan.threads}
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


def ratios(name: str, printed: str) -> list[tuple[str, str, str]]:
    """What was measured, its ratio, and to what, for each line that tells one."""
    plan = PLANS[name]
    found = filter(None, (re.match(plan.ratio, line) for line in printed.splitlines()))
    return [
        (" ".join(one["what"].split()), one["ratio"], f"{plan.against} {one.groupdict().get('other', '')}".strip())
        for one in found
    ]


def table(results: dict[str, Result]) -> tuple[str, bool]:
    """The ratios of all, and whether everything was read and kept what it requires."""
    rows, good = ["| benchmark | what | ratio | | requirements |", "|---|---|---|---|---|"], True
    for name, result in results.items():
        found = ratios(name, result.printed)
        good &= result.code == 0 and bool(found)
        kept = SAID.get(result.code, f"MISSED (exit code {result.code})")
        rows += [f"| {name} | {what} | {ratio} | {other} | {kept} |" for what, ratio, other in found]
        if not found:
            rows.append(f"| {name} | no ratio was printed | | | {kept} |")
    return "\n".join(rows), good


def keep(results: dict[str, Result], folder: Path) -> Path:
    """Write the table and all that was printed; the result that was there stays beside the new one."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    head = f"# Benchmarks\n\n{dt.date.today()}, dptext {version('dptext')}, {machine}.\n\n{table(results)[0]}\n"
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
    shown, good = table(results)
    print(f"\n{shown}\n\nKept in {keep(results, KEPT)}")
    for name, result in results.items():
        if result.code or not ratios(name, result.printed):
            print(f"NOT SHOWN: {name}: {SAID.get(result.code, 'MISSED') if result.code else 'no ratio was printed'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
