"""The figure of reconstruction by an informed adversary, drawn for trial.py."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.text.files import Target
from dptext_lab.drawing import LINES, drawing, legend_below


@dataclass(frozen=True, slots=True)
class Success:
    """How often an attacker's j guesses held the input, by epsilon, for one mechanism and size.

    Attributes:
        name: of the mechanism.
        epsilons: claimed.
        shares: found, with their intervals.
        bounds: the most that the claim allows.
    """

    name: str
    epsilons: tuple[float, ...]
    shares: tuple[Estimate, ...]
    bounds: tuple[float, ...]


def reconstruction_figure(panels: Mapping[str, Sequence[Success]], path: str | os.PathLike[str] | Target) -> None:
    """Success of the informed adversary against the bound of the claim, a panel for each title.

    Args:
        panels: curves by the title of their panel, such as "n = 64".
        path: of the SVG file, which only its owner can read. A `Target` may say otherwise, or overwrite a file.

    Raises:
        ConfigError: no panels, too many curves for one, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    if not panels or max(map(len, panels.values())) > len(LINES):
        raise ConfigError(f"Expected panels of 1 to {len(LINES)} curves.")
    with drawing(path, title="Reconstruction by an informed adversary against the bound") as figure:
        figure.set_size_inches(3.4 * len(panels) + 0.6, 4.3)
        all_axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, group) in zip(all_axes, panels.items(), strict=True):
            for curve, (color, dashes) in zip(group, LINES, strict=False):
                values = [100 * share.value for share in curve.shares]
                errors = [
                    [100 * (share.value - share.low) for share in curve.shares],
                    [100 * (share.high - share.value) for share in curve.shares],
                ]
                axes.errorbar(
                    curve.epsilons, values, errors, fmt=f"o{dashes}", color=color, markersize=4, label=curve.name
                )
            widest = max(group, key=lambda curve: curve.bounds)
            axes.plot(widest.epsilons, [100 * bound for bound in widest.bounds], color="black", label="bound")
            axes.set_xscale("log")
            axes.set_xticks(widest.epsilons, [f"{epsilon:g}" for epsilon in widest.epsilons])
            axes.minorticks_off()
            axes.set_title(title)
            axes.set_xlabel("claimed epsilon (log scale)")
        all_axes[0].set_ylabel("first guess is right (%)")
        legend_below(figure)
