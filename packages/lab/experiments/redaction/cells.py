"""The cells that grid.py finished, and their tables."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, Literal

from dptext.audits.bounds import accuracy_implies
from dptext.estimates import Estimate
from dptext_lab.redaction.divergence.conversion import DELTA
from dptext_lab.redaction.divergence.findings import CHEAPEST, DEFAULT, DIRECT, PAPER, PAPER_WHOLE, PUBLISHED
from dptext_lab.redaction.trait import LINEAR, TFIDF

Mode = Literal["random", "smart"]
MODES: tuple[Mode, ...] = ("random", "smart")
LEVELS = tuple(i / 10 for i in range(10))
PLANE_LEVELS = (0.0, 0.5, 0.9)
CONFIDENCE = 0.95
TRANSFORMER = "transformer, adaptive"
TARGET = 0.65
WAYS = (DIRECT, CHEAPEST, PAPER, PAPER_WHOLE)
ATTACKERS = (f"{TFIDF}, static", f"{TFIDF}, adaptive", f"{LINEAR}, static", f"{LINEAR}, adaptive", TRANSFORMER)


def estimate(found: dict[str, Any]) -> Estimate:
    """An estimate from JSON."""
    return Estimate(*(float(found[key]) for key in ("value", "low", "high", "confidence")))


class Cells:
    """What is finished of a pair. At level 0 both ways to redact do nothing, so they share the cells of random."""

    def __init__(self, out: Path, pair: str) -> None:
        self.folder, self.pair = out / pair, pair

    def get(self, mode: Mode, level: float, part: str) -> dict[str, Any] | None:
        """A cell, or None."""
        path = self.folder / f"{mode if level else 'random'}-{level:.1f}.{part}.json"
        found: dict[str, Any] | None = json.loads(path.read_text("utf-8")) if path.exists() else None
        return found

    def levels(self, mode: Mode, part: str) -> list[float]:
        """The levels that are finished."""
        return [level for level in LEVELS if self.get(mode, level, part)]

    def curve(self, mode: Mode, level: float, embedding: str, name: str, alpha: float = 2.0) -> dict[str, Any] | None:
        """The divergence of an order by an estimator, the larger direction."""
        cell = self.get(mode, level, embedding)
        if cell is None:
            return None
        curves = {curve["name"]: curve for curve in cell["report"]["curves"]}
        found: dict[str, Any] = curves[name]["larger"][cell["report"]["alphas"].index(alpha)]
        return found

    def certified(self, mode: Mode, level: float, embedding: str, alpha: float = 2.0) -> float:
        """The lower bound at 95% on the divergence of an order."""
        cell = self.get(mode, level, embedding)
        assert cell is not None
        bound, at = cell["certified"], cell["certified"]["alphas"].index(alpha)
        return float(max(bound["forward"][at], bound["backward"][at]))

    def accuracies(self, mode: Mode, level: float) -> dict[str, Estimate]:
        """The accuracy of every attacker that is finished."""
        found = {}
        if cell := self.get(mode, level, "attack"):
            found = {row["name"]: estimate(row["accuracy"]) for row in cell["report"]["attacks"]}
        if cell := self.get(mode, level, "transformer"):
            found[TRANSFORMER] = estimate(cell["accuracy"])
        return found

    def reached(self, mode: Mode, attacker: str, target: float = TARGET) -> float | None:
        """The level at which the accuracy first falls to the target, interpolated."""
        points = [(level, self.accuracies(mode, level).get(attacker)) for level in LEVELS]
        shown = [(level, found.value) for level, found in points if found is not None]
        for (a, high), (b, low) in itertools.pairwise(shown):
            if high > target >= low:
                return a + (b - a) * (high - target) / (high - low)
        return None


def number(value: Any) -> str:
    """Two digits after the point."""
    return "-" if value is None else f"{float(value):.2f}"


def interval(found: dict[str, Any] | None) -> str:
    """Value, interval and null."""
    if found is None:
        return "-"
    ends = ", ".join(number(found[key]) for key in ("low", "high"))
    return f"{number(found['value'])} [{ends}] ({number(found['null'])})"


def flags(cells: Cells, mode: Mode, level: float, embedding: str) -> list[str]:
    """Epsilons that the best attack refutes, by its accuracy; "!" where the low end of its interval does so, too."""
    cell, accuracies = cells.get(mode, level, embedding), cells.accuracies(mode, level)
    if cell is None or not accuracies:
        return []
    best = max(accuracies.values(), key=lambda found: found.value)
    found = []
    for way in WAYS:
        epsilon = float(cell["report"]["epsilons"][way]["value"])
        if epsilon < accuracy_implies(best.value, delta=DELTA):
            found.append(way + "!" * (epsilon < accuracy_implies(best.low, delta=DELTA)))
    return found


def table(cells: Cells, embedding: str) -> str:
    """Three tables: divergence and epsilon, attacks, and where attacks reach the target."""
    head = ["mode", "level", "D_2 (null)", "D_2 published (null)", "D_2 at least", *WAYS, "epsilon at least"]
    head += ["best attack needs", "too small"]
    lines = [f"{cells.pair}, {embedding}:", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for mode in MODES:
        for level in cells.levels(mode, embedding):
            cell = cells.get(mode, level, embedding)
            assert cell is not None
            accuracies = cells.accuracies(mode, level)
            best = max((found.value for found in accuracies.values()), default=None)
            row = [
                mode,
                f"{level:g}",
                *(interval(cells.curve(mode, level, embedding, name)) for name in (DEFAULT, PUBLISHED)),
                number(cells.certified(mode, level, embedding)),
                *(number(cell["report"]["epsilons"][way]["value"]) for way in WAYS),
                number(cell["certified"]["epsilon"]),
                "-" if best is None else number(accuracy_implies(best, delta=DELTA)),
                "; ".join(flags(cells, mode, level, embedding)) or "-",
            ]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def attack_table(cells: Cells) -> str:
    """Accuracies by level, and the levels of the target."""
    lines = [
        f"{cells.pair}, accuracy:",
        "",
        f"| mode | level | {' | '.join(ATTACKERS)} | similarity |",
        "|" + "---|" * (3 + len(ATTACKERS)),
    ]
    for mode in MODES:
        for level in cells.levels(mode, "attack"):
            cell, found = cells.get(mode, level, "attack"), cells.accuracies(mode, level)
            assert cell is not None
            shown = [
                f"{found[a].value:.3f} [{found[a].low:.3f}, {found[a].high:.3f}]" if a in found else "-"
                for a in ATTACKERS
            ]
            similarity = cell["report"]["attacks"][0]["similarity"]["value"]
            lines.append(f"| {mode} | {level:g} | {' | '.join(shown)} | {similarity:.3f} |")
    lines += ["", f"| accuracy {TARGET} is reached at level | random | smart |", "|---|---|---|"]
    for attacker in ATTACKERS[1::2]:
        at = [cells.reached(mode, attacker) for mode in MODES]
        lines.append(f"| {attacker} | {' | '.join(number(level) for level in at)} |")
    return "\n".join(lines)
