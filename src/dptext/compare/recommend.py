"""Which mechanism to take: the rows of a measured table that keep something under the guarantee that is asked for.

A row is in question where its guarantee is proven or conditional, speaks of the unit asked for and of no distance, and
costs at most the epsilon and the delta asked for (a delta above 1e-3 protects nobody). It is recommended only where the
outputs say more of their own originals than those that read no text: the low end of its `fidelity.cosine` must be above
the high ends of *public-only* and, where the corpus has labels, of every *label_only* that could be had for the
epsilon asked for (for another unit than documents: for the epsilon of a document that the row comes to). Trials must
all pass, no audit may refute the claim, and where the task is to classify, public text must not be classified better.

The number of the task decides between those that qualify, but only where its intervals are apart: texts made of
public text alone are often classified as well as any. Where they overlap, what keeps more of the originals comes first.

The table that comes with the package is measured, by `dptext compare`, and cut down by `reduced`.
"""

from __future__ import annotations

import importlib.resources
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from dptext import _validate
from dptext.compare.table import read_json
from dptext.errors import ConfigError
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Unit, format_delta, format_epsilon
from dptext.text.inputs import parse_json
from dptext.types import Json
from dptext.utility.tables import PUBLIC_ONLY

Task = Literal["classification", "meaning", "authorship"]

#: For each task the metrics that it is judged by, the first that was measured, and whether more is better.
TASKS: Final[Mapping[str, tuple[tuple[str, ...], bool]]] = {
    "classification": (("classification.accuracy",), True),
    "meaning": (("fidelity.cosine",), True),
    "authorship": (("authorship.adaptive", "authorship.static"), False),
}
FIDELITY: Final = "fidelity.cosine"
LABEL_ONLY: Final = "label_only"
#: The table of the package, and how it is made anew.
MEASURED: Final = "measured.json"
MADE_BY: Final = "dptext compare EXPERIMENT.toml --out DIR; dptext recommend --table DIR --reduce FILE"

