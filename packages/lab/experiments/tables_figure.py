"""A picture of the columns of a table, as they are and as they are written from a summary at epsilon 1.

    python packages/lab/experiments/tables_figure.py docs/results/figures/records.svg

The table is that of generated tickets, 5,000 rows, through `dptext summarize --shares columns=.25` and `dptext write`;
add or remove one, delta 1e-5. Beside each column stands the amount within two priorities, which a pair tells.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from summary import DELTA, dptext
from tables import COLUMNS, SIZE, cells_of, rows_of

from dptext.text.declarations import schema_of
from dptext.text.files import Target
from dptext.text.samples import sample_records
from dptext_lab.drawing import drawing

NAME = "tickets"
SHOWN = ("low", "high")  # priorities within which amounts are shown


def written(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of private and of written rows, `(n, columns)`."""
    rows, private, pool = rows_of(NAME), folder / "private.jsonl", folder / "pool.jsonl"
    private.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pool.write_text("".join(json.dumps({"text": each.text}) + "\n" for each in sample_records(36)), "utf-8")
    summary, out = folder / "made.summary", folder / "out.jsonl"
    columns = [part for each in COLUMNS[NAME] for part in ("--column", each)]
    dptext(
        "summarize", private, summary, "--public", pool, *columns, "--shares", "columns=.25", "--text-follows", "none",
        "--about", SIZE, "--epsilon", 1, "--delta", DELTA, "--seed", 0,
    )  # fmt: skip
    dptext("write", summary, out, "--size", SIZE, "--seed", 0)
    made = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    return cells_of(NAME, rows), cells_of(NAME, made)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        both = written(Path(folder))
    schema = schema_of(COLUMNS[NAME])
    names = [column.name for column in schema]
    amount, priority = names.index("amount"), names.index("priority")
    panels = [(column.name, i, None) for i, column in enumerate(schema)]
    panels += [(f"amount, priority {value}", amount, schema[priority].names.index(value)) for value in SHOWN]
    with drawing(Target(given.figure, force=True, private=False), title="Rows as they are, and as written") as drawn:
        drawn.set_size_inches(10, 5)
        for panel, (title, axis, within) in zip(drawn.subplots(2, 3).ravel(), panels, strict=True):
            shown, wide = schema[axis].names, len(schema[axis]) > 8
            for side, (cells, colour, label) in enumerate(
                zip(both, ("0.6", "#1f5fa8"), ("private", "written"), strict=True)
            ):
                own = cells if within is None else cells[cells[:, priority] == within]
                shares = np.bincount(own[:, axis], minlength=len(shown)) / len(own)
                panel.bar(np.arange(len(shown)) + 0.4 * (side - 0.5), shares, 0.4, color=colour, label=label)
            panel.set_title(title, fontsize=9)
            ticks = [0, len(shown) - 2] if wide else [*range(len(shown))]
            panel.set_xticks(ticks, [shown[i] for i in ticks], fontsize=7)
            panel.tick_params(axis="y", labelsize=7)
        drawn.axes[2].legend(fontsize=7)


if __name__ == "__main__":
    main()
