"""The cells that wait for a worker, where those that share a fit wait together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dptext.compare.cells import Cell
from dptext.compare.fits import fit_key


class Waiting:
    """Cells in the order of the grid, grouped by what their fits read.

    A worker goes on with the cells of its last fit. Then it begins with a group that no worker has. Where there is
    none it helps with the largest group and fits anew, so that no worker is idle.

    Args:
        names: signatures of the cells that wait.
        cells: every cell by its signature.
    """

    def __init__(self, names: Iterable[str], cells: Mapping[str, Cell]) -> None:
        self._group = {name: fit_key(cells[name]) or name for name in names}
        self._left: dict[str, list[str]] = {}
        for name, group in self._group.items():
            self._left.setdefault(group, []).append(name)
        self._begun: set[str] = set()

    def __bool__(self) -> bool:
        """Return whether a cell waits."""
        return bool(self._left)

    def next(self, last: str = "") -> str:
        """Take a cell for the worker that ran the cell `last`; for a new worker without it. At least one must wait."""
        group = self._group.get(last, "")
        if group not in self._left:
            fresh = (one for one in self._left if one not in self._begun)
            group = next(fresh, "") or max(self._left, key=lambda one: len(self._left[one]))
        self._begun.add(group)
        name = self._left[group].pop(0)
        if not self._left[group]:
            del self._left[group]
        return name
