"""What the divergence audit found, as data, as JSON and as a table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dptext.audits.divergence.density_ratio import CertifiedBound
from dptext.audits.divergence.epsilon import CLAIMS, Direct, Line
from dptext.estimates import Estimate
from dptext.types import Floats, Json

#: The estimators, in the order of the table.
PUBLISHED: Final = "kNN count ratio (published)"
NEAREST: Final = "kNN, Poczos and Schneider"
GAUSSIAN: Final = "Gaussian, pooled, debiased"
LOGISTIC: Final = "logistic ratio, cross-fitted"
MLP: Final = "MLP ratio, cross-fitted"
DEFAULT: Final = "default: larger of Gaussian and MLP"

#: The ways to an epsilon.
DIRECT: Final = "direct"
CHEAPEST: Final = "cheapest line"
PAPER: Final = "paper line"
PAPER_WHOLE: Final = "paper line on the published estimate"

#: The notes that every report has.
MEANING: Final = (
    "An empirical estimate of, and a certified lower bound on, leakage in this embedding: NOT an upper bound, not "
    "differential privacy."
)
TEXT: Final = (
    "Texts can differ where their vectors do not: the divergence of the texts is at least that of the vectors."
)
ONE_DRAW: Final = (
    "It speaks of one text drawn from either set. n texts of one source diverge up to n times as much, and there is no "
    "neighbouring record in it."
)
INTERVALS: Final = (
    "Intervals are of the scatter of the records; they do not hold the bias of an estimator, and models are not "
    "trained anew for them. 0 is in an interval wherever relabelled records look as different (p > 5% "
    "at 95%). The certified bound takes records as drawn independently; several from one document are not."
)


@dataclass(frozen=True, slots=True)
class Tested:
    """A measured number beside what it is where there is nothing to find.

    Attributes:
        estimate: the number with its interval; a divergence may be estimated below 0.
        null: its mean over random relabellings of the records, models trained anew.
        p_value: share of the relabellings, this labelling counted, that give as much.
    """

    estimate: Estimate
    null: float
    p_value: float

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {**self.estimate.to_dict(), "null": number(self.null), "p_value": self.p_value}


@dataclass(frozen=True, slots=True)
class Curve:
    """Divergences of one estimator.

    Attributes:
        name: of the estimator.
        forward: D_alpha(first || second) for each order.
        backward: D_alpha(second || first).
        larger: the larger direction, with interval and null.
        rises: whether neither direction falls; no true curve does.
    """

    name: str
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    larger: tuple[Tested, ...]
    rises: bool

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "name": self.name,
            "forward": [number(value) for value in self.forward],
            "backward": [number(value) for value in self.backward],
            "larger": [{**found.to_dict()} for found in self.larger],
            "rises": self.rises,
        }


@dataclass(frozen=True, slots=True)
class Consistency:
    """An attack beside the epsilons.

    Attributes:
        attack: what was right so often.
        accuracy: of it, both sets equally likely.
        needs: the epsilon that this accuracy needs at delta.
        needs_surely: that of the lower end of its interval.
        below: names of epsilons below `needs`.
        surely_below: those below `needs_surely`.
    """

    attack: str
    accuracy: Estimate
    needs: float
    needs_surely: float
    below: tuple[str, ...]
    surely_below: tuple[str, ...]

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "attack": self.attack,
            "accuracy": {**self.accuracy.to_dict()},
            "needs": number(self.needs),
            "needs_surely": number(self.needs_surely),
            "below": list(self.below),
            "surely_below": list(self.surely_below),
        }


@dataclass(frozen=True, slots=True)
class DivergenceReport:
    """How far two sets are apart in one embedding. It shows no text.

    Attributes:
        alphas: the orders.
        curves: one for each estimator, the default last.
        epsilons: by the way from the curve; "direct" is the headline.
        conversion: the direct conversion of the default curve.
        cheapest: its cheapest line above.
        paper: its published line.
        certified: lower bounds that hold with confidence.
        checks: attacks beside the epsilons.
        delta: of all epsilons.
        is_separated: whether a model told all unseen records apart: then no number is more than a lower value.
        records: of either set.
        plane: the first two components of either set, for a figure, which is as private as the sets:
            a point a record, so that who has a candidate text can look whether its point is there. Not in the JSON.
        notes: what a reader must know.
        signature: the settings that made the numbers.
    """

    alphas: tuple[float, ...]
    curves: tuple[Curve, ...]
    epsilons: Mapping[str, Tested] = field(hash=False)
    conversion: Direct
    cheapest: Line
    paper: Line
    certified: CertifiedBound
    checks: tuple[Consistency, ...]
    delta: float
    is_separated: bool
    records: tuple[int, int]
    plane: tuple[Floats, Floats] = field(repr=False, hash=False, compare=False)
    notes: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(default_factory=dict, hash=False)

    @property
    def epsilon(self) -> Estimate:
        """The direct conversion of the default curve, with its interval."""
        return self.epsilons[DIRECT].estimate

    def curve(self, name: str) -> Curve:
        """The curve of an estimator.

        Raises:
            KeyError: there is none of this name.
        """
        return {curve.name: curve for curve in self.curves}[name]

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of single records."""
        epsilon = self.epsilon.to_dict()
        return {
            "attack": "divergence",
            "meaning": MEANING,
            "epsilon": {name: epsilon[name] for name in ("value", "low", "high")},
            "delta": self.delta,
            "confidence": self.epsilon.confidence,
            "epsilons": {
                name: {**found.to_dict(), "claims": CLAIMS["paper line" if name == PAPER_WHOLE else name]}
                for name, found in self.epsilons.items()
            },
            "lines": {
                DIRECT: self.conversion.to_dict(),
                CHEAPEST: self.cheapest.to_dict(),
                PAPER: self.paper.to_dict(),
            },
            "alphas": list(self.alphas),
            "curves": [curve.to_dict() for curve in self.curves],
            "certified": self.certified.to_dict(),
            "checks": [check.to_dict() for check in self.checks],
            "is_separated": self.is_separated,
            "records": list(self.records),
            "notes": list(self.notes),
            "signature": dict(self.signature),
        }

    def to_markdown(self) -> str:
        """Tables in Markdown between what was compared and what to know when reading it."""
        confidence = 100 * self.epsilon.confidence
        head = ["D_alpha (larger direction)", *(f"alpha {alpha:g}" for alpha in self.alphas)]
        rows = [[curve.name, *(_cell(found) for found in curve.larger)] for curve in self.curves]
        rows.append([f"certified, at least ({confidence:g}%)", *(short(value) for value in self.certified.divergences)])
        ways = [
            [
                name,
                _cell(found),
                short(found.null),
                f"{found.p_value:.2g}",
                CLAIMS[PAPER if name == PAPER_WHOLE else name],
            ]
            for name, found in self.epsilons.items()
        ]
        ways.append(
            [
                f"certified, at least ({confidence:g}%)",
                short(self.certified.epsilon),
                "",
                "",
                "holds for the vectors of records that were drawn independently",
            ]
        )
        lines = [
            f"{self.records[0]:,} against {self.records[1]:,} records; intervals at {confidence:g}%.",
            "",
            *_table(head, rows),
            "",
            *_table([f"epsilon at delta {self.delta:g}", "value", "null", "p", "what it may claim"], ways),
            "",
            *(_said(check) for check in self.checks),
            *self.notes,
            "[" + "|".join(f"{key}:{json.dumps(value)}" for key, value in self.signature.items()) + "]",
        ]
        return "\n".join(lines) + "\n"


def _said(check: Consistency) -> str:
    said = f"{check.attack} is right for {check.accuracy}, which needs an epsilon of {short(check.needs)}."
    if check.below:
        said += f" BELOW that, and so too small: {', '.join(check.below)}"
        said += f" (surely: {', '.join(check.surely_below)})." if check.surely_below else " (within chance)."
    return said


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (head, ["-" * width for width in widths], *rows)
    ]


def _cell(found: Tested) -> str:
    estimate = found.estimate
    return f"{short(estimate.value)} [{short(estimate.low)}, {short(estimate.high)}]"


def short(value: float) -> str:
    """Three digits, and no more than two after the point."""
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.3g}"


def number(value: float) -> float | str:
    """For JSON, which has no infinity."""
    return str(value) if math.isinf(value) else value
