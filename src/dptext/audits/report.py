"""Reports of audits: findings of a trial, its verdict on a guarantee, and shared parts of attribute attacks."""

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import ROUND_FLOOR, Context
from typing import ClassVar, Generic, TypeVar

import numpy as np

from dptext._wording import html_text, markdown_table
from dptext.audits.subjects import OnCount, untold
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit, format_delta, format_epsilon
from dptext.sampling.bootstrap import bootstrap_mean
from dptext.types import Floats, Json, jsonable


class Result:
    """A frozen dataclass as JSON by its fields, except those in `LEFT_OUT`, with the properties in `ALSO`."""

    __slots__ = ()

    LEFT_OUT: ClassVar[tuple[str, ...]] = ()
    ALSO: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data, without anything about the records; infinite numbers become the string "inf"."""
        kept = (each.name for each in fields(self) if each.name not in self.LEFT_OUT)  # type: ignore[arg-type]
        return {name: _as_json(getattr(self, name)) for name in (*kept, *self.ALSO)}


def _as_json(value: object) -> Json:
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_as_json(each) for each in value]
    return str(value) if isinstance(value, str) else jsonable(value)


def exactly(value: float, confidence: float) -> Estimate:
    """Return an exact number as an estimate: its interval is the number itself."""
    return Estimate(value, value, value, confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Result):
    """The outcome of one trial on two neighbours by unit, relation, metric and revealed facts.

    `attack` names the audit. `measures` describes the next three numbers: `main` is the success of the attack;
    `baseline` the success of an attacker who does not look at the output, or the success that the claim allows;
    `control` the same attack where there is nothing to find, or the p-value of the hypothesis that the sampler draws
    from its declared distribution.

    With probability `confidence`, which is 1 if nothing is estimated, no epsilon below `epsilon_lower_bound` can be
    true at this delta. The bound is per unit of distance if there is a metric; 0 says nothing. `ceiling` is the largest
    bound that this number of runs can show; infinite for audits that read densities. `defects` are findings that refute
    any claim, such as a sampler that does not draw from its declared density.
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
    metric: str | None = None
    reveals: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(hash=False)

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon_lower_bound) or self.epsilon_lower_bound < 0:
            raise ConfigError(f"Expected epsilon_lower_bound={self.epsilon_lower_bound!r} >= 0.")

    def refutes(self, guarantee: Guarantee) -> bool:
        """Return whether this trial refutes the guarantee. False proves nothing.

        A guarantee of basis NONE claims nothing, so nothing refutes it. IncomparableError if the guarantee speaks of
        other neighbours (unit, relation, metric, `reveals`), or has a larger delta than the bound.
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
        said = {key: value if isinstance(value, str) else json.dumps(value) for key, value in self.signature.items()}
        return "|".join(f"{key}:{value}" for key, value in said.items())

    def _repr_html_(self) -> str:
        return html_text(self.explain())

    def explain(self, guarantee: Guarantee | None = None) -> str:
        """Return the report in plain words; with a guarantee also the verdict (IncomparableError as `refutes`)."""
        per = f" per unit of {self.metric}" if self.metric else ""
        at = f" at delta {format_delta(self.delta)}" if self.delta else ""
        found = self.epsilon_lower_bound
        # Rounded down, so that the shown bound is not above the computed bound.
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
            lines.append(f"So many runs can show no more than {self.ceiling:.3g}: no larger epsilon can be refuted so.")
        lines += [f"Defect: {defect}." for defect in self.defects]
        if guarantee is not None:
            lines.append(self._verdict(guarantee))
        lines.append(f"[{self.signed}]")
        return "\n".join(lines)

    def _verdict(self, guarantee: Guarantee) -> str:
        if guarantee.basis is Basis.NONE:
            return f"Nothing is guaranteed ({guarantee.reason}), so there is nothing to refute."
        delta = f", delta {format_delta(guarantee.delta)}" if guarantee.delta else ""
        claim = f"epsilon {format_epsilon(guarantee.epsilon)}{delta}"
        if self.refutes(guarantee):
            return f"REFUTED: the claim of {claim} is false."
        return f"Not refuted: the claim of {claim} survives this trial, which proves nothing more."


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.3g}" if estimate.low == estimate.high else str(estimate)


def signature_line(signature: Mapping[str, Json]) -> str:
    """Return the settings behind the numbers, in one line."""
    return "[" + "|".join(f"{key}:{json.dumps(value)}" for key, value in signature.items()) + "]"


def mean_cosine(first: Floats, second: Floats, *, seed: int, confidence: float) -> Estimate:
    """Return the mean cosine of vectors of norm 1 (or 0), row by row, `(n_texts, dim)` each; bootstrap over rows."""
    cosines = np.clip(np.einsum("ij,ij->i", first, second), -1.0, 1.0)
    return bootstrap_mean(cosines, seed=seed, bounds=(-1.0, 1.0), confidence=confidence)


def scores_of(
    taught: Mapping[str, Sequence[str]],
    trainers: Mapping[str, Callable[[Sequence[str]], Callable[[Sequence[str]], Floats]]],
    outputs: Sequence[str],
    originals: Sequence[str],
    on_attacker: OnCount | None,
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Score the outputs by each attacker, trained on each kind of text, and the originals by the static attackers."""
    scores: dict[str, Floats] = {}
    plain: dict[str, Floats] = {}
    for knowledge, texts in taught.items():
        for name, train in trainers.items():
            attacker = train(texts)
            scores[f"{name}, {knowledge}"] = attacker(outputs)
            if knowledge == "static":
                plain[f"originals: {name}, {knowledge}"] = attacker(originals)
            (on_attacker or untold)(len(scores), len(trainers) * len(taught))
    return scores, plain


