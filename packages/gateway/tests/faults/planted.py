"""A pytest plugin that plants a fault: what lies at a place is replaced by what a maker makes of it.

DPTEXT_PLANTED='["dptext_gateway.work:Models.mark", "gateway_faults:one_mark"]' python -m pytest -p planted ...

A fault that cannot be planted any more, as the place is gone or takes something else, ends the process as no failing
test does.
"""

import functools
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fitting() -> Iterator[None]:
    """End the process where a replacement and what is around it do not fit together."""
    try:
        yield
    except (AttributeError, ImportError, NameError, TypeError):
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(99)


def watched(found: Any) -> Any:
    """End the process when a call of the function shows that a planted fault does not fit the code."""
    if not inspect.iscoroutinefunction(found):
        return fitting()(found) if inspect.isfunction(found) else found

    @functools.wraps(found)
    async def call(*given: object, **named: object) -> object:
        with fitting():
            return await found(*given, **named)

    return call


def plant(place: str, maker: str) -> None:
    """Replace what lies at "module:name" or "module:Class.name" by what "module:function" makes of it."""
    (module, names), (other, function) = place.split(":"), maker.split(":")
    *owners, name = names.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    setattr(owner, name, watched(getattr(importlib.import_module(other), function)(getattr(owner, name))))


with fitting():
    plant(*json.loads(os.environ["DPTEXT_PLANTED"]))
