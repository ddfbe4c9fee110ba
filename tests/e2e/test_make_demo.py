"""`make demo` installs the library alone, and in what it installed the first commands work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dptext.text.samples import sample_records
from environments import ROOT

LAB = "It is in dptext-lab. `make wheels` in a checkout fills dist. Run: pip install --find-links dist 'dptext[lab]'"
#: Lines that end with 0, and what each prints.
LINES = {
    "dptext --help": "  synthesize ",
    "dptext mechanisms": "dptext mechanisms NAME explains one,",
    "dptext recommend --of texts --task meaning --epsilon 1000": LAB,
    "dptext doctor": "What `summarize` and `write` need is here.",
    "dptext init private.csv --for texts --text-field text --public public.csv --epsilon 4": "Written: dptext.toml",
    "dptext fit": "",
    "dptext privatize private.csv out.csv": "",
    "dptext explain out.csv": "Verified",
    "dptext synthesize private.csv corpus.jsonl --public public.csv --label-field label --set "
    """'labels=["health","leisure","money","travel"]'""": "Written: corpus.jsonl",
    "dptext explain corpus.jsonl": "Verified",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the programs of the environment that `make demo` made, and what `make demo` printed."""
    folder = tmp_path_factory.mktemp("demo") / "environment"
    make = ["make", "--no-print-directory", "demo", f"VENV={folder}", f"PYTHON={sys.executable}"]
    done = run(make, ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin", done.stdout


def run(line: list[str], cwd: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line that finds the programs of the environment, and no module of another."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAKE", "VIRTUAL_ENV"))}
    own = {**kept, "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"}
    return subprocess.run(line, cwd=cwd, env=own, capture_output=True, text=True, timeout=600, check=False)


def test_the_demo_is_the_last_thing_that_make_prints(environment: tuple[Path, str]) -> None:
    _, told = environment
    screen = told.partition("/bin/dptext demo\n")[2]
    assert len(screen.splitlines()) <= 40
    assert "The claim of epsilon 1 per document is refuted" in screen
    assert "Nothing refutes the claim of epsilon 1 per document" in screen


@pytest.mark.parametrize("name", ["torch", "transformers", "sentence_transformers", "dptext_lab", "matplotlib"])
def test_it_is_the_library_alone(name: str, environment: tuple[Path, str], tmp_path: Path) -> None:
    done = run(["python", "-c", f"import {name}"], tmp_path, environment[0].parent)
    assert done.returncode == 1
    assert f"No module named '{name}'" in done.stderr


def test_the_first_commands_work(environment: tuple[Path, str], tmp_path: Path) -> None:
    records = sample_records(200)
    for name, part in (("public", records[:150]), ("private", records[150:])):
        rows = "".join(f'"{record.text}",{record.label}\n' for record in part)
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}", "utf-8")
    for line, said in LINES.items():
        done = run(["bash", "-c", line], tmp_path, environment[0].parent)
        assert done.returncode == 0, (line, done.stderr)
        assert said in done.stdout, line


@pytest.mark.parametrize(
    "line", ["explain --mechanism adept", "mechanisms adept", "audit sensitivity", "report results"]
)
def test_what_the_laboratory_brings_says_what_to_install(
    line: str, environment: tuple[Path, str], tmp_path: Path
) -> None:
    done = run(["dptext", *line.split()], tmp_path, environment[0].parent)
    assert done.returncode == 2
    assert done.stderr.endswith(f"{LAB}\n")
