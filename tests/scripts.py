"""Scripts that belong to no package, as modules, and packages that only some tests need."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load_script(name: str, path: Path) -> ModuleType:
    """The module that the file makes, known under the name, as its dataclasses look it up.

    Scripts of several folders have one name, such as grid: those of other folders are forgotten before.
    """
    for other in path.parent.glob("*.py"):
        known = sys.modules.get(other.stem)
        if other.stem != "__main__" and known is not None and Path(known.__file__ or "").parent != path.parent:
            del sys.modules[other.stem]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def needs(package: str) -> pytest.MarkDecorator:
    """Skips tests where the package is absent, and does not import it: each worker would, and few run these tests."""
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")
