"""What a trial found, and whether that refutes a guarantee; and the lines that reports of attacks share."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import ROUND_FLOOR, Context
from typing import ClassVar

from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import Estimate
from dptext.notebook import html_text
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit, format_delta, format_epsilon
from dptext.types import Json, as_json


class Result:
    """A frozen dataclass as JSON by its fields, without those in `LEFT_OUT`, with the properties in `ALSO`."""

    __slots__ = ()

    LEFT_OUT: ClassVar[tuple[str, ...]] = ()
    ALSO: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of the records; infinite numbers are written as the string "inf"."""
        kept = (each.name for each in fields(self) if each.name not in self.LEFT_OUT)  # type: ignore[arg-type]
        return {name: _as_json(getattr(self, name)) for name in (*kept, *self.ALSO)}


def _as_json(value: object) -> Json:
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_as_json(each) for each in value]
    return str(value) if isinstance(value, str) else as_json(value)


def exactly(value: float, confidence: float) -> Estimate:
    """A number that is known: its interval is itself."""
    return Estimate(value, value, value, confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Result):
    """The outcome of one trial, of two neighbours by unit, relation, metric and what is revealed.

    The attack is which audit this was. `measures` says what the next three numbers are: how well the attack did; the
    same for an attacker who does not look at the output, or what the claim allows; and the same attack where there is
    nothing to find, or the p-value of the hypothesis that the sampler draws from what it declares. A fault of the audit
    or of the declaration shows in the last, the control.

    No smaller epsilon than the lower bound can be true at this delta, with probability `confidence`, which is 1 where
    nothing is estimated. It is per unit of distance where there is a metric. 0 says nothing. The `ceiling` is the
    largest bound that this number of runs can show; infinite for audits that read densities. Defects are findings that
    refute any claim, such as a sampler that does not draw from the density from which its guarantee was derived.
    """

    attack: str
    measures: str
    main: Estimate
    baseline: Estimate
    control: Estimate
    epsilon_lower_bound: float
    delta: float
    confidence: float
    ceiling: float
    unit: Unit
    relation: Relation
    metric: str | None
    reveals: tuple[str, ...]
    defects: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(hash=False)

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon_lower_bound) or self.epsilon_lower_bound < 0:
            raise ConfigError(f"Expected epsilon_lower_bound={self.epsilon_lower_bound!r} >= 0.")

    def refutes(self, guarantee: Guarantee) -> bool:
        """Whether the guarantee cannot be true, given this trial. False is no proof of it.

        A guarantee of basis NONE claims nothing, so nothing refutes it. IncomparableError where the guarantee speaks of
        other neighbours (unit, relation, metric, `reveals`), or has a larger delta than the bound is for.
        """
        meaning = (self.unit, self.relation, self.metric)
        if meaning != guarantee.meaning and guarantee.basis is not Basis.NONE:
            raise IncomparableError(
                f"Expected a guarantee for unit, relation and metric {meaning}, found {guarantee.meaning}: audit with "
                "neighbours of the guarantee's own kind."
            )
        if set(self.reveals) != set(guarantee.reveals):
            raise IncomparableError(
                f"Expected a guarantee that reveals {list(self.reveals)}, found {list(guarantee.reveals)}: neighbours "
                "must agree on exactly what the guarantee reveals."
            )
        if guarantee.basis is Basis.NONE:
            return False
        if guarantee.delta > self.delta:
            raise IncomparableError(
                f"Expected a guarantee with delta <= {self.delta!r}, found {guarantee.delta!r}: audit at its delta."
            )
        return bool(self.defects) or self.epsilon_lower_bound > guarantee.epsilon

    @property
    def signed(self) -> str:
        """The signature in one line, `key:value|key:value`."""
        return "|".join(
            f"{key}:{value if isinstance(value, str) else json.dumps(value)}" for key, value in self.signature.items()
        )

    def _repr_html_(self) -> str:
        return html_text(self.explain())

    def explain(self, guarantee: Guarantee | None = None) -> str:
        """The report in plain words; with a guarantee also whether it is refuted (IncomparableError as `refutes`)."""
        per = f" per unit of {self.metric}" if self.metric else ""
        at = f" at delta {format_delta(self.delta)}" if self.delta else ""
        found = self.epsilon_lower_bound
        # Rounded down: what is shown must not be above what was found.
        bound = "infinite" if math.isinf(found) else f"{float(Context(4, ROUND_FLOOR).create_decimal(repr(found))):.4g}"
        lines = [
            f"{self.attack}: {self.measures}",
            f"  found     {_shown(self.main)}",
            f"  baseline  {_shown(self.baseline)}",
            f"  control   {_shown(self.control)}",
            f"Epsilon is at least {bound}{per}{at}, for {self.relation} of one {self.unit}"
            + (f" (confidence {100 * self.confidence:.6g}%)." if self.confidence < 1 else " (exact)."),
        ]
        if not math.isinf(self.ceiling):
            lines.append(
                f"So many runs can show no more than {self.ceiling:.3g}: a larger epsilon cannot be refuted so."
            )
        lines += [f"Defect: {defect}." for defect in self.defects]
        if guarantee is not None:
            lines.append(self._verdict(guarantee))
        lines.append(f"[{self.signed}]")
        return "\n".join(lines)

    def _verdict(self, guarantee: Guarantee) -> str:
        if guarantee.basis is Basis.NONE:
            return f"Nothing is guaranteed ({guarantee.reason}), so there is nothing to refute."
        claim = f"epsilon {format_epsilon(guarantee.epsilon)}" + (
            f", delta {format_delta(guarantee.delta)}" if guarantee.delta else ""
        )
        if self.refutes(guarantee):
            return f"REFUTED: the claim of {claim} is false."
        return f"Not refuted: the claim of {claim} survives this trial, which proves nothing more."


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.3g}" if estimate.low == estimate.high else str(estimate)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown, all columns padded to their width."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (head, ["-" * width for width in widths], *rows)
    ]


def signature_line(signature: Mapping[str, Json]) -> str:
    """The settings that made the numbers, in one line."""
    return "[" + "|".join(f"{key}:{json.dumps(value)}" for key, value in signature.items()) + "]"
