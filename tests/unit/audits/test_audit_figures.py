"""Figures without a library: what they say, where they draw it, and that equal numbers make equal files."""

import itertools
import math
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dptext.audits.figures import LINES, Bounds, bounds_figure, linear, roc_figure, round_ticks
from dptext.audits.roc import Roc
from dptext.errors import ConfigError

SVG = "{http://www.w3.org/2000/svg}"
CURVE = Bounds("published", (500, 1000), (0.5, 1.5), (3.8, 4.5), 1.0)
UNCLAIMED = Bounds("private phrases", (500, 1000), (0.5, 1.5), (3.8, 4.5), math.inf)
FOUND = Roc((0.001, 0.01, 1.0), (0.0, 0.2, 1.0))
GUESSED = Roc((0.001, 0.01, 1.0), (0.001, 0.01, 1.0))


def read(path: Path) -> ET.Element:
    return ET.fromstring(path.read_bytes())  # noqa: S314


def words(svg: ET.Element) -> list[str]:
    return [each.text or "" for each in svg.iter(f"{SVG}text")]


def lines(svg: ET.Element, color: str) -> list[list[tuple[float, float]]]:
    """The points of the lines of a color that are drawn as curves, in order."""
    found = [each for each in svg.iter(f"{SVG}polyline") if each.get("stroke") == color]
    return [[tuple(map(float, place.split(","))) for place in str(each.get("points")).split()] for each in found]  # type: ignore[misc]


def fits(svg: ET.Element) -> bool:
    """Whether all texts, with generous letters, and all points lie in the figure, which is no wider than 640 px."""
    left, top, width, height = map(float, str(svg.get("viewBox")).split())
    assert (left, top) == (0, 0)
    points = [point for each in svg.iter(f"{SVG}polyline") for point in lines_of(each)]
    for each in svg.iter(f"{SVG}text"):
        x, y, wide = float(each.get("x", 0)), float(each.get("y", 0)), 6.8 * len(each.text or "")
        start = x - {"start": 0.0, "middle": wide / 2, "end": wide}[str(each.get("text-anchor"))]
        points += [(start, y - 9), (start + wide, y + 3)]
    return width <= 640 and all(0 <= x <= width and 0 <= y <= height for x, y in points)


def lines_of(line: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, _, y in (each.partition(",") for each in str(line.get("points")).split())]


def test_a_figure_of_bounds_says_its_numbers(tmp_path: Path) -> None:
    bounds_figure([CURVE, UNCLAIMED], tmp_path / "a.svg", confidence=0.99)
    svg = read(tmp_path / "a.svg")
    title, said = svg[0], svg[1]
    assert (title.tag, said.tag) == (f"{SVG}title", f"{SVG}desc")
    assert title.text == "Lower bound on epsilon against the number of runs"
    assert said.text == (
        "Claimed epsilon 1. published, lower bound by runs: 0.5 by 500, 1.5 by 1,000. "
        "So many runs show at most: 3.8 by 500, 4.5 by 1,000. "
        "Nothing is claimed. private phrases, lower bound by runs: 0.5 by 500, 1.5 by 1,000. "
        "So many runs show at most: 3.8 by 500, 4.5 by 1,000."
    )
    assert svg.get("aria-labelledby") == title.get("id")
    assert svg.get("aria-describedby") == said.get("id")
    for each in ("claimed epsilon 1", "nothing claimed", "lower bound on epsilon (99%)", "500", "1,000", "claim"):
        assert each in words(svg), each
    assert fits(svg)
    for name, (color, _) in zip(("published", "private phrases"), LINES, strict=False):  # one style in all panels
        assert name in words(svg)
        assert len(lines(svg, color)) == 2  # its curve, and its line in the legend


def test_the_curve_of_a_refuted_claim_crosses_it_and_stays_below_the_ceiling(tmp_path: Path) -> None:
    bounds_figure([CURVE], tmp_path / "a.svg")
    svg = read(tmp_path / "a.svg")
    curve = lines(svg, LINES[0][0])[0]
    ceiling = lines(svg, "#777777")[0]
    claim = next(line for line in lines(svg, "#222222") if len(line) == 2 and line[0][1] == line[1][1])
    assert curve[0][0] < curve[1][0]
    assert curve[0][1] > claim[0][1] > curve[1][1]  # larger numbers are further up
    assert all(at[1] > above[1] for at, above in zip(curve, ceiling, strict=True))
    up = linear(0.5, 1.5, curve[0][1], curve[1][1])
    assert up(1.0) == pytest.approx(claim[0][1], abs=0.1)
    assert up(3.8) == pytest.approx(ceiling[0][1], abs=0.5)


@pytest.mark.parametrize("n", range(1, 6))
def test_panels_and_long_names_fit(tmp_path: Path, n: int) -> None:
    names = ("a", "a longer name of a mechanism", "b" * 200, "c")
    runs, bounds = (1, 10**4, 10**5, 10**6), (0.0, 1.0, 2.0, math.inf)
    curves = [Bounds(name, runs, bounds, (0.1, 9.0, 11.0, 14.0), float(e)) for e in range(n) for name in names]
    bounds_figure(curves, tmp_path / "a.svg")
    svg = read(tmp_path / "a.svg")
    assert fits(svg)
    assert words(svg).count("runs on each of two inputs (log scale)") == n
    assert "b" * 200 in str(svg[1].text)
    assert not any("b" * 200 in each for each in words(svg))
    assert "inf by 1,000,000" in str(svg[1].text)


