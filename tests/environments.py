"""Environments as users have them: built wheels, what their extras bring, and nothing else."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
#: Versions as locked. uv reads no settings of pip, which may know of a torch without CUDA.
SETTINGS = {"UV_CONSTRAINT": str(ROOT / "locks" / "dev.txt"), "LINKS": os.environ.get("PIP_FIND_LINKS", "")}
#: Of a shell in an environment: `pip` takes locked versions, and `dptext serve` goes on in the background.
BEGIN = """
set -eu
pip() { "$UV" --quiet pip "$@" ${LINKS:+--find-links "$LINKS"}; }
refuted() { local code=0; "$@" || code=$?; [ $code -eq 1 ]; }
dptext() {
  if [ "$1" != serve ]; then command dptext "$@"; return; fi
  command dptext "$@" > serve.log 2>&1 &
  server=$!
  trap 'kill $server 2> /dev/null || true; wait || true' EXIT
  until grep -q Serving serve.log; do
    if ! kill -0 $server 2> /dev/null; then cat serve.log >&2; wait $server; fi
    sleep .3
  done
}
"""


#: The folder of each package in a copy of the repository, by the name of its archives; the library first.
PROJECTS = {"dptext": ".", "dptext_gateway": "packages/gateway", "dptext_lab": "packages/lab"}


def build(root: Path, folder: Path) -> Path:
    """Fill the folder with a wheel and an sdist of each package, each wheel made from its sdist."""
    for project in PROJECTS.values():
        subprocess.run([UV, "build", "--quiet", "--out-dir", str(folder), str(root / project)], check=True)
    return folder


@functools.cache
def archives() -> Path:
    """The folder of the archives of this tree."""
    return build(ROOT, Path(tempfile.mkdtemp()))


@dataclass(frozen=True)
class Environment:
    """A new virtual environment that holds the library's wheel, and the folder of the archives of all packages."""

    folder: Path
    built: Path

    @classmethod
    def made(cls, folder: Path, built: Path | None = None) -> "Environment":
        """Install the library's wheel from the folder of archives that were built; this tree's, if none is given."""
        venv.create(folder / "environment")
        found = cls(folder, built or archives())
        (wheel,) = found.built.glob("dptext-*.whl")
        done = found.run(f"pip install '{wheel}'")
        assert done.returncode == 0, done.stderr
        return found

    @property
    def bin(self) -> Path:
        return self.folder / "environment" / "bin"

    def run(self, script: str, *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs lines as a user would type them: the archives are in `dist`, and no path is of this repository."""
        cwd = cwd or self.folder
        if not (cwd / "dist").exists():
            (cwd / "dist").symlink_to(self.built)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        own = {"VIRTUAL_ENV": str(self.bin.parent), "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin", "UV": UV}
        return subprocess.run(
            ["bash", "-c", BEGIN + script],
            check=False,
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**kept, **SETTINGS, **own},
        )