_KEPT: Final = (
    "corpus", "row", "kind", "settings", "trial", "unit", "relation", "epsilon", "delta", "metric_privacy", "basis",
    "document_epsilon", "metric", "value", "low", "high", "error",
)  # fmt: skip
_METRICS: Final = (
    FIDELITY,
    "classification.accuracy_true_labels",
    *(metric for metrics, _ in TASKS.values() for metric in metrics),
)
_TRUE_LABELS: Final = "_true_labels"  # of a classifier that learned from the labels of the originals
_REFUTED: Final = ".refuted"  # how the metrics end whose 1 says that an audit refutes the claim
_ROUNDING: Final = 1e-6  # calibration ends a little below what is asked


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted.

    Attributes:
        unit: of privacy.
        epsilon: at most.
        delta: at most.
        task: what the releases are for: "classification", "meaning", or "authorship" (that it stays hidden).
    """

    unit: Unit
    epsilon: float
    delta: float
    task: str

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.probability(delta=self.delta)
        if self.task not in TASKS:
            raise ConfigError(f"Expected task={self.task!r} to be one of {', '.join(TASKS)}.")

    @property
    def largest_delta(self) -> float:
        """Of a guarantee that does."""
        return min(self.delta, MAX_MEANINGFUL_DELTA)


@dataclass(frozen=True, slots=True)
class Interval:
    """A number over all trials: the mean value, the lowest low and the highest high end."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of one corpus, all its trials together.

    Attributes:
        corpus, row, kind, settings: as in the table.
        unit, basis, metric_privacy: of its guarantee.
        epsilon, delta: of its guarantee; None where there is none.
        document_epsilon: lifted to a document; None likewise.
        numbers: by metric; those that every trial has.
        error: why a trial failed; empty where none did.
        refuted: the audits that refute its claim, in any trial.
    """

    corpus: str
    row: str
    kind: str
    settings: str
    unit: str
    basis: str
    metric_privacy: str | None
    epsilon: float | None
    delta: float | None
    document_epsilon: float | None
    numbers: Mapping[str, Interval]
    error: str
    refuted: tuple[str, ...] = ()

    def guaranteed(self) -> str:
        """Its guarantee in a few words."""
        if self.epsilon is None:
            return "no guarantee"
        delta = f", delta {format_delta(self.delta)}" if self.delta else ""
        per = f" per unit of {self.metric_privacy}" if self.metric_privacy else ""
        return f"epsilon {format_epsilon(self.epsilon)}{per}{delta} per {self.unit}, {self.basis}"

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "corpus": self.corpus,
            "row": self.row,
            "kind": self.kind,
            "settings": _parsed(self.settings),
            "unit": self.unit,
            "basis": self.basis,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "numbers": {name: [found.value, found.low, found.high] for name, found in self.numbers.items()},
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one row.

    Attributes:
        row: the row.
        reasons: why it is not recommended, in words; none where it is.
        eligible: whether its guarantee is the one asked for, whatever it keeps.
        beaten: the references that it is above, with their fidelity.
    """

    row: Measured
    reasons: tuple[str, ...]
    eligible: bool = True
    beaten: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer for one corpus: the first of the rows that qualify, if any does.

    Attributes:
        corpus: its name.
        metric: that the task was judged by there; empty where it was not measured.
        public: what *public-only* reaches in it, which reads nothing private; None where that was not measured.
        qualified: best first.
        rejected: all other rows with a mechanism that reads more than the label.
    """

    corpus: str
    metric: str
    public: Interval | None
    qualified: tuple[Verdict, ...]
    rejected: tuple[Verdict, ...]


def recommend(rows: Iterable[Mapping[str, Json]], asked: Asked) -> list[Recommendation]:
    """The answer for every corpus of a table.

    Args:
        rows: of `dptext compare`.
        asked: what is wanted.

    Raises:
        ConfigError: rows that are none.
    """
    found = gathered(rows)
    return [
        _recommended(corpus, [row for row in found if row.corpus == corpus], asked)
        for corpus in dict.fromkeys(row.corpus for row in found)
    ]


def _recommended(corpus: str, rows: Sequence[Measured], asked: Asked) -> Recommendation:
    metrics, more = TASKS[asked.task]
    metric = next((name for name in metrics if any(name in row.numbers for row in rows)), "")
    references = [row for row in rows if row.row == PUBLIC_ONLY or _is_label_only(row)]
    verdicts = [_judged(row, references, asked, metric) for row in rows if row.kind and not _is_label_only(row)]
    good = [verdict for verdict in verdicts if not verdict.reasons]
    good.sort(key=lambda verdict: -verdict.row.numbers[metric].value if more else verdict.row.numbers[metric].value)
    tied = [verdict for verdict in good if _overlap(verdict.row.numbers[metric], good[0].row.numbers[metric])]
    tied.sort(key=lambda verdict: (-verdict.row.numbers[FIDELITY].value, verdict.row.epsilon))
    good = [*tied, *(verdict for verdict in good if verdict not in tied)]
    public = next((row.numbers.get(metric) for row in references if row.row == PUBLIC_ONLY), None)
    return Recommendation(corpus, metric, public, tuple(good), tuple(v for v in verdicts if v.reasons))


def _overlap(one: Interval, other: Interval) -> bool:
    return one.low <= other.high and other.low <= one.high


def _is_label_only(row: Measured) -> bool:
    """Whether it is one of the references that come with every table; a user's row may have the kind, too."""
    return row.kind == LABEL_ONLY


def _affordable(row: Measured, epsilon: float) -> bool:
    return row.epsilon is not None and row.epsilon <= epsilon * (1 + _ROUNDING)


