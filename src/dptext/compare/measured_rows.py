"""The rows of a table as recommendations read them: one for each corpus, name and settings, with all its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dptext.compare.pooled import Pooled, pooled
from dptext.compare.stored import REFUTED, KeptRow
from dptext.privacy.guarantee import format_delta, format_epsilon
from dptext.text.inputs import parse_json
from dptext.types import Json


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One row of one corpus, all its trials together.

    Attributes:
        corpus, row, kind, settings: as in the table.
        unit, basis, metric_privacy: of its guarantee.
        epsilon, delta: of its guarantee; None where there is none.
        document_epsilon: of the guarantee lifted to a document; None where there is none.
        numbers: by metric, those that every trial has.
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
    numbers: Mapping[str, Pooled]
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
            "settings": parse_json(self.settings or "{}"),
            "unit": self.unit,
            "basis": self.basis,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "numbers": {name: [found.value, found.low, found.high] for name, found in self.numbers.items()},
        }


def measured_rows(rows: Iterable[KeptRow]) -> list[MeasuredRow]:
    """The rows of a table, their trials and metrics together."""
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
    return MeasuredRow(
        corpus=first.corpus,
        row=first.row,
        kind=first.kind,
        settings=first.settings,
        unit=first.unit,
        basis=first.basis,
        metric_privacy=first.metric_privacy,
        epsilon=first.epsilon,
        delta=first.delta,
        document_epsilon=first.document_epsilon,
        numbers=numbers,
        error=next((row.error for row in group if row.error is not None), ""),
        refuted=tuple(row.metric.removesuffix(REFUTED) for row in good if row.metric.endswith(REFUTED) and row.value),
    )
