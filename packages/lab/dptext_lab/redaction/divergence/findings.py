"""Findings of a comparison of two sets of texts, as data, as JSON and as a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dptext._wording import markdown_table
from dptext.audits.report import Result, signature_line
from dptext.estimates import Estimate
from dptext.types import Floats, Json, jsonable
from dptext_lab.redaction.divergence.conversion import CLAIMS, CertifiedBound, Direct, Line

#: Names of the estimators, in the order of the table.
PUBLISHED: Final = "kNN count ratio (published)"
NEAREST: Final = "kNN, Poczos and Schneider"
GAUSSIAN: Final = "Gaussian, pooled, debiased"
LOGISTIC_RATIO: Final = "logistic ratio, cross-fitted"
MLP_RATIO: Final = "MLP ratio, cross-fitted"
DEFAULT: Final = "default: larger of Gaussian and trimmed MLP"
ESTIMATORS: Final = (PUBLISHED, NEAREST, GAUSSIAN, LOGISTIC_RATIO, MLP_RATIO, DEFAULT)

#: Names of the conversions to an epsilon.
DIRECT: Final = "direct"
CHEAPEST: Final = "cheapest line"
PAPER: Final = "paper line"
PAPER_WHOLE: Final = "paper line on the published estimate"
WAYS: Final = (DIRECT, CHEAPEST, PAPER, PAPER_WHOLE)

#: Notes of every report.
MEANING: Final = (
    "An empirical estimate of, and a certified lower bound on, leakage in this embedding: NOT an upper bound, not "
    "differential privacy."
)
TEXT: Final = "Texts can differ where their vectors do not: the divergence of texts is at least that of vectors."
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
class Tested(Result):
    """A measured number, with the same number under the null.

    A divergence may be estimated below 0. `null` is the mean of the number over random relabellings of the records,
    with models trained anew. `p_value` is the share of labellings, the true labelling counted, whose number is at least
    as large.
    """

    estimate: Estimate
    null: float
    p_value: float

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data."""
        return {**self.estimate.to_dict(), "null": jsonable(self.null), "p_value": self.p_value}


@dataclass(frozen=True, slots=True)
class Curve(Result):
    """Divergences of one estimator.

    `forward` is D_alpha(first || second) for each order, `backward` the reverse, `larger` the larger direction, with
    interval and null. `rises` says that neither direction falls; no true curve falls. `largest` is the share of one
    record in the sum behind each larger value, for learned ratios; empty for other estimators.
    """

    name: str
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    larger: tuple[Tested, ...]
    rises: bool
    largest: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Consistency(Result):
    """An attack beside the epsilons.

    `accuracy` is how often the attack is right, both sets equally likely. This accuracy needs an epsilon of `needs` at
    delta, and the lower end of its interval an epsilon of `needs_surely`. `below` and `surely_below` name the epsilons
    that are smaller.
    """

    attack: str
    accuracy: Estimate
    needs: float
    needs_surely: float
    below: tuple[str, ...]
    surely_below: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DivergenceReport(Result):
    """The distance of two sets in one embedding. The report shows no text.

    `curves` has a curve for each estimator, the default last, and `epsilons` an epsilon of the default curve by each
    conversion: "direct", the headline, the cheapest line above the curve, and the published line. The certified bounds
    hold with confidence. `checks` are attacks beside the epsilons. `delta` is of all epsilons, trimmed records
    included. If `is_separated`, a model told all unseen records apart, and every number is a lower value.

    `plane` holds the first two components of either set, `(n, 2)`, for a figure. They are as private as the sets and
    not in the JSON: anybody with a candidate text can look for its point.
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

    LEFT_OUT = ("epsilons", "conversion", "cheapest", "paper", "delta", "plane")

    @property
    def epsilon(self) -> Estimate:
        """The direct conversion of the default curve, with its interval."""
        return self.epsilons[DIRECT].estimate

    def curve(self, name: str) -> Curve:
        """Return the curve of an estimator; KeyError for an unknown name."""
        return {curve.name: curve for curve in self.curves}[name]

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data, without anything about single records."""
        epsilon = self.epsilon.to_dict()
        lines = {DIRECT: self.conversion, CHEAPEST: self.cheapest, PAPER: self.paper}
        return {
            "attack": "divergence",
            "meaning": MEANING,
            "epsilon": {name: epsilon[name] for name in ("value", "low", "high")},
            "delta": self.delta,
            "confidence": self.epsilon.confidence,
            "epsilons": {name: {**found.to_dict(), "claims": _claim(name)} for name, found in self.epsilons.items()},
            "lines": {name: line.to_dict() for name, line in lines.items()},
            **Result.to_dict(self),
        }

    def to_markdown(self) -> str:
        """Return tables in Markdown, between a line on the compared sets and the notes."""
        confidence = 100 * self.epsilon.confidence
        head = ["D_alpha (larger direction)", *(f"alpha {alpha:g}" for alpha in self.alphas)]
        certified, p = f"certified, at least ({confidence:g}%)", "{:.2g}".format
        rows = [[curve.name, *map(_cell, curve.larger)] for curve in self.curves]
        rows.append([certified, *map(three_digits, self.certified.divergences)])
        tested = self.epsilons.items()
        ways = [[name, _cell(e), three_digits(e.null), p(e.p_value), _claim(name)] for name, e in tested]
        certain = "holds for the vectors of records that were drawn independently"
        ways.append([certified, three_digits(self.certified.epsilon), "", "", certain])
        lines = [
            f"{self.records[0]:,} against {self.records[1]:,} records; intervals at {confidence:g}%.",
            "",
            *markdown_table(head, rows),
            "",
            *markdown_table([f"epsilon at delta {self.delta:g}", "value", "null", "p", "what it may claim"], ways),
            "",
            *(_said(check) for check in self.checks),
            *self.notes,
            signature_line(self.signature),
        ]
        return "\n".join(lines) + "\n"


def _claim(way: str) -> str:
    return CLAIMS[PAPER if way == PAPER_WHOLE else way]


def _said(check: Consistency) -> str:
    said = f"{check.attack} is right for {check.accuracy}, which needs an epsilon of {three_digits(check.needs)}."
    if check.below:
        said += f" BELOW that, and so too small: {', '.join(check.below)}"
        said += f" (surely: {', '.join(check.surely_below)})." if check.surely_below else " (within chance)."
    return said


def _cell(found: Tested) -> str:
    estimate = found.estimate
    return f"{three_digits(estimate.value)} [{three_digits(estimate.low)}, {three_digits(estimate.high)}]"


def three_digits(value: float) -> str:
    """Format a number with two digits after the point, or with three digits in all from 100 on."""
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.3g}"
