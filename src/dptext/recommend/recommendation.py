"""Recommendation of mechanisms: the rows of a measured table that keep something under a requested guarantee.

A row is eligible if its guarantee

* is proven or conditional,
* is for the requested unit, and for no distance,
* costs at most the requested epsilon and delta; a delta above 1e-3 protects nobody.

An eligible row is recommended if

* the low end of its `fidelity.cosine` is above the high end of that of *public-only*, whose outputs read no text;
* it is likewise above every *label_only* at no larger an epsilon, if the corpus has labels. That epsilon is the
  requested epsilon if the unit is a document, and otherwise the row's epsilon for a document;
* all its trials passed, and no audit refutes its claim;
* its releases are classified no worse than public text, if the task is to classify.

The recommended rows are sorted by the metric of the task, as far as its intervals are apart: texts made of public text
alone are often classified as well as any. Among the rows whose intervals overlap that of the first row, the rows that
keep most labels come first if the task is to classify, and among these the row with the larger fidelity.

The table of the package was measured by `dptext compare`, then `reduced`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Unit, format_delta, format_epsilon
from dptext.recommend.measured import LABEL_ONLY, REFUTED, KeptRow, MeasuredTable
from dptext.recommend.pooled import MeasuredRow, Pooled, measured_rows
from dptext.utility.tables import PUBLIC_ONLY

Task = Literal["classification", "meaning", "authorship"]

#: The metrics of each task, of which the first measured metric decides, and whether more is better.
TASKS: Final[Mapping[str, tuple[tuple[str, ...], bool]]] = {
    "classification": (("classification.accuracy",), True),
    "meaning": (("fidelity.cosine",), True),
    "authorship": (("authorship.adaptive", "authorship.static"), False),
}
FIDELITY: Final = "fidelity.cosine"
LABEL_KEPT: Final = "fidelity.label_kept"
_TRUE_LABELS: Final = "_true_labels"  # suffix of metrics of a classifier that learned from the originals' labels
_ROUNDING: Final = 1e-6  # calibration ends a little below the requested epsilon


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: a guarantee for the unit at no more than this epsilon and delta.

    `task` is the purpose of the releases: "classification", "meaning", or "authorship", which is to stay hidden.
    """

    unit: Unit
    epsilon: float
    delta: float
    task: str

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.probability(delta=self.delta)
        _validate.one_of(TASKS, task=self.task)

    @property
    def largest_delta(self) -> float:
        """The largest delta of an eligible row."""
        return min(self.delta, MAX_MEANINGFUL_DELTA)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one row: the reasons against it, and whether its guarantee meets the request.

    A recommended row has no reasons. `beaten` are the references that the row was compared with.
    """

    row: MeasuredRow
    reasons: tuple[str, ...]
    eligible: bool = True
    beaten: tuple[MeasuredRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer for one corpus: the recommended rows, best first, and all other rows but the references.

    `metric` is the metric that judged the task, `public` the number of *public-only* in it; they are empty and None if
    they were not measured.
    """

    corpus: str
    metric: str
    public: Pooled | None
    qualified: tuple[Verdict, ...]
    rejected: tuple[Verdict, ...]

    @property
    def is_free(self) -> bool:
        """True if public text, which costs no epsilon, serves the task no worse than any of these rows.

        For the task meaning it never does: the outputs of public text read no private text.
        """
        if self.public is None or self.metric == FIDELITY:
            return False
        if not self.qualified:
            return True
        best, more = self.qualified[0].row.numbers[self.metric], self.metric in TASKS["classification"][0]
        return best.low <= self.public.high if more else best.high >= self.public.low


def recommendations(rows: Iterable[KeptRow], asked: Asked) -> list[Recommendation]:
    """Return the answer for every corpus of a table. Syntheses are left out: their epsilon has another meaning."""
    found = measured_rows(row for row in rows if not row.whole)
    return [
        _recommended(corpus, [row for row in found if row.corpus == corpus], asked)
        for corpus in dict.fromkeys(row.corpus for row in found)
    ]


def measured_epsilons(rows: Iterable[KeptRow], unit: Unit) -> tuple[float, ...]:
    """Return the epsilons of a unit at which mechanisms were measured, ascending.

    Calibration ends a little below the epsilon that was asked for: an epsilon is rounded to six digits.
    """
    found = (row for row in rows if not row.whole and row.unit == unit and row.kind not in ("", LABEL_ONLY))
    known = (row.epsilon for row in found if row.metric_privacy is None and row.epsilon)
    return tuple(sorted({float(f"{epsilon:.6g}") for epsilon in known}))


def largest_of(levels: Sequence[float], epsilon: float) -> float:
    """Return the largest of these epsilons that is no larger than `epsilon`; 0 if there is none."""
    return max((level for level in levels if level <= epsilon * (1 + _ROUNDING)), default=0.0)


