"""Archives are unpacked once, when the first test asks for them; small networks compute on one thread."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
import snapshot_cases as cases


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the folder of an archive, such as `runs` or `models/adept`, which nobody changes."""
    found: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in found:
            found[name] = cases.unpack(cases.HERE / f"{name}.tar.xz", tmp_path_factory.mktemp(Path(name).name))
        return found[name]

    return folder


@pytest.fixture(scope="module", autouse=True)
def _one_thread(request: pytest.FixtureRequest) -> None:
    if importlib.util.find_spec("torch") is not None and not request.module.__name__.endswith("promises"):
        request.getfixturevalue("one_thread")
