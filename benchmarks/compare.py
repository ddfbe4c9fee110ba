"""Cells that share fits against cells that are fitted each for itself, as a ratio, on a small all.toml.

python benchmarks/compare.py [--part 60] [--rounds 3] [--corpora snips imdb]
Each cell is run in both ways, one after the other. The CPU seconds of fit, releases and numbers are summed over the
cells. All limits of the corpora are divided by `--part`, so that there are as many public texts for a private one as in
all.toml. Only the vocabulary of ER-AE is smaller than there, as few texts have few words. Mechanisms that learn from
private text or from none are left out: their fits are never shared. The last row is of whole cells, releases and
numbers included.

Exits 1 unless all fits together take half of the time, whole cells two thirds, and every mechanism has the same digests
in both ways. Corpora are read from DPTEXT_DATA (default ../shared/data). Where they are not, the built-in sample stands
for them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _timing import Rows, paired
from dptext.errors import DPTextError
from dptext.mechanism import Learns, Mechanism, Spec
from dptext.registry import MECHANISMS
from dptext_lab.compare.cell_run import run_cell
from dptext_lab.compare.cells import Cell, Lens, SharedFits
from dptext_lab.compare.corpora import SplitCorpus, load_corpus
from dptext_lab.compare.corpus_plans import DATA, DEFAULT_DATA
from dptext_lab.compare.experiment import Experiment, parse_experiment
from dptext_lab.compare.grid import plan_cells
from dptext_lab.erae import net as erae  # noqa: F401 (loaded before the first cell)

MIN_RATIO = 2.0  # of all fits
MIN_WHOLE = 1.5  # of whole cells: 2.0 was measured
ALL = Path(__file__).parent.parent / "packages" / "lab" / "experiments" / "all.toml"
WORDS = 300  # of the vocabulary of ER-AE
SAMPLE = {"label": "label", "sample": 600, "max_tokens": 24}


class WatchedFits(SharedFits):
    """Fits with their CPU seconds. The last mechanism is kept, so that its digests are read outside of these."""

    latest: Mechanism[str] | None = None
    seconds = 0.0

    def fitted(self, cell: Cell, spec: Spec, corpus: SplitCorpus, *, seed: int) -> Mechanism[str]:
        """As `SharedFits.fitted`."""
        self.latest = None  # an old one would need memory
        began = time.process_time()
        self.latest = super().fitted(cell, spec, corpus, seed=seed)
        self.seconds = time.process_time() - began
        return self.latest


def smaller(part: int, corpora: list[str]) -> Experiment:
    """all.toml with a part of the texts of these corpora."""
    data = tomllib.loads(ALL.read_text("utf-8"))
    here = Path(os.environ.get(DATA) or DEFAULT_DATA).is_dir()
    data["audits"] = []
    data["corpora"] = {name: _part(data["corpora"][name], part) if here else SAMPLE for name in corpora}
    for plan in data["mechanisms"]:
        kind, private = MECHANISMS[plan["kind"]], plan.get("trains_on") == "private"
        learns = not private and any(spec.traits.learns is Learns.PUBLIC for spec in kind.tiny())
        plan["corpora"] = [name for name in plan.get("corpora", corpora) if name in corpora and learns]
        if plan["kind"] == "erae":
            plan["set"]["max_words"] = WORDS
        if plan["kind"] in ("deep_candidate", "sentdp") and not here:
            plan["set"]["min_sentences"] = 1
    data["mechanisms"] = [plan for plan in data["mechanisms"] if plan["corpora"]]
    return parse_experiment(data)


def _part(given: Any, part: int) -> Any:
    if not isinstance(given, dict):
        return given
    return {key: max(20, value // part) if key == "limit" else _part(value, part) for key, value in given.items()}


@dataclass(frozen=True)
class Taken:
    """CPU seconds of a whole cell and of its fit, and the digests of its mechanism, or why it failed."""

    whole: float
    fit: float
    made: object


def run(cell: Cell, experiment: Experiment, corpus: SplitCorpus, lens: Lens, fits: WatchedFits) -> Taken:
    """Run a cell."""
    fits.latest, fits.seconds = None, 0.0
    began, failed = time.process_time(), ""
    try:
        run_cell(cell, experiment, corpus, lens, fits=fits, private_samples=False)
    except DPTextError as error:
        failed = str(error)
    whole = time.process_time() - began
    return Taken(whole, fits.seconds, failed or (fits.latest and dict(fits.latest.digests)))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpora", nargs="+", default=["snips", "imdb"])
    given = parser.parse_args()
    experiment = smaller(given.part, given.corpora)
    corpora = {name: load_corpus(name, plan, seed=experiment.seed) for name, plan in experiment.corpora.items()}
    cells = plan_cells(experiment, {name: corpus.labels for name, corpus in corpora.items()})
    able, rounds = [cell for cell in cells if not cell.fault], list[list[tuple[Taken, Taken]]]()
    for _ in range(given.rounds):
        shared = WatchedFits()
        lenses = (Lens(experiment.settings.embedder), Lens(experiment.settings.embedder))  # which remember embeddings
        for lens in lenses:
            lens.embedder.embed(["A model is loaded before the first cell."])
        rounds.append(
            [
                (
                    run(cell, experiment, corpora[cell.corpus], lenses[0], shared),
                    run(cell, experiment, corpora[cell.corpus], lenses[1], WatchedFits()),
                )
                for cell in able
            ]
        )
    rows = Rows()

    def add(what: str, places: list[int], part: str, least: float | None = None) -> None:
        ours, alone = ([sum(getattr(found[i][side], part) for i in places) for found in rounds] for side in (0, 1))
        if min(ours) > 0:  # else the mechanisms are not fitted
            rows.add(
                f"{what}, {len(places)} cells", "times as fast as each for itself", paired(alone, ours), least=least
            )
            rows.note(f"{what}, {len(places)} cells", "seconds, shared", ours)

    for corpus, kind in dict.fromkeys((cell.corpus, cell.kind) for cell in able if cell.kind):
        places = [i for i, cell in enumerate(able) if (cell.corpus, cell.kind) == (corpus, kind)]
        add(f"{corpus}, {kind}: fits", places, "fit")
    every = list(range(len(able)))
    add("all fits", every, "fit", MIN_RATIO)
    add("all cells, with releases and numbers", every, "whole", MIN_WHOLE)
    other = {i for found in rounds for i, (a, b) in enumerate(found) if a.made != b.made}
    rows.add("cells whose mechanisms have other digests", f"of {len(able)}", [len(other)], most=0)
    if other:
        print("Other digests:", *(f"{able[i].corpus}: {able[i].row}" for i in sorted(other)), sep="\n- ")
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
