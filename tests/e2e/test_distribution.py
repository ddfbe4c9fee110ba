"""Wheel and sdist build and install in an empty environment; what needs an extra there says which one."""

import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
WANTED = ("Makefile", "CONTRIBUTING.md", "locks/dev.txt", "conftest.py", "docs/index.md", "tests/conftest.py")


@dataclass(frozen=True)
class Installed:
    folder: Path
    program: Path

    def dptext(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *arguments]
        # no PYTHONPATH: what is tried is what was installed
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder, env={})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist, the wheel made from the sdist, so that this has all that is needed."""
    folder = tmp_path_factory.mktemp("built")
    subprocess.run([UV, "build", "--quiet", "--out-dir", str(folder), str(ROOT)], check=True)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv")
    (wheel,) = built.glob("*.whl")
    install = [UV, "pip", "install", "--quiet", "-p", str(folder / "venv"), "-c", str(ROOT / "locks" / "dev.txt")]
    subprocess.run([*install, str(wheel)], check=True)
    (folder / "public.txt").write_text("Pay the phone bill\nBook a train to Oslo\nPlay some jazz\n", "utf-8")
    (folder / "e.toml").write_text(
        'name = "small"\nseed = 1\nutilities = ["fidelity"]\ncorpora = { made = { sample = 60 } }\n'
        'mechanisms = [{ name = "m", kind = "syntf", set = { epsilon = 1.0 } }]\n',
        "utf-8",
    )
    (folder / "notes.txt").write_text("I owe Tom 40 dollars\n", "utf-8")
    found = Installed(folder, folder / "venv" / "bin" / "dptext")
    fit = ["fit", "--mechanism", "candidates", "--set", "epsilon=4", "--set", "ranker=tfidf", "--public", "public.txt"]
    fitted = found.dptext(*fit, "--record", "line", "--out", "notes.model")
    assert fitted.returncode == 0, fitted.stderr
    return found


def test_the_archives_hold_what_they_should(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {
        f"dptext/{path.relative_to(ROOT / 'src' / 'dptext')}" for path in (ROOT / "src" / "dptext").rglob("*.py")
    }
    data = {f"dptext/compare/report/templates/{name}" for name in ("report.html", "report.css")}
    assert modules | data | {"dptext/py.typed", "dptext/compare/measured.json"} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"dptext"}
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert set(WANTED) <= inside


def test_the_base_commands_work_without_extras(installed: Installed) -> None:
    for arguments in (
        ["--help"],
        ["mechanisms"],
        ["explain", "--mechanism", "adept", "--set", "epsilon=10"],
        ["privatize", "notes.txt", "notes.out.txt", "--record", "line", "--model", "notes.model"],
        ["recommend", "--epsilon", "5"],
        ["explain", "notes.out.txt.guarantee.json"],
    ):
        done = installed.dptext(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    assert "Verified" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "privatize notes.txt x.txt --record line --mechanism word_metric --set epsilon=5",
            "pip install 'dptext[glove]'",
        ),
        ("fit --mechanism adept --set epsilon=5 --public public.txt --record line --out x.model", "[neural"),
        ("fit --mechanism candidates --set epsilon=5 --public public.txt --record line --out x.model", "sbert"),
        ("audit distinguish --noise laplace --trials 1000", "pip install 'dptext[audit]'"),
        ("budget open notes --epsilon 1 --unit document --ledger b.db", "pip install 'dptext[ledger]'"),
        ("privatize notes.txt x.parquet --record line --model notes.model", "pip install 'dptext[parquet]'"),
        ("compare e.toml --out compared", "pip install 'dptext[parquet]'"),
        ("audit sensitivity --dims 2 --pairs 100 --figure x.svg", "dptext[report]"),
    ],
)
def test_what_needs_an_extra_names_the_line_that_installs_it(installed: Installed, arguments: str, line: str) -> None:
    done = installed.dptext(*arguments.split())
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("dptext: ")
    assert "pip install" in last
    assert line in last
