"""Where the files of the three packages lie, for tests that read them."""

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The folders with the source of each package: the library, the gateway and the laboratory.
TREES = (
    ROOT / "src" / "dptext",
    ROOT / "packages" / "gateway" / "dptext_gateway",
    ROOT / "packages" / "lab" / "dptext_lab",
)


def sources() -> dict[str, str]:
    """The text of each module of the three packages, by its path in the repository."""
    return _texts(TREES)


def below(*names: str) -> dict[str, str]:
    """The text of each Python file in the folders of these names, at the root and in each package, by its path."""
    return _texts(folder for name in names for folder in (ROOT / name, *sorted(ROOT.glob(f"packages/*/{name}"))))


def _texts(folders: Iterable[Path]) -> dict[str, str]:
    paths = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
