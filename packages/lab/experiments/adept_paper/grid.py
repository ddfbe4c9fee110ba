"""ADePT as published, by its paper's protocol: a grid of cells, one file each, that goes on where it was killed.

    python packages/lab/experiments/adept_paper/grid.py --required            # what docs/results/adept_paper.md shows
    python packages/lab/experiments/adept_paper/grid.py                       # all of the paper's variances
    python packages/lab/experiments/adept_paper/grid.py --only "kind=adept dataset=atis variance=.25,.6"
    python packages/lab/experiments/adept_paper/grid.py --samples atis        # passages of the corpus, \
        to the terminal only

Corpora are found by DPTEXT_DATA (default ../shared/data beside the checkout). Run with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

sys.path.append(str(Path(__file__).parents[1]))
from common import corpus_file, data_folder, write_json

if TYPE_CHECKING:
    from protocol import Protocol, Settings

DATASETS = ("atis", "snips")
CLIPS = (1.0, 5.0)
NOISES = ("laplace", "gaussian")
VARIANCES = (0.25, 0.5, 0.6, 0.75, 0.85, 1.0)
PHRASE_VARIANCES = (1.0, 6.0, 9.0, 15.0, 28.0, 100.0)
#: Claimed epsilons of the Laplace points at C = 1, and the least of the Gaussian ones; every other is larger.
LABEL_EPSILONS = (2.83, 5.66, 9.69)
#: LiRA whose shadows train auto-encoders of their own, as the target does; half an hour of one core on ATIS.
OWN = "own auto-encoders"
#: Times the epochs of a classifier that is trained until it fits its texts, for a membership attack with a chance.
LONGER = 5
REQUIRED = (
    "kind=model",
    "kind=baseline",
    "kind=label_only",
    "kind=candidates",
    "kind=lira dataset=atis",
    "kind=longer dataset=atis",
    "kind=adept variance=.25,.6,1",
    "kind=private_phrases variance=1,9,100",
)
#: Seconds of one core for a cell, where none of its kind is finished yet.
_GUESS = {
    "adept": 60,
    "private_phrases": 60,
    "model": 300,
    "baseline": 25,
    "label_only": 20,
    "candidates": 30,
    "lira": 220,
    "longer": 150,
}


_OWN_GUESS = 1800


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid. Settings that its kind does not have are None."""

    kind: str
    dataset: str
    clip: float | None = None
    noise: str | None = None
    variance: float | None = None
    row: str | None = None
    epsilon: float | None = None

    @property
    def name(self) -> str:
        """The stem of its file."""
        parts = [f"{value:g}" if isinstance(value, float) else str(value) for _, value in self.settings()]
        return "_".join(parts).replace(" ", "-")

    def settings(self) -> list[tuple[str, float | str]]:
        """Names and values of the fields that are set."""
        found = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, value) for name, value in found if value is not None]


def every_cell() -> list[Cell]:
    """The whole grid: what trains auto-encoders first."""
    found = []
    for dataset in DATASETS:
        found += [Cell("baseline", dataset, row=row) for row in ("original", "public-only", "random")]
        found += [Cell("model", dataset, clip) for clip in CLIPS]
        found += [
            Cell("adept", dataset, clip, noise, variance)
            for variance in VARIANCES
            for clip in CLIPS
            for noise in NOISES
        ]
        found += [Cell("private_phrases", dataset, variance=variance) for variance in PHRASE_VARIANCES]
        found += [
            Cell("label_only", dataset, row=row, epsilon=epsilon)
            for row in ("random", "medoid")
            for epsilon in LABEL_EPSILONS
        ]
        found += [Cell("candidates", dataset, epsilon=epsilon) for epsilon in LABEL_EPSILONS]
        for kind in ("lira", "longer"):
            found += [Cell(kind, dataset, row="original")]
            found += [Cell(kind, dataset, 5.0, "gaussian", 0.25), Cell(kind, dataset, 1.0, "laplace", 1.0)]
        found += [Cell("lira", dataset, 5.0, "gaussian", 0.25, OWN)]
    return found


