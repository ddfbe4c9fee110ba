"""The published ADePT noise on trial: counting, white box, reconstruction; its corrections beside it.

Needs no data. `python packages/lab/experiments/published_noise/trial.py OUT` writes tables (Markdown), rows (JSON
lines) and figures (SVG) into the folder OUT; about 20 minutes on one core, `--quick` about one minute.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from figures import Success, reconstruction_figure

from dptext import audits
from dptext.audits.figures import Bounds, bounds_figure
from dptext.mechanism import VectorNoise
from dptext.sampling.float_noise import Gaussian, L2Laplace
from dptext.sampling.grid_noise import GridLaplace
from dptext.sampling.privunit import PrivUnit
from dptext.sampling.randomness import seeded
from dptext.text.files import Target
from dptext_lab.adept.published_noise import ClassicalGaussian, PublishedLaplace

DELTA = 1e-5
SEED = 2021
MECHANISMS: dict[str, Callable[[float, int], VectorNoise]] = {
    "published Laplace": lambda epsilon, dim: PublishedLaplace(epsilon, dim, 1.0),
    "corrected Laplace": lambda epsilon, dim: GridLaplace(epsilon, dim, 1.0),
    "analytic Gaussian": lambda epsilon, dim: Gaussian(epsilon, DELTA, dim, 1.0),
    "PrivUnit": lambda epsilon, dim: PrivUnit(epsilon, dim, 1.0),
}
OTHERS: dict[str, Callable[[float, int], VectorNoise]] = {
    "classical Gaussian": lambda epsilon, dim: ClassicalGaussian(epsilon, DELTA, dim, 1.0),
    "L2-Laplace": lambda epsilon, dim: L2Laplace(epsilon, dim, 1.0),
}


def counting(out: Path, *, quick: bool) -> list[str]:
    """Lower bound against the number of runs, claimed epsilon 1 and 5, n = 64; all bounds hold together with 95%."""
    sizes = [500, 1000, 2000, 5000, 10_000] if quick else [500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]
    curves, rows = (
        [],
        ["| claimed epsilon | mechanism | runs | at least | ceiling | refuted |", "|---|---|---|---|---|---|"],
    )
    joint = 1 - 0.05 / (2 * len(MECHANISMS) * len(sizes))
    for epsilon in (1.0, 5.0):
        for name, make in MECHANISMS.items():
            noise = make(epsilon, 64)
            claim = audits.claim_of(noise)
            found = [
                audits.distinguish(noise, trials=size, confidence=joint, randomness=seeded(SEED + size))
                for size in sizes
            ]
            assert claim is not None
            curves.append(
                Bounds(
                    name,
                    tuple(sizes),
                    tuple(report.epsilon_lower_bound for report in found),
                    tuple(report.ceiling for report in found),
                    epsilon,
                )
            )
            for size, report in zip(sizes, found, strict=True):
                if size in (sizes[1], 20_000, sizes[-1]):
                    verdict = "**yes**" if report.refutes(claim) else "no"
                    rows.append(
                        f"| {epsilon:g} | {name} | {size:,} | {report.epsilon_lower_bound:.2f} | {report.ceiling:.2f} "
                        f"| {verdict} |"
                    )
    bounds_figure(curves, Target(out / "bound-against-runs.svg", force=True))
    return rows


def reading(*, quick: bool) -> list[str]:
    """The white box at claimed epsilon 1 to 50, n = 64."""
    rows = [
        "| claimed epsilon | mechanism | delta at that epsilon | delta allowed | epsilon at least | refuted |",
        "|---|---|---|---|---|---|",
    ]
    for epsilon in (1.0, 5.0, 10.0, 50.0):
        for name, make in {**MECHANISMS, **OTHERS}.items():
            noise = make(epsilon, 64)
            claim = audits.claim_of(noise)
            assert claim is not None
            report = audits.whitebox(noise, trials=20_000 if quick else 200_000, randomness=seeded(SEED))
            verdict = "**yes**" if report.refutes(claim) else "no"
            rows.append(
                f"| {epsilon:g} | {name} | {report.main.value:.3g} [{report.main.low:.3g}, {report.main.high:.3g}] "
                f"| {claim.delta:.2g} | {report.epsilon_lower_bound:.4g} | {verdict} |"
            )
    return rows


def guessing(out: Path, *, quick: bool) -> list[str]:
    """Reconstruction among 1,000 candidates."""
    epsilons, trials = (1.0, 5.0, 10.0, 20.0), 500 if quick else 5000
    rows = [
        "| n | epsilon | mechanism | top 1 | top 5 | top 10 | epsilon at least | refuted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    panels: dict[str, list[Success]] = {}
    (out / "reconstruction.jsonl").unlink(missing_ok=True)
    for dim in (16, 64) if quick else (16, 64, 256):
        pool = audits.random_candidates(1000, dim=dim, clip_norm=1.0, randomness=seeded(SEED))
        for name, make in MECHANISMS.items():
            shares, bounds = [], []
            for epsilon in epsilons:
                noise = make(epsilon, dim)
                began = time.monotonic()
                found = audits.reconstruct(noise, pool, trials=trials, randomness=seeded(SEED + 1))
                claim = audits.claim_of(noise)
                assert claim is not None
                shares.append(found.tops[0].success)
                bounds.append(float(found.tops[0].allowed))
                refuted = found.refutes(claim)
                cells = " | ".join(
                    f"{top.success.value:.4f} [{top.success.low:.4f}, {top.success.high:.4f}] of {top.allowed:.4f}"
                    for top in found.tops
                )
                rows.append(
                    f"| {dim} | {epsilon:g} | {name} | {cells} | {found.report.epsilon_lower_bound:.2f} "
                    f"| {'**yes**' if refuted else 'no'} |"
                )
                with (out / "reconstruction.jsonl").open("a", encoding="utf-8") as file:
                    line = {"mechanism": name, "epsilon": epsilon, "n": dim, "seconds": time.monotonic() - began}
                    file.write(json.dumps({**line, "tops": [top.to_dict() for top in found.tops]}) + "\n")
            panels.setdefault(f"n = {dim}", []).append(Success(name, epsilons, tuple(shares), tuple(bounds)))
    reconstruction_figure(panels, Target(out / "reconstruction.svg", force=True))
    return rows


def main() -> None:
    """Run all three and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    parser.add_argument("--only", choices=("counting", "reading", "guessing"), help="one of the three")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    parts = {
        "counting": lambda: counting(out, quick=arguments.quick),
        "reading": lambda: reading(quick=arguments.quick),
        "guessing": lambda: guessing(out, quick=arguments.quick),
    }
    for name in [arguments.only] if arguments.only else list(parts):
        (out / f"{name}.md").write_text("\n".join(parts[name]()) + "\n", "utf-8")
        print(f"written: {out / name}.md")


if __name__ == "__main__":
    main()
