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


def means_moved(axes: Axes, marginals: Sequence[Marginal], noise: Mapping[str, float], about: int) -> str:
    """Return a sentence on how far noise moves means of numbers by the values of listed columns; empty without any.

    `noise` is the deviation of a number of units of each marginal, and `about` the number of all units. Values count as
    equally frequent, and a number as the middle of its bin. Added to the interval is what noise does to a group whose
    numbers are all in the first bin: numbers of rows are never negative, so that it gets rows in the others.
    """
    found = [said for each in marginals if len(each.axes) == 2 for said in _of(axes, each, noise[each.name], about)]
    if not found:
        return ""
    more = f", and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return (
        f"Noise moves means by up to about (95%): {', '.join(found[:_NAMED])}{more}; a wide bin adds up to half of its "
        "width. Medians move less."
    )


def _of(axes: Axes, pair: Marginal, noise: float, about: int) -> Iterator[str]:
    for number, group in (pair.axes, pair.axes[::-1]):
        column = axes.columns[number - 1] if 0 < number < axes.topic else None
        by = axes.columns[group - 1] if 0 < group < axes.topic else None
        values = axes.labels if group == 0 else len(by.listed) if isinstance(by, ListedColumn) else 0
        if isinstance(column, NumberColumn) and values:
            middles = column.middles
            apart = math.sqrt(float(np.square(middles - middles.mean()).sum()))
            half = noise * (_INTERVAL * apart + _POSITIVE * float((middles - middles[0]).sum())) * values / about
            yield f"{column.name} by {axes.names[group]} ±{float(f'{half:.2g}'):g}"