class InferenceRow(Result):
    """The success of one attacker: a line of the table. `CELLS` maps column headings to fields."""

    __slots__ = ()

    CELLS: ClassVar[tuple[tuple[str, str], ...]]
    name: str
    accuracy: Estimate

    def cells(self) -> dict[str, Estimate]:
        """Return the numbers by column heading."""
        return {head: getattr(self, name) for head, name in self.CELLS}


Row = TypeVar("Row", bound=InferenceRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceReport(Result, Generic[Row]):
    """The outcome of an attack on an attribute. The report shows no text.

    `attacks` are on the releases, static attackers first. `controls` compare the same guesses with permuted truths:
    they are at chance, or the audit counts wrongly. `baselines` are the static attackers on the originals (no privacy
    at all), and attackers that look at no text. `embedder` names the embedder of some attackers and of the
    similarities.
    """

    attacks: tuple[Row, ...]
    controls: tuple[Row, ...]
    baselines: tuple[Row, ...]
    training_texts: int
    attacked_texts: int
    embedder: str
    notes: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(default_factory=dict, hash=False)

    ALSO = ("control_holds",)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order of the table."""
        return (*self.attacks, *self.controls, *self.baselines)

    @property
    def control_holds(self) -> bool:
        """Return whether chance is in each control's accuracy interval, as in at least 95 of 100 honest audits."""
        (n, chance), confidence = self._guessed(), 1 - bonferroni(0.95, len(self.controls))
        rights = [round(row.accuracy.value * n) for row in self.controls]
        found = [clopper_pearson(right, n, confidence=confidence) for right in rights]
        return all(each.low <= chance <= each.high for each in found)

    @abstractmethod
    def _guessed(self) -> tuple[int, float]:
        """The number of guesses in a row, and the chance that a random guess is right."""

    @abstractmethod
    def _said(self) -> tuple[str, str]:
        """Return a line on the attacked texts, and a line on the resulting epsilon."""

    def to_markdown(self) -> str:
        """Return a table in Markdown, between its settings and notes for the reader."""
        settings, found = self._said()
        said = "{0.value:.3f} [{0.low:.3f}, {0.high:.3f}]".format
        rows = [[row.name, *map(said, row.cells().values())] for row in self.rows]
        table = markdown_table(["attacker", *self.rows[0].cells()], rows)
        fault = () if self.control_holds else ("A control is not at chance: do not rely on these numbers.",)
        lines = [settings, "", *table, "", found, *fault, *self.notes, signature_line(self.signature)]
        return "\n".join(lines) + "\n"