def test_a_bound_is_rounded_down(tmp_path: Path) -> None:
    bounds_figure([Bounds("x", (400,), (1.23999,), (2.0,), 5.0)], tmp_path / "a.svg")
    assert "1.239 by 400" in str(read(tmp_path / "a.svg")[1].text)


def test_zeros_alone_are_drawn(tmp_path: Path) -> None:
    bounds_figure([Bounds("x", (400,), (0.0,), (0.0,), math.inf)], tmp_path / "a.svg")
    svg = read(tmp_path / "a.svg")
    assert fits(svg)
    assert {"0", "1"} <= {*words(svg)}


def test_a_figure_of_rates_says_its_numbers(tmp_path: Path) -> None:
    roc_figure({"LiRA, online": FOUND, "loss <threshold>": GUESSED}, tmp_path / "a.svg")
    svg = read(tmp_path / "a.svg")
    assert svg[0].text == "Membership inference: true against false positive rate"
    assert svg[1].text == (
        "LiRA, online, members found by non-members accused: 0% at 0.1%, 20% at 1%, 20% at 10%. "
        "loss <threshold>, members found by non-members accused: 0.1% at 0.1%, 1% at 1%, 1% at 10%."
    )
    for each in ("LiRA, online", "loss <threshold>", "guessing", "0.1%", "100%", "members found (log scale)"):
        assert each in words(svg), each
    assert fits(svg)


def test_a_curve_of_rates_keeps_its_height_until_the_next_point(tmp_path: Path) -> None:
    roc_figure({"found": FOUND}, tmp_path / "a.svg")
    svg = read(tmp_path / "a.svg")
    curve, guess = lines(svg, LINES[0][0])[0], lines(svg, "#777777")[0]
    (left, low), (right, high) = guess
    assert curve[0] == (left, low)  # no member is found at 0.1%: drawn at the lower end
    assert curve[-1] == (right, high)
    assert all((a[0] == b[0]) != (a[1] == b[1]) for a, b in itertools.pairwise(curve))
    assert curve[2][0] == pytest.approx(left + (right - left) / 3, abs=0.1)  # 1% is a third of three powers of ten
    assert curve[2][1] == pytest.approx(low + (high - low) * math.log10(200) / 3, abs=0.1)


def test_equal_numbers_make_equal_files_and_others_do_not(tmp_path: Path) -> None:
    for name, curves in {"a": [CURVE], "b": [CURVE], "c": [UNCLAIMED]}.items():
        bounds_figure(curves, tmp_path / f"{name}.svg")
    for name, rates in {"d": (FOUND, GUESSED), "e": (FOUND, GUESSED), "f": (GUESSED, FOUND)}.items():
        roc_figure(dict(zip(("x", "y"), rates, strict=True)), tmp_path / f"{name}.svg")
    a, b, c, d, e, f = ((tmp_path / f"{name}.svg").read_bytes() for name in "abcdef")
    assert a == b != c
    assert d == e != f


def test_figures_are_private_and_name_no_other_file(tmp_path: Path) -> None:
    bounds_figure([CURVE], tmp_path / "a.svg")
    roc_figure({"x": FOUND}, tmp_path / "b.svg")
    for path in (tmp_path / "a.svg", tmp_path / "b.svg"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not any(each in text for each in ("http", "url(", "href", "@", "<style", "<script", "<image"))


def test_too_many_curves_and_none_are_refused(tmp_path: Path) -> None:
    claims = [replace(CURVE, name=str(i), claimed=float(i)) for i in range(len(LINES) + 1)]
    for wrong in ([], [CURVE] * (len(LINES) + 1), claims):
        with pytest.raises(ConfigError, match="curves"):
            bounds_figure(wrong, tmp_path / "d.svg")
    for rates in ({}, {str(i): FOUND for i in range(len(LINES) + 1)}):
        with pytest.raises(ConfigError, match="curves"):
            roc_figure(rates, tmp_path / "d.svg")
    assert not (tmp_path / "d.svg").exists()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot write"):
        bounds_figure([CURVE], tmp_path / "absent" / "v.svg")
    (tmp_path / "there.svg").write_text("mine", "utf-8")
    with pytest.raises(ConfigError):
        roc_figure({"x": FOUND}, tmp_path / "there.svg")
    assert (tmp_path / "there.svg").read_text("utf-8") == "mine"


def test_no_plotting_library_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from dptext.audits.figures import *; from dptext.audits.roc import Roc\n"
        "roc_figure({'x': Roc((0.01, 1.0), (0.2, 1.0))}, sys.argv[1]); sys.exit('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.svg"], check=False, timeout=60)
    assert done.returncode == 0
    assert (tmp_path / "a.svg").exists()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, 5.4), (0.0, 0.003), (0.0, 1e6), (-0.2, 1.0), (3.0, 3.1)])
def test_ticks_are_round_and_hold_the_range(low: float, high: float) -> None:
    found = round_ticks(low, high)
    assert found[0] <= low + 1e-9
    assert found[-1] >= high - 1e-9
    steps = {round(b - a, 9) for a, b in itertools.pairwise(found)}
    assert len(steps) == 1
    assert 3 <= len(found) <= 8
    step = steps.pop()
    digits = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert any(math.isclose(digits, each) for each in (1, 2, 2.5, 5))
