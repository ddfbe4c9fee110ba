"""The estimators of Renyi divergence where the truth is known: derivations, "Estimators of divergence".

    python packages/lab/experiments/redaction/estimators.py --out build/redaction/estimators

Gaussian shifts, isotropic and anisotropic (one covariance, eigenvalues from 1 to 100), in 2, 16, 64 and 384 dimensions;
a bimodal pair; identical distributions; fully separated ones; 2,000 and 10,000 rows a set. Each cell is a JSON file in
--out, and cells that are there are not computed again. Ends with the table in Markdown (also --out/table.md): the mean
estimate over the seeds that are done, and its error relative to the truth.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.integrate import quad

from dptext.types import Floats
from dptext_lab.redaction.divergence.conversion import certify
from dptext_lab.redaction.divergence.density_ratio import RatioModel, cross_fit
from dptext_lab.redaction.divergence.renyi import gaussian, knn_count_ratio, knn_poczos_schneider

sys.path.append(str(Path(__file__).parents[1]))
from common import write_json

ALPHAS = (2.0, 5.0)
DIMENSIONS = (2, 16, 64, 384)
SIZES = (2_000, 10_000)
SEPARATED = 1e4
BIMODAL_SHIFT = 3.0
ESTIMATORS = ("kNN ratio (published)", "kNN k=5", "kNN k=20", "Gaussian", "logistic", "MLP", "default", "certified")


@dataclass(frozen=True, slots=True)
class Case:
    """A pair of distributions and how many rows are drawn of each."""

    name: str
    dim: int
    size: int
    squared: float  # D_2 of the shifts

    @property
    def key(self) -> str:
        """A name for files."""
        return f"{self.name}-d{self.dim}-n{self.size}-D{self.squared:g}"

    def truth(self, alpha: float) -> float:
        """D_alpha(P || Q)."""
        return bimodal_divergence(alpha) if self.name == "bimodal" else alpha / 2 * self.squared

    def draw(self, seed: int) -> tuple[Floats, Floats]:
        """Rows of P and of Q, turned by a random rotation."""
        rng = np.random.default_rng((seed, self.dim, self.size, round(self.squared)))
        first, second = rng.standard_normal((2, self.size, self.dim))
        direction = np.eye(self.dim)[0]
        if self.name == "anisotropic":
            direction = rng.standard_normal(self.dim)
            direction /= np.linalg.norm(direction)
        if self.name == "bimodal":
            first[:, 0] += BIMODAL_SHIFT * rng.choice([-1.0, 1.0], self.size)
            second[:, 0] *= math.sqrt(1 + BIMODAL_SHIFT**2)
        else:
            first += math.sqrt(self.squared) * direction
        if self.name == "anisotropic":
            scales = np.sqrt(np.geomspace(1, 100, self.dim))
            first, second = first * scales, second * scales
        turn = np.linalg.qr(rng.standard_normal((self.dim, self.dim)))[0]
        return first @ turn, second @ turn


def bimodal_divergence(alpha: float) -> float:
    """Of two unit normals at plus and minus 3, mixed evenly, from the normal with their mean and variance."""
    variance = 1 + BIMODAL_SHIFT**2

    def integrand(x: float) -> float:
        log_p = (
            np.logaddexp(-((x - BIMODAL_SHIFT) ** 2) / 2, -((x + BIMODAL_SHIFT) ** 2) / 2)
            - math.log(2)
            - math.log(2 * math.pi) / 2
        )
        log_q = -(x**2) / (2 * variance) - math.log(2 * math.pi * variance) / 2
        return float(np.exp(alpha * log_p + (1 - alpha) * log_q))

    return math.log(2 * quad(integrand, 0, 30, limit=200)[0]) / (alpha - 1)


def cases() -> Iterator[Case]:
    """All cases, small ones first."""
    for size in SIZES:
        for dim in DIMENSIONS:
            yield Case("identical", dim, size, 0.0)
            for squared in (1.0, 4.0):
                yield Case("isotropic", dim, size, squared)
                yield Case("anisotropic", dim, size, squared)
            yield Case("separated", dim, size, SEPARATED)
        yield Case("bimodal", 16, size, 0.0)


def estimate(case: Case, seed: int) -> dict[str, list[float]]:
    """The numbers of every estimator at the orders of `ALPHAS`."""
    first, second = case.draw(seed)
    found = {
        "kNN ratio (published)": knn_count_ratio(first, second, ALPHAS),
        "kNN k=5": knn_poczos_schneider(first, second, ALPHAS, neighbours=5),
        "kNN k=20": knn_poczos_schneider(first, second, ALPHAS, neighbours=20),
        "Gaussian": gaussian(first, second, ALPHAS),
        "logistic": cross_fit(first, second, model=RatioModel.LOGISTIC, folds=5, seed=seed).divergence(ALPHAS),
        "MLP": cross_fit(first, second, model=RatioModel.MLP, folds=5, seed=seed).divergence(ALPHAS),
    }
    found["default"] = np.maximum(found["Gaussian"], found["MLP"])
    bound = certify(first, second, ALPHAS, models=tuple(RatioModel), delta=8e-5, confidence=0.95, seed=seed)
    return {**{name: list(map(float, values)) for name, values in found.items()}, "certified": list(bound.forward)}


def table(out: Path) -> str:
    """The table of all cells that are there, averaged over the seeds."""
    lines = [
        "| pair | d | n | alpha | true | seeds | " + " | ".join(ESTIMATORS) + " |",
        "|" + "---|" * (6 + len(ESTIMATORS)),
    ]
    for case in cases():
        cells = [json.loads(path.read_text("utf-8")) for path in sorted(out.glob(f"{case.key}-s*.json"))]
        for i, alpha in enumerate(ALPHAS if cells else ()):
            truth = case.truth(alpha)
            shown = []
            for name in ESTIMATORS:
                mean = float(np.mean([cell["found"][name][i] for cell in cells]))
                error = f" ({100 * (mean / truth - 1):+.0f}%)" if truth else ""
                shown.append(f"{mean:.{2 if abs(mean) < 100 else 0}f}{error}")
            lines.append(
                f"| {case.name} | {case.dim} | {case.size:,} | {alpha:g} | {truth:.4g} | {len(cells)} | "
                + " | ".join(shown)
                + " |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compute the cells that are missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/redaction/estimators"))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for seed in range(given.seeds):
        for case in cases():
            path = given.out / f"{case.key}-s{seed}.json"
            if path.exists():
                continue
            began = time.perf_counter()
            cell = {"case": case.key, "seed": seed, "alphas": ALPHAS, "found": estimate(case, seed)}
            seconds = round(time.perf_counter() - began, 1)
            write_json(path, {**cell, "seconds": seconds})
            print(f"{path.stem}: {seconds} s", file=sys.stderr, flush=True)
    shown = table(given.out)
    (given.out / "table.md").write_text(shown, "utf-8")
    print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
