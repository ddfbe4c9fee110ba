"""Rows from a tree of columns beside rows of Private-PGM, from the same noisy numbers: a CSV.

    pip install 'mbi==2.0.0' 'jax[cpu]'
    python packages/lab/experiments/tables_pgm.py OUT.csv [TABLE ...] [--epsilons 1 4] [--seeds 0 1 2]
    python packages/lab/experiments/tables_pgm.py OUT.csv --tables

Tables, settings and distances are those of `tables.py`, add or remove one. Rows:

- *tree*, *tree, rounded*: `dptext write`, and `dptext write --rounded`.
- *Private-PGM*, *Private-PGM, rounded*: the library `mbi` fits all noisy numbers of the same summary at once (mirror
  descent, 2,000 steps), and draws rows from its model, or rounds them.

*seconds* are those of the fit and the rows, without reading the summary.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import append_rows
from summary import DELTA, dptext
from synthesis_tables import print_tables, table, with_errors
from tables import COLUMNS, SIZE, apart, cells_of, rows_of

from dptext.runs.summarizing import read_summary
from dptext.synthesis.summary import Summary
from dptext.text.samples import sample_records

Row = dict[str, Any]
STEPS = 2_000


def by_pgm(summary: Summary, method: str, seed: int) -> np.ndarray:
    """Return cells of rows of a model that fits all marginals, `(n, columns)`."""
    import jax

    jax.config.update("jax_enable_x64", val=True)
    import mbi

    names = [column.name for column in summary.spec.axes.columns]
    domain = mbi.Domain(names, [len(column) for column in summary.spec.axes.columns])
    measured = [
        mbi.LinearMeasurement(
            summary.known[each.name].numbers.ravel(), tuple(names[axis - 1] for axis in each.axes),
            stddev=summary.known[each.name].deviation,
        )
        for each in summary.spec.marginals
    ]  # fmt: skip
    model = mbi.estimation.MirrorDescent().estimate(domain, measured, iters=STEPS)
    np.random.seed(seed)  # noqa: NPY002 (the library draws from it)
    found = model.synthetic_data(rows=SIZE, method=method).to_dict()
    return np.stack([np.asarray(found[name]) for name in names], axis=1)


def measured(name: str, epsilons: list[float], seeds: list[int], folder: Path) -> Iterator[Row]:
    """Yield the rows of a table."""
    rows = rows_of(name)
    truth = cells_of(name, rows)
    private, pool, out = folder / "private.jsonl", folder / "pool.jsonl", folder / "out.jsonl"
    private.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pool.write_text("".join(json.dumps({"text": each.text}) + "\n" for each in sample_records(36)), "utf-8")
    columns = [part for each in COLUMNS[name] for part in ("--column", each)]
    for seed, epsilon in itertools.product(seeds, epsilons):
        summary = folder / "one.summary"
        dptext(
            "summarize", private, summary, "--public", pool, *columns, "--shares", "columns=.25", "--text-follows",
            "none", "--about", SIZE, "--epsilon", epsilon, "--delta", DELTA, "--seed", seed, "--force",
        )  # fmt: skip
        about = {"table": name, "epsilon": epsilon, "seed": seed}
        for row, more in (("tree", []), ("tree, rounded", ["--rounded"])):
            begun = time.perf_counter()
            dptext("write", summary, out, "--size", SIZE, "--seed", seed, *more, "--force")
            took = time.perf_counter() - begun
            made = cells_of(name, [json.loads(line) for line in out.read_text("utf-8").splitlines()])
            yield {**about, "row": row, "seconds": round(took, 1), **apart(name, truth, made)}
        found = read_summary(summary)[0]
        for row, method in (("Private-PGM", "sample"), ("Private-PGM, rounded", "round")):
            begun = time.perf_counter()
            made = by_pgm(found, method, seed)
            yield {**about, "row": row, "seconds": round(time.perf_counter() - begun, 1), **apart(name, truth, made)}


def tables(rows: list[dict[str, str]]) -> str:
    """Return the table of all rows: means over seeds, and two standard errors."""
    lines = []
    for key in dict.fromkeys((each["table"], each["epsilon"], each["row"]) for each in rows):
        own = [each for each in rows if (each["table"], each["epsilon"], each["row"]) == key]
        lines.append([key[0], f"{float(key[1]):g}", key[2], *(with_errors(own, column) for column in ("one", "two"))])
    return table("table | epsilon | rows | one column | two", lines)


def main() -> None:
    """Measure the tables that are named, or all; or print the table of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("tables", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tables", dest="shown", action="store_true")
    given = parser.parse_args()
    if given.shown:
        print_tables(given.out, tables)
        return

    def every() -> Iterator[Row]:
        for name in given.tables or COLUMNS:
            with TemporaryDirectory() as folder:
                yield from measured(name, given.epsilons, given.seeds, Path(folder))

    append_rows(given.out, every())


if __name__ == "__main__":
    main()
