"""Rows of a table with their trials pooled: one metric, or a row with all its metrics, for recommendations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from dptext.privacy.guarantee import format_delta, format_epsilon
from dptext.recommend.measured import REFUTED, KeptRow
from dptext.text.inputs import parse_json
from dptext.types import Json


@dataclass(frozen=True, slots=True)
class Pooled:
    """One metric of one row on one corpus, over its trials.

    `value` is the mean of the trials' values. `low` and `high` are the lowest and the highest end of their intervals. A
    trial without an interval counts as an interval of its value alone. `interval` says whether every trial has one.
    """

    value: float
    low: float
    high: float
    interval: bool
    trials: int

    def __str__(self) -> str:
        return f"{short(self.value)} [{short(self.low)}, {short(self.high)}]" if self.interval else short(self.value)


def pooled(rows: Sequence[KeptRow]) -> Pooled:
    """Pool the rows of one metric, each from another trial; at least one has a value."""
    values = [(row.value, row.low, row.high) for row in rows if row.value is not None]
    return Pooled(
        value=sum(value for value, _, _ in values) / len(values),
        low=min(value if low is None else low for value, low, _ in values),
        high=max(value if high is None else high for value, _, high in values),
        interval=all(low is not None and high is not None for _, low, high in values),
        trials=len(values),
    )


def short(value: float) -> str:
    """Format a number for a table: three decimals, or four digits if it is large."""
    if abs(value) < 100:
        return f"{value:.3f}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One row of one corpus with all its trials; fields without a description are as in the table.

    `numbers` are the metrics that every trial has. `error` is the reason why a trial failed, empty if none failed;
    `refuted` are the audits that refute the row's claim, in any trial.
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
    numbers: Mapping[str, Pooled]
    error: str
    refuted: tuple[str, ...] = ()

    def guaranteed(self) -> str:
        """Return the guarantee of the row in a few words."""
        if self.epsilon is None:
            return "no guarantee"
        delta = f", delta {format_delta(self.delta)}" if self.delta else ""
        per = f" per unit of {self.metric_privacy}" if self.metric_privacy else ""
        return f"epsilon {format_epsilon(self.epsilon)}{per}{delta} per {self.unit}, {self.basis}"

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data."""
        shown = ("corpus", "row", "kind", "settings", "unit", "basis", "epsilon", "delta")
        return {
            **{name: getattr(self, name) for name in shown},
            "settings": parse_json(self.settings or "{}"),
            "numbers": {name: [found.value, found.low, found.high] for name, found in self.numbers.items()},
        }


def measured_rows(rows: Iterable[KeptRow]) -> list[MeasuredRow]:
    """Pool the rows of a table over trials and metrics."""
    groups: dict[tuple[str, str, str], list[KeptRow]] = {}
    for row in rows:
        groups.setdefault((row.corpus, row.row, row.settings), []).append(row)
    return [_measured(group) for group in groups.values()]


def _measured(group: Sequence[KeptRow]) -> MeasuredRow:
    good = [row for row in group if not row.failed]
    first = (good or group)[0]
    trials = {row.trial for row in good}
    numbers: dict[str, Pooled] = {}
    for metric in dict.fromkeys(row.metric for row in good):
        own = [row for row in good if row.metric == metric and row.value is not None]
        if {row.trial for row in own} == trials:
            numbers[metric] = pooled(own)
    shared = {each.name: getattr(first, each.name) for each in fields(MeasuredRow) if each.name in KeptRow.model_fields}
    return MeasuredRow(
        **{**shared, "error": next((row.error for row in group if row.error is not None), "")},
        numbers=numbers,
        refuted=tuple(row.metric.removesuffix(REFUTED) for row in good if row.metric.endswith(REFUTED) and row.value),
    )