def _judged(row: Measured, references: Sequence[Measured], asked: Asked, metric: str) -> Verdict:
    reasons = [*_guarantee_faults(row, asked)]
    eligible = not reasons
    if row.refuted:
        reasons.append(f"its claim is refuted by the audit {', '.join(row.refuted)}")
    if row.error:
        reasons.append(f"it failed: {row.error}")
        return Verdict(row, tuple(reasons), eligible)
    if f"{metric}{_TRUE_LABELS}" in row.numbers:
        reasons.append("it releases no labels: a classifier has to learn from those of the originals, unprotected")
    elif not metric or metric not in row.numbers:
        reasons.append(f"nothing was measured for the task {asked.task} ({metric or TASKS[asked.task][0][0]})")
    if FIDELITY not in row.numbers:
        reasons.append(f"its fidelity ({FIDELITY}) was not measured")
        return Verdict(row, tuple(reasons), eligible)
    known = _comparable(row, references, asked)
    public = next((other for other in known if other.row == PUBLIC_ONLY), None)
    if public is None:
        reasons.append(f"the table has no {FIDELITY} of {PUBLIC_ONLY} to compare it with")
    elif asked.task == "classification" and metric in row.numbers and metric in public.numbers:
        own, free = row.numbers[metric], public.numbers[metric]
        if own.high < free.low:
            reasons.append(f"its {metric} {own} is below that of {PUBLIC_ONLY}, {free}")
    if any(map(_is_label_only, references)) and not any(map(_is_label_only, known)):
        reasons.append(f"the table has no {FIDELITY} of {LABEL_ONLY} at so small an epsilon to compare it with")
    if known:
        hardest = max(known, key=lambda other: other.numbers[FIDELITY].high)
        if row.numbers[FIDELITY].low <= hardest.numbers[FIDELITY].high:
            reasons.append(
                f"its fidelity {row.numbers[FIDELITY]} is not above that of {_named(hardest)}, "
                f"{hardest.numbers[FIDELITY]}"
            )
    return Verdict(row, tuple(reasons), eligible, tuple(known))


def _comparable(row: Measured, references: Sequence[Measured], asked: Asked) -> list[Measured]:
    """The references with a fidelity that cost a document no more."""
    lifted = math.inf if row.document_epsilon is None else row.document_epsilon
    most = asked.epsilon if asked.unit is Unit.DOCUMENT else lifted
    return [
        other
        for other in references
        if FIDELITY in other.numbers and (other.row == PUBLIC_ONLY or _affordable(other, most))
    ]


def _named(row: Measured) -> str:
    return row.row if not row.epsilon else f"{row.row} at epsilon {format_epsilon(row.epsilon)}"


def _guarantee_faults(row: Measured, asked: Asked) -> Iterable[str]:
    if row.error and row.epsilon is None:
        return
    if row.basis not in (Basis.PROVEN, Basis.CONDITIONAL) or row.epsilon is None:
        yield f"its basis is {row.basis or 'none'}: nothing is guaranteed"
        return
    if row.metric_privacy is not None:
        yield f"its epsilon is per unit of {row.metric_privacy}: neighbours that are far apart are hardly protected"
    if row.unit != asked.unit:
        lifted = row.document_epsilon
        known = f"; read for a document it is epsilon {format_epsilon(lifted)}" if lifted is not None else ""
        known = "; that says more: ask for --unit document" if row.unit == Unit.DOCUMENT else known
        yield f"its guarantee is per {row.unit}, not per {asked.unit}{known}"
    elif not _affordable(row, asked.epsilon):
        yield f"its epsilon {format_epsilon(row.epsilon)} is above {asked.epsilon:g}"
    if (row.delta or 0.0) > asked.largest_delta:
        yield f"its delta {format_delta(row.delta or 0.0)} is above {asked.largest_delta:g}"


# ----------------------------------------------------------------------------------------------- the table


def gathered(rows: Iterable[Mapping[str, Json]]) -> list[Measured]:
    """The rows of a table, one for each corpus, name and guarantee, their trials and metrics together.

    Raises:
        ConfigError: rows that are none.
    """
    groups: dict[tuple[str, ...], list[Mapping[str, Json]]] = {}
    try:
        for row in rows:
            groups.setdefault((str(row["corpus"]), str(row["row"]), str(row["settings"])), []).append(row)
        return [_measured(group) for group in groups.values()]
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ConfigError("Expected a table that `dptext compare` wrote: a row lacks a column or a number.") from error


