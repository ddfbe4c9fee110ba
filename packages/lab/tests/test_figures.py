import math
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from commands import dptext
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.clipping import Norm
from dptext_lab import figures as report
from dptext_lab.refutation.claims import Claim
from dptext_lab.refutation.simulation import Normal, Uniform, Violations, simulate
from scripts import load_script

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


@pytest.fixture(scope="module")
def rows() -> list[Violations]:
    laws = (Uniform(), Normal(0.1), Normal(0.01))
    return [simulate(Claim(dim=dim), law, pairs=300) for dim in (1, 2, 4, 8, 16, 24) for law in laws]


@pytest.fixture(scope="module")
def drawn(rows: list[Violations], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The figure of the rows, drawn once."""
    path = tmp_path_factory.mktemp("figures") / "violations.svg"
    report.violations_figure(rows, path)
    return path


def test_a_figure_says_what_it_shows(drawn) -> None:
    text = drawn.read_text("utf-8")
    assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314
    # Text is drawn as paths; matplotlib keeps it in a comment for readers and searches.
    for words in (
        "<title>Pairs of vectors that violate the claim: no two L2-clipped vectors are more than 2C apart in L1 norm",
        "<!-- Claim: no two L2-clipped vectors are more than 2C apart in L1 norm -->",
        "(300 pairs for each n)",
        "<!-- uniform in (-C, C) -->",
        "<!-- normal, sd 0.1 C -->",
        "<!-- normal, sd 0.01 C -->",
        "<!-- coordinates of a vector, n (log scale) -->",
        "<!-- pairs that violate the claim (%) -->",
        "<!-- 16 -->",
    ):
        assert words in text, words


def test_equal_numbers_make_equal_files(rows, drawn, tmp_path) -> None:
    first, second, other = drawn, tmp_path / "2.svg", tmp_path / "3.svg"
    report.violations_figure(rows, second)
    report.violations_figure(rows[:-3], other)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes() != other.read_bytes()
    assert "dc:date" not in first.read_text("utf-8")
    assert mpl.__version__ not in first.read_text("utf-8")


@pytest.mark.slow  # equal numbers make equal files in one process, above
def test_another_process_writes_the_same_file(tmp_path) -> None:
    code = (
        "import sys; from dptext_lab import figures as report; from dptext_lab.refutation.simulation import *\n"
        "report.violations_figure([simulate(Claim(dim=n), Uniform(), pairs=50) for n in (1, 2, 3)], sys.argv[1])"
    )
    theirs, ours = tmp_path / "theirs.svg", tmp_path / "ours.svg"
    subprocess.run([sys.executable, "-c", code, str(theirs)], check=True, timeout=60)
    report.violations_figure([simulate(Claim(dim=n), Uniform(), pairs=50) for n in (1, 2, 3)], ours)
    assert theirs.read_bytes() == ours.read_bytes()


def test_a_curve_a_law_and_a_mark_a_point_where_there_are_few(drawn) -> None:
    text = drawn.read_text("utf-8")
    for color, _ in report.LINES[:3]:
        assert f"stroke: {color.lower()}" in text
    assert f"stroke: {report.LINES[3][0].lower()}" not in text


def test_the_style_does_not_leak(rows, tmp_path) -> None:
    before = dict(mpl.rcParams)
    report.violations_figure(rows, tmp_path / "v.svg")
    assert dict(mpl.rcParams) == before


def test_nothing_is_written_where_drawing_fails(tmp_path) -> None:
    path = tmp_path / "v.svg"
    with pytest.raises(RuntimeError), report.drawing(path, title="never"):
        raise RuntimeError
    assert not path.exists()


def test_rows_that_are_not_of_one_claim_are_refused(rows, tmp_path) -> None:
    path = tmp_path / "v.svg"
    other = simulate(Claim(dim=3, clipped=Norm.L1), Uniform(), pairs=10)
    many = [simulate(Claim(dim=3), Normal(0.1 * i), pairs=10) for i in range(1, 6)]
    for wrong in ([], [*rows, other], many):
        with pytest.raises(ConfigError, match="Expected rows"):
            report.violations_figure(wrong, path)
    assert not path.exists()


def test_a_file_that_cannot_be_written(rows, tmp_path) -> None:
    with pytest.raises(ConfigError, match="Cannot write"):
        report.violations_figure(rows, tmp_path / "absent" / "v.svg")


def test_importing_the_module_does_not_import_matplotlib(tmp_path: Path) -> None:
    """In a process that is forked from one that has imported much, and this library in no other way."""
    script = tmp_path / "imports.py"
    code = "import sys, dptext_lab.figures, dptext_lab.cli.sensitivity; sys.exit('matplotlib' in sys.modules)"
    script.write_text(code, "utf-8")
    assert dptext(script=script).returncode == 0


def test_figures_of_experiments(tmp_path: Path) -> None:
    published = load_script("published_noise_figures", EXPERIMENTS / "published_noise" / "figures.py")
    levels = load_script("redaction_levels", EXPERIMENTS / "redaction" / "levels.py")
    share = Estimate(0.2, 0.1, 0.3, 0.95)
    success = published.Success("published", (1.0, 5.0), (share, share), (0.003, 0.13))
    published.reconstruction_figure({"n = 16": [success], "n = 64": [success]}, tmp_path / "a.svg")
    assert "<!-- n = 64 -->" in (tmp_path / "a.svg").read_text("utf-8")
    curve = levels.Levels("sentence encoder", (0.0, 0.5), (share, Estimate(math.inf, 0.1, math.inf, 0.95)))
    levels.divergence_levels_figure([curve], tmp_path / "b.svg", alpha=2.0)
    levels.epsilon_levels_figure([curve], [curve], tmp_path / "c.svg")
    assert "<!-- sentence encoder: infinite -->" in (tmp_path / "b.svg").read_text("utf-8")
    assert "<!-- attack accuracy -->" in (tmp_path / "c.svg").read_text("utf-8")
    with pytest.raises(ConfigError, match="curves"):
        published.reconstruction_figure({"n = 16": [success] * 9}, tmp_path / "d.svg")
    with pytest.raises(ConfigError, match="a value for each level"):
        levels.divergence_levels_figure([levels.Levels("half", (0.0, 0.5), (share,))], tmp_path / "d.svg", alpha=2.0)
    assert not (tmp_path / "d.svg").exists()
