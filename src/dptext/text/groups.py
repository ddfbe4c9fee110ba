"""Columns that come in parts of any size, cut into groups of a bounded size."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

Part = TypeVar("Part", bound=Sequence[Any])


def groups(
    parts: Iterable[Part],
    lengths: Callable[[Part], Sequence[int]],
    joined: Callable[[Sequence[Part]], Part],
    *,
    size: int,
    characters: int,
) -> Iterator[Part]:
    """Groups of at most `size` items, each ended by the item that brings it to so many characters.

    Where a group ends follows from the items and their lengths alone, and not from the parts in which they come, each
    of one item at least.
    """
    open_group: list[Part] = []
    items = total = 0
    for part in parts:
        sizes = lengths(part)
        start = 0
        while start < len(sizes):
            stop, full, total = _end(sizes, start, size - items, characters, total)
            open_group.append(part[start:stop] if stop - start < len(sizes) else part)  # type: ignore[arg-type]  # a slice
            items += stop - start
            start = stop
            if full:
                yield joined(open_group)
                open_group, items, total = [], 0, 0
    if open_group:
        yield joined(open_group)


def _end(sizes: Sequence[int], start: int, room: int, characters: int, total: int) -> tuple[int, bool, int]:
    """Where the items of a part end that still go into a group, whether it is full then, and its characters."""
    taken = sizes[start : start + room]
    together = total + sum(taken)
    if together < characters:
        return start + len(taken), len(taken) == room, together
    for place, reached in enumerate(accumulate(taken, initial=total)):
        if place and reached >= characters:
            return start + place, True, reached
    raise AssertionError("the sum reaches what its parts do")
