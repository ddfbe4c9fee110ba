"""Packages that are installed for a test: that of tests/package by pip, and others by their files alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Interpreter

ROOT = Path(__file__).parents[1]


def search_path(*installed: Path) -> str:
    return os.pathsep.join(map(str, [*installed, ROOT / "src"]))


def run(arguments: list[str], folder: Path, *installed: Path) -> subprocess.CompletedProcess[str]:
    """Python in that folder, with what is installed in the other ones."""
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search_path(*installed)},
    )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed tests/package into; hatchling, which builds it, is in the locked environment."""
    folder = tmp_path_factory.mktemp("installed")
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    done = run([*pip, "--no-build-isolation", "--target", str(folder), str(ROOT / "tests" / "package")], folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def interpreter(installed: Path) -> Iterator[Interpreter]:
    """Runs commands where that package is installed."""
    found = Interpreter(installed, env={"PYTHONPATH": search_path(installed)})
    yield found
    found.close()


def write_package(
    folder: Path, name: str, brings: str, code: str, group: str = "dptext.mechanisms", version: str = "1.0"
) -> None:
    """An installed package with one module, whose entry point of the name `brings` is a `Theirs` in it."""
    stem = name.replace("-", "_")
    module = f"module_of_{stem}"  # one of ours may be installed under the package's own name
    (folder / f"{module}.py").write_text(code, "utf-8")
    info = folder / f"{stem}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\n{brings} = {module}:Theirs\n", "utf-8")
