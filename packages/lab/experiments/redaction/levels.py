"""Figures of numbers against the redaction level, drawn for figures.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.text.files import Target
from dptext_lab.drawing import LINES, drawing, interval_curve, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Levels:
    """A measured number by redaction level.

    Attributes:
        name: what was measured, or by whom.
        levels: share of the tokens that are redacted, in [0, 1].
        values: at each level.
    """

    name: str
    levels: tuple[float, ...]
    values: tuple[Estimate, ...]


def divergence_levels_figure(curves: Sequence[Levels], path: str | os.PathLike[str] | Target, *, alpha: float) -> None:
    """Divergence of one order against the redaction level (figures 1 and 8 of Gusain and Leith 2024).

    Args:
        curves: of embeddings or of ways to redact, at most four.
        path: of the SVG file, which only its owner can read. A `Target` may say otherwise, or overwrite a file.
        alpha: the order, for the label.

    Raises:
        ConfigError: no curves, too many, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    _check_levels(curves)
    with drawing(path, title=f"Renyi divergence of order {alpha:g} against the redaction level") as figure:
        axes = _levels(figure.subplots(), curves, f"divergence of order {alpha:g} (nats)")
        axes.set_xlabel("redaction level (%)")
        axes.set_title("No upper bound: estimates in one embedding")
        legend_below(figure, columns=2)


def epsilon_levels_figure(
    epsilons: Sequence[Levels], accuracies: Sequence[Levels], path: str | os.PathLike[str] | Target
) -> None:
    """Epsilon, and the accuracy of attacks, against the redaction level (figures 4 and 5 of Gusain and Leith 2024).

    Args:
        epsilons: at most four.
        accuracies: of attacks, at most four; 50% is guessing.
        path: of the SVG file, which only its owner can read. A `Target` may say otherwise, or overwrite a file.

    Raises:
        ConfigError: no curves, too many, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    _check_levels(epsilons)
    _check_levels(accuracies)
    with drawing(path, title="Epsilon and attack accuracy against the redaction level") as figure:
        figure.set_size_inches(6.4, 6.4)
        above, below = figure.subplots(2, 1, sharex=True)
        _levels(above, epsilons, "epsilon (no upper bound)").legend(fontsize=8)
        _levels(below, accuracies, "attack accuracy").legend(fontsize=8)
        below.axhline(0.5, color="#888888", linewidth=1.0)
        below.set_xlabel("redaction level (%)")


def _check_levels(curves: Sequence[Levels]) -> None:
    if not 1 <= len(curves) <= len(LINES):
        raise ConfigError(f"Expected 1 to {len(LINES)} curves, found {len(curves)}.")
    for curve in curves:
        if len(curve.levels) != len(curve.values):
            raise ConfigError(f"Expected a value for each level of the curve {curve.name!r}.")


def _levels(axes: Axes, curves: Sequence[Levels], label: str) -> Axes:
    for curve, (color, dashes) in zip(curves, LINES, strict=False):
        interval_curve(axes, 100 * np.asarray(curve.levels), curve.values, color, dashes, curve.name)
    axes.set_ylabel(label)
    return axes
