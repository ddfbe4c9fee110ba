"""How far noise moves the mean of a number for a value of another column, by public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from dptext.synthesis.marginals import Axes, Marginal
from dptext.text.schema import ListedColumn, NumberColumn

_INTERVAL: Final = 1.96  # half of one of 95%, in standard deviations
_POSITIVE: Final = 0.4  # mean of the positive part of noise, in deviations: written numbers are at least 0
_NAMED: Final = 4  # means in a sentence
_LESS: Final = 0.9  # of the noise is left at most, where a larger share of columns is named
_SHARE: Final = 0.6  # of rho for columns, where means by groups matter


def means_moved(axes: Axes, marginals: Sequence[Marginal], noise: Mapping[str, float], about: int, share: float) -> str:
    """Return a sentence on how far noise moves means of numbers by the values of listed columns; empty without any.

    `noise` is the deviation of a number of units of each marginal, `about` the number of all units, and `share` that of
    rho for columns. Values count as equally frequent, and a number as the middle of its bin. Added to the interval is
    what noise does to a group whose numbers are all in the first bin: numbers of rows are never negative, so that it
    gets rows in the others.
    """
    found = [half for each in marginals if len(each.axes) == 2 for half in _of(axes, each, noise[each.name], about)]
    if not found:
        return ""
    shown = [f"{name} ±{float(f'{half:.2g}'):g}" for name, half in found[:_NAMED]]
    more = f", and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    part = math.sqrt(share / _SHARE)  # of the noise is left with a larger share
    pairs = ",".join(sorted(name for name, each in axes.pairs.items() if each in marginals))
    remedy = f" --shares columns={_SHARE:g} --pairs {pairs} leaves {part:.0%} of this." if part < _LESS else ""
    return (
        f"Noise moves means by up to about (95%): {', '.join(shown)}{more}, and twice as far in a group of half the "
        f"usual size.{remedy} A wide bin adds up to half of its width; numbers beyond the bins leave as those at the "
        "ends. Medians move less."
    )


def _of(axes: Axes, pair: Marginal, noise: float, about: int) -> Iterator[tuple[str, float]]:
    for number, group in (pair.axes, pair.axes[::-1]):
        column = axes.columns[number - 1] if 0 < number < axes.topic else None
        by = axes.columns[group - 1] if 0 < group < axes.topic else None
        values = axes.labels if group == 0 else len(by.listed) if isinstance(by, ListedColumn) else 0
        if isinstance(column, NumberColumn) and values:
            middles = column.middles
            apart = math.sqrt(float(np.square(middles - middles.mean()).sum()))
            half = noise * (_INTERVAL * apart + _POSITIVE * float((middles - middles[0]).sum())) * values / about
            yield f"{column.name} by {axes.names[group]}", half
