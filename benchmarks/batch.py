"""What a run over many files costs beside a plain loop, how it scales, and how much memory it takes.

    python benchmarks/batch.py [--texts 40000] [--ranker NAME] [--rounds 2] [--ray] [--records 1000000 10000000]

`candidates` over files of 10,000 texts: a loop that reads, privatizes and writes each file, `privatize_dataset` with
one worker, with two, and (`--ray`) with actors of a cluster; in turn, in wall-clock seconds, so many rounds. Just
before two workers, two processes run the plain loop, each on half of the files, with all loaded before: what the two
processors of this computer can do at that time. With `--records`, tiny records by `label_only` in fresh processes, for
their peak memory. Exits 1 where the overhead is above 5% (Ray: 10%; two workers, beside two loops: 15%, in which
processes start), two workers are less than 1.8 times as fast as one, or the last number of records takes 1.1 times the
memory of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import dptext as dp
from _timing import Rows, paired
from dptext.mechanism import Mechanism
from dptext.sampling.randomness import secure
from dptext.text.columns import Columns
from dptext.text.formats import Format
from dptext.text.writers import open_writer

SHARD = 10_000
MOST = {"one worker": 1.05, "ray, one actor": 1.10}
LEAST, MOST_OF_TWO_LOOPS, MOST_MEMORY = 1.8, 1.15, 1.1
TWO_LOOPS = "two plain loops at once"
ENOUGH = 4 * SHARD  # texts that are asked of: fewer are done before workers are up
MEMORY = """
import resource, sys
import dptext as dp
from pathlib import Path
source, target, model = map(Path, sys.argv[1:4])
plan = dp.Plan(dp.Fields(label="label"))
dataset = dp.DatasetPlan(workers=dp.Workers(n=int(sys.argv[4])))
dp.privatize_dataset(source, target, dp.load_model(model), plan=plan, dataset=dataset)
print(sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF,)) // 1024,
      resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def plain(paths: Sequence[Path], target: Path, mechanism: Mechanism[str]) -> None:
    """The loop that a user would write."""
    for path in paths:
        records = list(dp.read_records(path))
        with (target / path.name).open("wb") as file:
            writer = open_writer(file, Format.JSONL, columns=Columns())
            for start in range(0, len(records), 256):
                writer.write(mechanism.privatize(records[start : start + 256], secure()))
            writer.close()


LOADED: list[Mechanism[str]] = []


def load(model: Path, both: Barrier) -> None:
    """Load a model in a process of its own, use it for as many texts as a batch has, and wait for the other process."""
    LOADED.append(dp.load_model(model))
    LOADED[0].privatize(list(dp.sample_records(256)), secure())
    both.wait()


def loaded(paths: Sequence[Path], target: Path) -> None:
    """The plain loop in such a process."""
    plain(paths, target, LOADED[0])


def two_loops(pool: ProcessPoolExecutor, paths: Sequence[Path], target: Path) -> None:
    """Two plain loops at once."""
    list(pool.map(loaded, [paths[0::2], paths[1::2]], [target, target]))