def not_measured(levels: Sequence[float], epsilon: float, unit: Unit) -> str:
    """Say at which epsilon the numbers were measured instead; empty if they were measured at `epsilon`."""
    below = largest_of(levels, epsilon)
    if not levels:
        return f"No mechanism was measured at an epsilon per {unit} that is of no distance."
    if epsilon <= below * (1 + _ROUNDING):
        return ""
    above = next((level for level in levels if level > epsilon), 0.0)
    said = f"Nothing was measured at epsilon {epsilon:g} per {unit}"
    if not below:
        return f"{said} or less: measurements begin at {above:g}."
    following = f", and the next measured one is {above:g}" if above else ""
    return f"{said}: the numbers are of epsilon {below:g} or less{following}."


def _recommended(corpus: str, rows: Sequence[MeasuredRow], asked: Asked) -> Recommendation:
    metrics, more = TASKS[asked.task]
    metric = next((name for name in metrics if any(name in row.numbers for row in rows)), "")
    references = [row for row in rows if row.row == PUBLIC_ONLY or row.kind == LABEL_ONLY]
    verdicts = [_judged(row, references, asked, metric) for row in rows if row.kind not in ("", LABEL_ONLY)]
    good = [verdict for verdict in verdicts if not verdict.reasons]
    good.sort(key=lambda verdict: (-1 if more else 1) * verdict.row.numbers[metric].value)
    tied = _level(good, metric)
    if asked.task == "classification" and all(LABEL_KEPT in verdict.row.numbers for verdict in tied):
        tied.sort(key=lambda verdict: -verdict.row.numbers[LABEL_KEPT].value)
        tied = _level(tied, LABEL_KEPT)
    tied.sort(key=lambda verdict: (-verdict.row.numbers[FIDELITY].value, verdict.row.epsilon))
    good = [*tied, *(verdict for verdict in good if verdict not in tied)]
    public = next((row.numbers.get(metric) for row in references if row.row == PUBLIC_ONLY), None)
    return Recommendation(corpus, metric, public, tuple(good), tuple(v for v in verdicts if v.reasons))


def _level(verdicts: Sequence[Verdict], metric: str) -> list[Verdict]:
    numbers = [verdict.row.numbers[metric] for verdict in verdicts]
    low, high = (numbers[0].low, numbers[0].high) if numbers else (0.0, 0.0)
    return [verdict for verdict, own in zip(verdicts, numbers, strict=True) if own.low <= high and low <= own.high]


def _affordable(row: MeasuredRow, epsilon: float) -> bool:
    return row.epsilon is not None and row.epsilon <= epsilon * (1 + _ROUNDING)


def _judged(row: MeasuredRow, references: Sequence[MeasuredRow], asked: Asked, metric: str) -> Verdict:
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
    if LABEL_ONLY in {other.kind for other in references} - {other.kind for other in known}:
        reasons.append(f"the table has no {FIDELITY} of {LABEL_ONLY} at so small an epsilon to compare it with")
    if known:
        hardest = max(known, key=lambda other: other.numbers[FIDELITY].high)
        if row.numbers[FIDELITY].low <= hardest.numbers[FIDELITY].high:
            at = f" at epsilon {format_epsilon(hardest.epsilon)}" if hardest.epsilon else ""
            own, theirs = row.numbers[FIDELITY], hardest.numbers[FIDELITY]
            reasons.append(f"its fidelity {own} is not above that of {hardest.row}{at}, {theirs}")
    return Verdict(row, tuple(reasons), eligible, tuple(known))


def _comparable(row: MeasuredRow, references: Sequence[MeasuredRow], asked: Asked) -> list[MeasuredRow]:
    lifted = math.inf if row.document_epsilon is None else row.document_epsilon
    most = asked.epsilon if asked.unit is Unit.DOCUMENT else lifted
    found = (other for other in references if FIDELITY in other.numbers)
    return [other for other in found if other.row == PUBLIC_ONLY or _affordable(other, most)]


def _guarantee_faults(row: MeasuredRow, asked: Asked) -> Iterable[str]:
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


#: The commands that make the table of the package.
MADE_BY: Final = "dptext compare EXPERIMENT.toml --out DIR; dptext recommend --table DIR --reduce FILE"

_OF_TASKS: Final = (metric for metrics, _ in TASKS.values() for metric in metrics)
_METRICS: Final = (FIDELITY, LABEL_KEPT, "classification.accuracy_true_labels", *_OF_TASKS)


def reduced(table: MeasuredTable) -> MeasuredTable:
    """Keep the rows that recommendations read, and no digest of private records; ConfigError for an unfinished grid."""
    if left := table.about.cells.left:
        raise ConfigError(f"Expected a finished grid, found {left} cells not done: run `dptext compare` again.")
    kept = [row for row in table.rows if row.metric in _METRICS or row.failed or row.metric.endswith(REFUTED)]
    return table.model_copy(update={"rows": tuple(kept)})
