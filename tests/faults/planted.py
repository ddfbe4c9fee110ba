"""A pytest plugin that plants a fault, as DPTEXT_PLANTED says: a function is another, or lines of one module.

DPTEXT_PLANTED='["dptext.service.work:Models.mark", "gateway_faults:one_mark"]' python -m pytest -p planted ...
DPTEXT_PLANTED='["dptext.service.work", "old source", "new source"]' python -m pytest -p planted ...
"""

import functools
import importlib
import importlib.machinery
import json
import os
import sys
from importlib.abc import MetaPathFinder
from types import CodeType

MODULE, OLD, NEW = [*json.loads(os.environ["DPTEXT_PLANTED"]), ""][:3]
PAIRS = [(OLD, NEW)] if isinstance(OLD, str) else list(zip(OLD, NEW, strict=True))


def ended(reason: str) -> None:
    """End in a way that no failing test ends in."""
    print(reason, file=sys.stderr, flush=True)
    os._exit(99)


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles the module with its fault, and leaves the compiled files of the sound one alone."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the faulty module."""
        source = self.get_data(self.path).decode()
        for old, new in PAIRS:
            if source.count(old) != 1:
                ended(f"Expected {old!r} once in {MODULE}, found it {source.count(old)} times.")
            source = source.replace(old, new)
        return compile(source, self.path, "exec")


class Finder(MetaPathFinder):
    """Finds the module alone."""

    def find_spec(self, fullname, path, target=None):
        """Where it lies, with its loader."""
        if fullname != MODULE:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        found.loader = Loader(fullname, found.origin)
        return found


def replace(place: str, replacement: str) -> None:
    """Put what a function of another module gives into a place, "module:name" or "module:Class.name"."""
    (module, names), (other, function) = place.split(":"), replacement.split(":")
    *owners, name = names.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    setattr(owner, name, getattr(importlib.import_module(other), function)(getattr(owner, name)))


if ":" in MODULE:
    replace(MODULE, OLD)
else:
    if MODULE in sys.modules:
        ended(f"Expected {MODULE} not to be imported yet.")
    sys.meta_path.insert(0, Finder())
