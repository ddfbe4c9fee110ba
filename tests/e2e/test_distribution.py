"""Wheel and sdist hold what they should, and the main commands run outside the repository in an environment of each."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from dptext.text.samples import sample_records
from environments import ROOT, Environment, archives

pytestmark = pytest.mark.slow

WANTED = ("Makefile", "CONTRIBUTING.md", "locks/dev.txt", "conftest.py", "docs/index.md", "tests/commands.py")
LABELS = """'labels=["health", "leisure", "money", "travel"]'"""
#: What runs with no extra, one line after the other.
PLAIN = """
dptext --help
dptext mechanisms
dptext check private.csv
dptext init private.csv --text-field text --public public.csv --epsilon 4 --unit document
dptext recommend --epsilon 4
dptext explain --mechanism adept --set epsilon=10
dptext fit --mechanism candidates --set epsilon=4 --set ranker=tfidf --public public.csv --out notes.model
dptext privatize private.csv out.csv --model notes.model
dptext explain out.csv --for legal
dptext explain out.csv
"""
SBERT = f"""
pip install torch==2.13.0 'dptext[sbert]'
dptext init private.csv --text-field text --public public.csv --epsilon 4 --unit document
dptext fit
dptext privatize private.csv out.csv
dptext utility fidelity private.csv out.csv --public public.csv
dptext synthesize private.csv corpus.jsonl --public public.csv --label-field label --set {LABELS}
dptext explain corpus.jsonl
"""


def test_the_archives_hold_what_they_should() -> None:
    (wheel,), (sdist,) = archives().glob("*.whl"), archives().glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {
        f"dptext/{path.relative_to(ROOT / 'src' / 'dptext')}" for path in (ROOT / "src" / "dptext").rglob("*.py")
    }
    data = {f"dptext/compare/report/templates/{name}" for name in ("report.html", "report.css")}
    assert modules | data | {"dptext/py.typed", "dptext/recommend/measured.json"} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"dptext"}
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert set(WANTED) <= inside


@pytest.mark.parametrize("lines", [PLAIN, SBERT], ids=["plain", "sbert"])
def test_the_main_commands_run_in(lines: str, tmp_path: Path) -> None:
    environment, folder = Environment.made(tmp_path), tmp_path / "work"
    folder.mkdir()
    records = sample_records(200)
    for name, part in (("public", records[:150]), ("private", records[150:])):
        rows = "".join(f'"{r.text}",{r.label}\n' for r in part)
        (folder / f"{name}.csv").write_text(f"text,label\n{rows}", "utf-8")
    done = environment.run(lines, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Verified" in done.stdout