def _measured(group: Sequence[Mapping[str, Json]]) -> Measured:
    good = [row for row in group if not row["error"]]
    first = (good or group)[0]
    trials = {_number(row["trial"]) for row in good}
    numbers: dict[str, Interval] = {}
    for metric in dict.fromkeys(str(row["metric"]) for row in good):
        own = [row for row in good if row["metric"] == metric and row["value"] is not None]
        if {_number(row["trial"]) for row in own} == trials:
            values = [_number(row["value"]) for row in own]
            lows = [_number(row["value"] if row["low"] is None else row["low"]) for row in own]
            highs = [_number(row["value"] if row["high"] is None else row["high"]) for row in own]
            numbers[metric] = Interval(sum(values) / len(values), min(lows), max(highs))
    metric_privacy = first["metric_privacy"]
    _parsed(str(first["settings"]))  # better refused now than shown half
    return Measured(
        corpus=str(first["corpus"]),
        row=str(first["row"]),
        kind=str(first["kind"]),
        settings=str(first["settings"]),
        unit=str(first["unit"]),
        basis=str(first["basis"]),
        metric_privacy=None if metric_privacy is None else str(metric_privacy),
        epsilon=_optional(first["epsilon"]),
        delta=_optional(first["delta"]),
        document_epsilon=_optional(first["document_epsilon"]),
        numbers=numbers,
        error=next((str(row["error"]) for row in group if row["error"]), ""),
        refuted=tuple(
            str(row["metric"]).removesuffix(_REFUTED)
            for row in good
            if str(row["metric"]).endswith(_REFUTED) and row["value"]
        ),
    )


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("a finite number was expected")
    return float(value)


def _optional(value: Json) -> float | None:
    return None if value is None else _number(value)


def _parsed(settings: str) -> Json:
    found: Json = parse_json(settings or "{}")
    return found


def unfinished(about: Mapping[str, Json]) -> int:
    """How many cells of the grid are not done yet."""
    cells = about.get("cells")
    counts = {key: value for key, value in cells.items() if isinstance(value, int)} if isinstance(cells, dict) else {}
    return max(0, counts.get("total", 0) - counts.get("done", 0) - counts.get("failed", 0))


def reduced(experiment: Mapping[str, Json], rows: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    """What recommendations read of a table, small enough to go with the package. No digest of private records is in it.

    Args:
        experiment: `experiment.json` of the folder.
        rows: its table.

    Raises:
        ConfigError: the grid is not finished, or a row lacks a column.
    """
    if left := unfinished(experiment):
        raise ConfigError(
            f"Expected a finished grid, found {left} cells that are not done: run `dptext compare` again."
        )
    about: dict[str, Json] = {
        key: experiment.get(key) for key in ("name", "written", "version", "machine", "command", "cells")
    }
    try:
        kept: list[Json] = [
            {column: row[column] for column in _KEPT}
            for row in rows
            if row["metric"] in _METRICS or row["error"] or str(row["metric"]).endswith(_REFUTED)
        ]
    except (KeyError, TypeError) as error:
        raise ConfigError("Expected a table that `dptext compare` wrote: a row lacks a column.") from error
    return {"about": about, "rows": kept}


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A table that recommendations are read off.

    Attributes:
        about: where it comes from: name, date, version, command.
        rows: its rows.
    """

    about: Mapping[str, Json]
    rows: tuple[Mapping[str, Json], ...]


def read_measured(path: Path | None) -> MeasuredTable:
    """The table of a folder of `dptext compare`, of a file that `reduced` made, or the one of the package.

    Raises:
        ConfigError: there is none, or it is something else.
    """
    if path is None:
        text = importlib.resources.files("dptext.compare").joinpath(MEASURED).read_text("utf-8")
        return _table(json.loads(text), {}, "the measured table of the package")
    if path.is_dir():
        about = read_json(path / "experiment.json")
        return _table(read_json(path / "table.json"), about if isinstance(about, dict) else {}, str(path))
    return _table(read_json(path), {}, str(path))


def _table(data: Json, about: Mapping[str, Json], name: str) -> MeasuredTable:
    if isinstance(data, dict) and isinstance(data.get("about"), dict):
        found = data["about"]
        about = found if isinstance(found, dict) else {}
        data = data.get("rows")
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise ConfigError(f"Expected {name} to be a table that `dptext compare` wrote.")
    return MeasuredTable(about, tuple(row for row in data if isinstance(row, dict)))
