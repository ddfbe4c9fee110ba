"""Which mechanism to take: the rows of a measured table that keep something under the guarantee that is asked for.

A row is eligible if its guarantee

* is proven or conditional,
* is for the unit asked for, and for no distance,
* costs at most the epsilon and the delta asked for; a delta above 1e-3 protects nobody.

An eligible row is recommended if

* the low end of its `fidelity.cosine` is above the high end of that of *public-only*, whose outputs read no text;
* it is likewise above every *label_only* at no larger an epsilon, where the corpus has labels. The epsilon is the one
  asked for if the unit is a document, and else the epsilon that the row has for a document;
* all its trials passed, and no audit refutes its claim;
* its releases are classified no worse than public text, where the task is to classify.

The recommended rows stand in the order of the number of the task, as far as its intervals are apart: texts made of
public text alone are often classified as well as any. Of those whose intervals overlap that of the first, the ones that
keep most labels come first where the task is to classify, and of these the one with the larger fidelity.

The table of the package was measured by `dptext compare`, then `reduced`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dptext import _validate
from dptext.compare.pooled import MeasuredRow, Pooled, measured_rows
from dptext.compare.stored import LABEL_ONLY, REFUTED, KeptRow, MeasuredTable
from dptext.errors import ConfigError
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Unit, format_delta, format_epsilon
from dptext.utility.tables import PUBLIC_ONLY

Task = Literal["classification", "meaning", "authorship"]

#: The metrics of each task, of which the first that was measured decides, and whether more is better.
TASKS: Final[Mapping[str, tuple[tuple[str, ...], bool]]] = {
    "classification": (("classification.accuracy",), True),
    "meaning": (("fidelity.cosine",), True),
    "authorship": (("authorship.adaptive", "authorship.static"), False),
}
FIDELITY: Final = "fidelity.cosine"
LABEL_KEPT: Final = "fidelity.label_kept"
_TRUE_LABELS: Final = "_true_labels"  # ends the metrics of a classifier that learned from the labels of the originals
_ROUNDING: Final = 1e-6  # calibration ends a little below what is asked


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted: a guarantee for the unit at no more than this epsilon and delta.

    The task is what the releases are for: "classification", "meaning", or "authorship", which is to stay hidden.
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
    """What is said of one row: why it is not recommended, and whether its guarantee is the one asked for.

    There are no reasons where it is recommended. `beaten` are the references that it was compared with.
    """

    row: MeasuredRow
    reasons: tuple[str, ...]
    eligible: bool = True
    beaten: tuple[MeasuredRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer for one corpus: the rows that are recommended, best first, and all others but the references.

    The metric is the one that the task was judged by, `public` the number of *public-only* in it; they are empty and
    None where they were not measured.
    """

    corpus: str
    metric: str
    public: Pooled | None
    qualified: tuple[Verdict, ...]
    rejected: tuple[Verdict, ...]

    @property
    def is_free(self) -> bool:
        """Whether public text, which costs nothing, serves the task no worse than the best of these rows.

        Where the task is meaning it never does: its outputs read no text.
        """
        if self.public is None or not self.qualified or self.metric == FIDELITY:
            return False
        best, more = self.qualified[0].row.numbers[self.metric], self.metric in TASKS["classification"][0]
        return best.low <= self.public.high if more else best.high >= self.public.low


def recommend(rows: Iterable[KeptRow], asked: Asked) -> list[Recommendation]:
    """The answer for every corpus of a table. What answers a corpus is not asked for: its epsilon is another thing."""
    found = measured_rows(row for row in rows if not row.whole)
    return [
        _recommended(corpus, [row for row in found if row.corpus == corpus], asked)
        for corpus in dict.fromkeys(row.corpus for row in found)
    ]


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


#: How the table of the package is made anew.
MADE_BY: Final = "dptext compare EXPERIMENT.toml --out DIR; dptext recommend --table DIR --reduce FILE"

_OF_TASKS: Final = (metric for metrics, _ in TASKS.values() for metric in metrics)
_METRICS: Final = (FIDELITY, LABEL_KEPT, "classification.accuracy_true_labels", *_OF_TASKS)


def reduced(table: MeasuredTable) -> MeasuredTable:
    """What recommendations read of a table, with no digest of private records; ConfigError for an unfinished grid."""
    if left := table.about.cells.left:
        raise ConfigError(f"Expected a finished grid, found {left} cells not done: run `dptext compare` again.")
    kept = [row for row in table.rows if row.metric in _METRICS or row.failed or row.metric.endswith(REFUTED)]
    return table.model_copy(update={"rows": tuple(kept)})
