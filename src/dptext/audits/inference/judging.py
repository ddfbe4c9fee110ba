"""What both attribute attacks share: the report, the test of controls, the similarity."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from dptext.audits.report import Result, markdown_table, signature_line
from dptext.audits.subjects import OnCount
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.sampling.bootstrap import bootstrap_mean
from dptext.types import Floats, Json


def at_chance(controls: Sequence[tuple[Estimate, int]], chance: float) -> bool:
    """Whether chance is in the interval of every control (accuracy, texts), as in at least 95 of 100 honest audits."""
    confidence = 1 - bonferroni(0.95, len(controls))
    intervals = [clopper_pearson(round(found.value * n), n, confidence=confidence) for found, n in controls]
    return all(found.low <= chance <= found.high for found in intervals)


def mean_cosine(first: Floats, second: Floats, *, seed: int, confidence: float) -> Estimate:
    """Mean cosine of vectors of norm 1 (or 0), row by row, `(n_texts, dim)` each; bootstrap over rows."""
    cosines = np.clip(np.einsum("ij,ij->i", first, second), -1.0, 1.0)
    return bootstrap_mean(cosines, seed=seed, confidence=confidence)


def scores_of(
    taught: Mapping[str, Sequence[str]],
    trainers: Mapping[str, Callable[[Sequence[str]], Callable[[Sequence[str]], Floats]]],
    outputs: Sequence[str],
    originals: Sequence[str],
    on_attacker: OnCount | None,
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Scores of the outputs by each attacker, taught in each way, and of the originals by the static ones."""
    scores: dict[str, Floats] = {}
    plain: dict[str, Floats] = {}
    for knowledge, texts in taught.items():
        for name, train in trainers.items():
            attacker = train(texts)
            scores[f"{name}, {knowledge}"] = attacker(outputs)
            if knowledge == "static":
                plain[f"originals: {name}, {knowledge}"] = attacker(originals)
            if on_attacker is not None:
                on_attacker(len(scores), len(trainers) * len(taught))
    return scores, plain


class _Row(Protocol):
    @property
    def name(self) -> str: ...

    def cells(self) -> Mapping[str, Estimate]: ...


Row = TypeVar("Row", bound=_Row)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceReport(Result, Generic[Row]):
    """The outcome of an attack on an attribute. It shows no text.

    The attacks are on the releases, static ones first. The controls are the same guesses held against permuted truths:
    they are at chance, or the audit counts wrongly. The baselines are the static attackers on the originals (no privacy
    at all), and attackers that look at no text. The embedder is behind some attackers and the similarities.
    """

    attacks: tuple[Row, ...]
    controls: tuple[Row, ...]
    baselines: tuple[Row, ...]
    training_texts: int
    attacked_texts: int
    embedder: str
    notes: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(default_factory=dict, hash=False)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order of the table."""
        return (*self.attacks, *self.controls, *self.baselines)

    @property
    @abstractmethod
    def control_holds(self) -> bool:
        """Whether chance is in the interval of every control's accuracy, as in at least 95 of 100 honest audits."""

    @abstractmethod
    def _said(self) -> tuple[str, str]:
        """What was attacked, and what that says of epsilon."""

    def to_markdown(self) -> str:
        """A table in Markdown between its settings and what to know when reading it."""
        settings, found = self._said()
        rows = [
            [row.name, *(f"{cell.value:.3f} [{cell.low:.3f}, {cell.high:.3f}]" for cell in row.cells().values())]
            for row in self.rows
        ]
        table = markdown_table(["attacker", *self.rows[0].cells()], rows)
        fault = () if self.control_holds else ("A control is not at chance: do not rely on these numbers.",)
        lines = [settings, "", *table, "", found, *fault, *self.notes, signature_line(self.signature)]
        return "\n".join(lines) + "\n"
