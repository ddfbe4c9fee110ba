"""What both attribute attacks share: the test of controls, the similarity, the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from dptext.audits.report import markdown_table
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.sampling.bootstrap import bootstrap
from dptext.sampling.source import seeded
from dptext.types import Floats


def at_chance(controls: Sequence[tuple[Estimate, int]], chance: float) -> bool:
    """Whether chance is in the interval of every control, as in at least 95 of 100 honest audits.

    Args:
        controls: the accuracy of each, and of how many texts it is.
        chance: accuracy of a guess at random.
    """
    confidence = 1 - bonferroni(0.95, len(controls))
    intervals = [clopper_pearson(round(found.value * n), n, confidence=confidence) for found, n in controls]
    return all(found.low <= chance <= found.high for found in intervals)


def mean_cosine(first: Floats, second: Floats, *, seed: int, confidence: float) -> Estimate:
    """Mean cosine of vectors of norm 1 (or 0), row by row, `(n_texts, dim)` each; bootstrap over rows."""
    cosines = np.clip(np.einsum("ij,ij->i", first, second), -1.0, 1.0)
    return bootstrap(cosines, lambda rows: float(rows.mean()), source=seeded(seed), confidence=confidence)


class _Row(Protocol):
    @property
    def name(self) -> str: ...

    def cells(self) -> Mapping[str, Estimate]: ...


def rows_table(rows: Sequence[_Row]) -> list[str]:
    """Rows of attacks as lines of Markdown: the attacker, then each number with its interval."""
    return markdown_table(
        ["attacker", *rows[0].cells()],
        [
            [row.name, *(f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]" for found in row.cells().values())]
            for row in rows
        ],
    )
