"""What the reward does: the five most probable words at each position, with and without it.

    python packages/lab/experiments/erae/words.py --out build/erae --corpus blogs \
        --text "we had several unique ideas for the garden"

Reads the networks that grid.py trained. The text is one of your own: name a public one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dptext.runs.models import load_model
from dptext.text.records import Record
from dptext_lab.erae.net.network import LOGIT_GRID

SHOWN = 5


def most_probable(mechanism: Any, text: str) -> list[tuple[str, str]]:
    """Each word of a text, and the words that the network proposes in its place after the true words before it."""
    model = mechanism.model
    names = ("(end)", *model.words)
    record = Record("0", text)
    writing = model.begin([record], public=False)
    found = []
    for option in model.options_of(record):
        steps = writing.logits()[0][0]
        chances = np.exp((steps - steps.max()) * LOGIT_GRID)
        chances /= chances.sum()
        top = np.argsort(-chances)[:SHOWN]
        found.append((names[option], ", ".join(f"{names[i]} {chances[i]:.3f}" for i in top)))
        if option == 0:
            break
        writing.wrote(np.array([option]))
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/erae"))
    parser.add_argument("--corpus", default="blogs")
    parser.add_argument("--text", default="we had several unique ideas and a great time")
    given = parser.parse_args()
    folders = {name: given.out / given.corpus / f"network_{name}" for name in ("plain", "reward")}
    missing = [str(folder) for folder in folders.values() if not folder.exists()]
    if missing:
        sys.exit(f"Expected the networks {', '.join(missing)}: run grid.py first.")
    tables = [most_probable(load_model(folder), given.text) for folder in folders.values()]
    print("| word | without the reward | with it |\n|---|---|---|")
    for (word, plain), (_, rewarded) in zip(*tables, strict=True):
        print(f"| {word} | {plain} | {rewarded} |")


if __name__ == "__main__":
    main()
