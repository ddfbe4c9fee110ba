"""The archives of a release, built in a copy of the tree that states its version and has its changelog cut.

.venv/bin/python tests/release.py 0.3.0.dev0 build/release
"""

import re
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from environments import PROJECTS, ROOT, build

#: The files that state the version of the three packages, or pin it.
STATING = ("CITATION.cff", *(f"{project}/pyproject.toml" for project in PROJECTS.values()))
_STATED = re.compile(r'(^version(?: = "|: )|"dptext[-a-z]*(?:\[[-a-z0-9,]+\])?==)([^"\n]+)', re.MULTILINE)
#: Everything that git ignores, and git.
_LEFT = (".git", ".venv", "build", "dist", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis")


def stated(text: str) -> list[str]:
    """Return the versions of our packages that a file states: its own, and those that it pins."""
    return [version for _, version in _STATED.findall(text)]


def in_version(text: str, version: str) -> str:
    """Return the text of a file that states versions, in another version."""
    return _STATED.sub(rf"\g<1>{version}", text)


def dated(text: str, day: str) -> str:
    """Return the text of a file of citations, released on another day. ValueError: it states no day."""
    found, n = re.subn(r"^(date-released: ).*$", rf"\g<1>{day}", text, flags=re.MULTILINE)
    if n != 1:
        raise ValueError("Expected one line date-released: in CITATION.cff.")
    return found


def cut(changelog: str, version: str, day: str) -> str:
    """Return the changelog with all that is unreleased under the version. ValueError: it has no part "[Unreleased]"."""
    head, mark, rest = changelog.partition("## [Unreleased]\n")
    if not mark:
        raise ValueError("Expected a part ## [Unreleased] in the changelog.")
    return f"{head}{mark}\n## [{version}] - {day}\n{rest}"


def release(version: str, tree: Path, out: Path) -> Path:
    """Copy the repository to `tree`, make it that of the version, and build its archives into `out`."""
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*_LEFT))
    for name in STATING:
        path = tree / name
        path.write_text(in_version(path.read_text("utf-8"), version), "utf-8")
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    changelog, citation = tree / "CHANGELOG.md", tree / "CITATION.cff"
    changelog.write_text(cut(changelog.read_text("utf-8"), version, day), "utf-8")
    citation.write_text(dated(citation.read_text("utf-8"), day), "utf-8")
    return build(tree, out)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        release(sys.argv[1], Path(folder) / "tree", Path(sys.argv[2]))
