"""Texts that stay in memory after a run: in a mechanism, and in classes, modules and functions of its package."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType

import numpy as np

#: Objects that a walk visits at most.
_REACHABLE = 200_000


def texts_held_by(thing: object, *others: object) -> Iterator[str]:
    """Yield texts that can be reached from a thing and the `others` that belong to it.

    The first walk follows attributes, and class attributes. The second also follows functions (globals, closures,
    defaults, attributes, caches), classes and modules, as far as they are of the packages that define these things.
    Each walk is breadth first and visits 200,000 objects at most. Attributes of extension types and variables of
    threads and contexts are not seen.
    """
    kinds = [kind for kind in type(thing).__mro__ if kind.__module__ != "builtins"]
    seen: dict[int, object] = {}
    yield from _walk([thing, *(value for kind in kinds for value in vars(kind).values())], frozenset(), seen)
    own = [type(each) for each in (thing, *others)]
    packages = frozenset(_package(kind) for kind in own)
    yield from _walk([*own, *(sys.modules.get(kind.__module__) for kind in own)], packages, seen)


def _walk(roots: Iterable[object], packages: frozenset[str], seen: dict[int, object]) -> Iterator[str]:
    """Yield texts among the objects that were not `seen`, which keeps them, so that no other gets the id of one."""
    waiting = deque(roots)  # breadth first, because there may be more objects than can be visited
    most = len(seen) + _REACHABLE
    while waiting and len(seen) < most:
        found = waiting.popleft()
        if id(found) in seen or _is_foreign(found, packages):
            continue
        seen[id(found)] = found
        if isinstance(found, str):
            yield found
        elif isinstance(found, bytes | bytearray):
            yield found.decode("utf-8", "replace")
        elif isinstance(found, np.ndarray):
            if found.dtype.kind in "USO":
                waiting += found.ravel().tolist()
        else:
            waiting += gc.get_referents(found)
            if isinstance(found, dict):
                waiting += found  # the collector does not list keys that are texts among the referents


def _is_foreign(found: object, packages: frozenset[str]) -> bool:
    """Return whether it is a class, a module or a function of another package, which leads everywhere."""
    return isinstance(found, type | ModuleType | FunctionType) and _package(found) not in packages


def _package(found: type | ModuleType | FunctionType) -> str:
    name = found.__name__ if isinstance(found, ModuleType) else found.__module__
    return str(name).partition(".")[0]