def parse_filter(text: str) -> dict[str, set[str]]:
    """Values by key of a filter such as "kind=adept variance=.25,1".

    Raises:
        ValueError: a part that is no key=values, or a key that cells do not have.
    """
    known = {field.name for field in fields(Cell)}
    found = {}
    for part in text.split():
        key, sign, values = part.partition("=")
        if not sign or not values or key not in known:
            raise ValueError(f"Expected key=value,value with a key of {', '.join(sorted(known))}, found {part!r}.")
        found[key] = set(values.split(","))
    return found


def matches(cell: Cell, wanted: Mapping[str, set[str]]) -> bool:
    """Whether the cell has, for each key, one of the values; numbers are compared as numbers."""
    own = dict(cell.settings())
    return all(
        key in own
        and any(
            float(value) == own[key] if isinstance(own[key], float) and _is_number(value) else value == own[key]
            for value in values
        )
        for key, values in wanted.items()
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def chosen(cells: Iterable[Cell], filters: Sequence[str]) -> list[Cell]:
    """The cells that match one of the filters; all where there are none."""
    wanted = [parse_filter(text) for text in filters]
    return [cell for cell in cells if not wanted or any(matches(cell, one) for one in wanted)]


def read_cell(out: Path, cell: Cell) -> dict[str, Any] | None:
    """The finished cell; None where there is none, or a file that is no result."""
    try:
        found = json.loads((out / f"{cell.name}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("name") == cell.name else None


def write_cell(out: Path, cell: Cell, result: Mapping[str, Any]) -> None:
    """Write the file of a cell, whole or not at all."""
    write_json(out / f"{cell.name}.json", {"name": cell.name, **dict(cell.settings()), **result})


def remaining(cells: Sequence[Cell], out: Path) -> float:
    """Seconds that the unfinished cells will take, by the mean of the finished ones of their kind and corpus."""
    seconds: dict[tuple[str, str], list[float]] = {}
    left = []
    for cell in cells:
        done = read_cell(out, cell)
        if done is None:
            left.append(cell)
        else:
            seconds.setdefault((cell.kind, cell.dataset), []).append(float(done["seconds"]))
    means = {key: sum(values) / len(values) for key, values in seconds.items()}
    return sum(
        _OWN_GUESS if cell.row == OWN else means.get((cell.kind, cell.dataset), _GUESS[cell.kind]) for cell in left
    )


def same_settings(out: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the results in the folder were made with these settings, which are noted in a new folder."""
    path = out / "settings.json"
    if not path.exists():
        write_json(path, dict(settings))
    return bool(json.loads(path.read_text("utf-8")) == dict(settings))


def run_cell(cell: Cell, protocol: Protocol) -> dict[str, Any]:
    """The numbers of one cell."""
    found: dict[str, Any] = {"claimed": None, "true": None}
    spec = None
    if cell.clip is not None and cell.noise is not None:
        spec = protocol.spec(cell.clip, cell.noise, cell.variance or 0.0)
        noise = spec.vector_noise
        delta = spec.delta if cell.noise == "gaussian" else 0.0
        found = {"claimed": noise.claimed.epsilon, "true": noise.true_epsilon, "delta": delta}
    match cell.kind:
        case "model":
            return {**found, **protocol.model(cell.clip or 0.0)}
        case "baseline" if cell.row == "original":
            return {**found, **protocol.attacked(None)}
        case "baseline":
            return {**found, **protocol.baseline(cell.row or "")}
        case "label_only":
            claim = {"claimed": cell.epsilon, "true": cell.epsilon}
            return {**claim, **protocol.label_only(cell.row or "", cell.epsilon or 0.0)}
        case "candidates":
            claim = {"claimed": cell.epsilon, "true": cell.epsilon}
            return {**claim, **protocol.candidates(cell.epsilon or 0.0)}
        case "private_phrases":
            return {**found, **protocol.attacked(protocol.replacing(cell.variance or 0.0))}
        case "adept" if spec is not None:
            return {**found, **protocol.attacked(protocol.rewriting(spec))}
        case "longer":
            transform = None if spec is None else protocol.rewriting(spec)
            return {**found, **protocol.attacked(transform, times=LONGER)}
        case _:
            models: Literal["own", "one"] = "own" if cell.row == OWN else "one"
            transform = None if spec is None else protocol.rewriting(spec, models=models)
            return {**found, **protocol.likelihood_ratios(transform)}


def log(text: str) -> None:
    """A line with the time of day."""
    print(time.strftime("%H:%M:%S"), text, flush=True)


def run(cells: Sequence[Cell], out: Path, data: Path, settings: Settings) -> None:
    """Compute what is not there yet."""
    from protocol import Protocol

    protocols: dict[str, Protocol] = {}
    for cell in cells:
        if read_cell(out, cell) is not None:
            continue
        log(f"{cell.name} ... about {remaining(cells, out) / 60:.0f} minutes left")
        if cell.dataset not in protocols:
            protocols[cell.dataset] = Protocol(cell.dataset, data, out, settings, log)
        start, used = time.monotonic(), time.process_time()
        result = run_cell(cell, protocols[cell.dataset])
        took = {"seconds": time.monotonic() - start, "cpu_seconds": time.process_time() - used}
        write_cell(out, cell, {**result, **took})
    log("finished")


def show_samples(dataset: str, out: Path, data: Path, settings: Settings) -> None:
    """The paper's Table 1: some originals and what became of them. Passages of a corpus: not for the repository."""
    from protocol import Protocol

    protocol = Protocol(dataset, data, out, settings, log)
    some = protocol.members[:6]
    columns = {"original": [f"@{record.label} {record.text}" for record in some]}
    columns["private_phrases, 9"] = [release.output for release in protocol.replacing(9.0)(some, 0)]
    for clip, noise, variance in ((5.0, "gaussian", 0.25), (5.0, "laplace", 1.0), (1.0, "laplace", 0.25)):
        mechanism = protocol.auto_encoder(protocol.spec(clip, noise, variance), "target")
        from dptext.sampling.randomness import seeded

        released = mechanism.privatize(some, seeded(0))
        columns[f"ADePT C={clip:g} {noise} {variance:g}"] = [f"@{r.label} {r.output}" for r in released]
    for i in range(len(some)):
        print("\n".join(f"{name:32}{texts[i]}" for name, texts in columns.items()), end="\n\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen cells; 2 when the folder belongs to other settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/adept_paper"), help="folder of results and models")
    parser.add_argument("--only", action="append", default=[], metavar="FILTER", help="may be given again")
    parser.add_argument("--required", action="store_true", help="what the results page shows")
    parser.add_argument("--limit", type=int, default=0, help="distinct records of a corpus, for a trial run")
    parser.add_argument("--epochs", type=int, default=0, help="of the auto-encoder, for a trial run")
    parser.add_argument("--list", action="store_true", help="show the cells and which are finished")
    parser.add_argument("--samples", choices=DATASETS, help="print originals and outputs instead")
    given = parser.parse_args(arguments)
    data = data_folder()
    try:
        cells = chosen(every_cell(), [*given.only, *(REQUIRED if given.required else ())])
    except ValueError as error:
        parser.error(str(error))
    given.out.mkdir(parents=True, exist_ok=True)
    if given.list:
        for cell in cells:
            print("done" if read_cell(given.out, cell) else "    ", cell.name)
        print(f"about {remaining(cells, given.out) / 3600:.1f} hours left")
        return 0
    for name in DATASETS:
        corpus_file(name)
    import torch
    from protocol import Settings

    torch.set_num_threads(1)
    settings = Settings(limit=given.limit)
    if given.epochs:
        settings = Settings(limit=given.limit, auto_encoder=tuple((name, given.epochs) for name in DATASETS))
    if not same_settings(given.out, settings.to_dict()):
        print(f"Expected {given.out} to hold results of these settings: choose another --out.", file=sys.stderr)
        return 2
    if given.samples:
        show_samples(given.samples, given.out, data, settings)
    else:
        run(cells, given.out, data, settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