def overhead(rows: Rows, texts: int, given: str, *, rounds: int, ray: bool) -> None:
    """Print what each way takes against the plain loop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        records = [each.text for each in dp.sample_records(texts)]
        for start in range(0, texts, SHARD):
            lines = "".join(json.dumps({"text": text}) + "\n" for text in records[start : start + SHARD])
            (folder / "in" / f"{start:08d}.jsonl").write_text(lines)
        pool = list(dp.sample_records(2_000, seed=1))
        mechanism = dp.fit(dp.Candidates(epsilon=10.0, ranker=given), pool, seed=0)
        dp.save_model(mechanism, folder / "model")
        paths = sorted((folder / "in").iterdir())
        workers = {"two workers": dp.Workers(n=2)}
        if ray:
            workers |= {"ray, one actor": dp.Workers("ray", 1), "ray, two actors": dp.Workers("ray", 2)}
        out = folder / "out"

        def run(workers: dp.Workers) -> None:
            dp.privatize_dataset(folder / "in", out, mechanism, dataset=dp.DatasetPlan(workers=workers))

        spawning = get_context("spawn")
        with ProcessPoolExecutor(2, spawning, load, (folder / "model", spawning.Barrier(2))) as processes:
            ways: dict[str, Callable[[], object]] = {
                "plain loop": partial(plain, paths, out, mechanism),
                "one worker": partial(run, dp.Workers(n=1)),
                TWO_LOOPS: partial(two_loops, processes, paths, out),
                **{way: partial(run, each) for way, each in workers.items()},
            }
            list(processes.map(time.sleep, [0, 0]))  # each starts a process, and none goes on before both have loaded
            times: dict[str, list[float]] = {way: [] for way in ways}
            for round_ in range(rounds):
                for way, work in ways.items():
                    if "plain" in way:
                        out.mkdir()
                    began = time.perf_counter()
                    work()
                    times[way].append(time.perf_counter() - began)
                    print(f"round {round_ + 1}, {way}: {times[way][-1]:.1f} s", flush=True)
                    shutil.rmtree(out)
    whole = texts >= ENOUGH
    for way in ("one worker", *workers):
        what, most = f"{way}, {texts:,} texts", MOST.get(way) if whole else None
        rows.add(what, "of the time of the plain loop", paired(times[way], times["plain loop"]), most=most)
    two, both = times["two workers"], times[TWO_LOOPS]
    what = f"two workers, {texts:,} texts"
    rows.add(what, "times as fast as one", paired(times["one worker"], two), least=LEAST if whole else None)
    if whole:  # else there are too few files for two
        rows.add(what, f"of the time of {TWO_LOOPS}", paired(two, both), most=MOST_OF_TWO_LOOPS)
        rows.add(f"{TWO_LOOPS}, {texts:,} texts", "times as fast as one", paired(times["plain loop"], both))


def memory(rows: Rows, sizes: list[int], workers: int) -> None:
    """Print the peak memory of runs over so many tiny records."""
    peaks = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        public = [dp.Record(str(i), f"public {i}", ("a", "b")[i % 2]) for i in range(20)]
        dp.save_model(dp.fit(dp.LabelOnly(epsilon=1.0, labels=("a", "b")), public), folder / "model")
        for n in sizes:
            source = folder / "in"
            source.mkdir()
            for start in range(0, n, 500_000):
                with (source / f"{start:09d}.jsonl").open("w") as file:
                    file.writelines(
                        f'{{"text": "t{i}", "label": "a"}}\n' for i in range(start, min(start + 500_000, n))
                    )
            began = time.perf_counter()
            command = [
                sys.executable,
                "-c",
                MEMORY,
                str(source),
                str(folder / "out"),
                str(folder / "model"),
                str(workers),
            ]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            took = time.perf_counter() - began
            print(f"{n:,} tiny records: {took:.0f} s, peak {said[0]} MiB of the driver, {said[1]} of a worker")
            peaks.append([int(each) for each in said])
            shutil.rmtree(source)
            shutil.rmtree(folder / "out")
    for who, first, last in zip(("driver", "worker"), peaks[0], peaks[-1], strict=True):
        what = f"memory of the {who}, {sizes[-1]:,} tiny records"
        rows.add(what, f"of that of {sizes[0]:,}", [last / first], most=MOST_MEMORY)


def main() -> int:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=ENOUGH)
    parser.add_argument("--ranker", default="sentence")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--records", type=int, nargs="*", default=[])
    given = parser.parse_args()
    rows = Rows()
    if given.texts:
        overhead(rows, given.texts, given.ranker, rounds=given.rounds, ray=given.ray)
    if given.records:
        memory(rows, given.records, 2)
    return rows.code


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
