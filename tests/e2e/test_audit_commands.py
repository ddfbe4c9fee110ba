"""`dptext audit`: exit codes, JSON, figures, and no text of the inputs in anything that is printed."""

import json
from pathlib import Path

import numpy as np
import pytest

from commands import dptext
from dptext.cli.audit.trials import Claimed
from vectors import WORDS

CANARY = "zqxcanaryxv"
QUICK = ("--trials", "2000", "--seed", "1")


@pytest.fixture
def words(tmp_path: Path, vectors: Path) -> tuple[str, ...]:
    path = tmp_path / "spec.toml"
    path.write_text(
        f'kind = "word_metric"\nepsilon = 1.0\nnoise = "tem"\nvectors = "{vectors}"\nn_words = 300\n', "utf-8"
    )
    return ("--spec", str(path))


@pytest.mark.slow_cases("published_laplace-1-whitebox", why="a refuted claim ends so in the two tests below")
@pytest.mark.slow_cases("laplace-0-distinguish", why="test_the_classical_gaussian_falls_at_epsilon_50 ends so")
@pytest.mark.slow_cases(
    "published_laplace-1-distinguish", "laplace-0-whitebox", why="each attack and each exit code stays once"
)
@pytest.mark.parametrize("attack", ["distinguish", "whitebox"])
@pytest.mark.parametrize(("noise", "code"), [("published_laplace", 1), ("laplace", 0)])
def test_exit_codes(attack: str, noise: str, code: int) -> None:
    done = dptext("audit", attack, "--noise", noise, "--epsilon", "5", "--dim", "64", "--trials", "2000", "--seed", "1")
    assert done.returncode == code, done.stderr
    claim = "claim of epsilon 5 per document"
    said = f"The {claim} is refuted: outputs of two neighbours differ by at least epsilon "
    assert done.stdout.startswith(said if code else f"Nothing refutes the {claim}: at least epsilon ")
    assert len(done.stdout.splitlines()) <= 24
    assert "randomness:" not in done.stdout  # with --details
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("noise", "more"),
    [
        pytest.param("laplace_l1", (), marks=pytest.mark.slow),  # l2_laplace stays
        ("l2_laplace", ()),
        pytest.param("gaussian", ("--delta", "1e-5"), marks=pytest.mark.slow),
        pytest.param("privunit", (), marks=pytest.mark.slow),  # tests/statistical has both
        pytest.param("privunit_sphere", (), marks=pytest.mark.slow),  # l2_laplace stays
    ],
)
def test_sound_noises_survive_the_white_box(noise: str, more: tuple[str, ...]) -> None:
    done = dptext("audit", "whitebox", "--noise", noise, "--epsilon", "4", "--dim", "16", *QUICK, *more)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_classical_gaussian_falls_at_epsilon_50() -> None:
    settings = ("--noise", "classical_gaussian", "--epsilon", "50", "--delta", "1e-5", "--dim", "8")
    assert dptext("audit", "whitebox", *settings, *QUICK).returncode == 1
    assert dptext("audit", "distinguish", *settings, *QUICK).returncode == 0  # beyond what counting can show


def test_json_is_one_object_that_says_everything() -> None:
    done = dptext("audit", "distinguish", "--noise", "published_laplace", "--epsilon", "5", *QUICK, "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 1
    assert data["refuted"] is True
    assert data["claim"]["basis"] == "claimed"
    assert data["claim"]["epsilon"] == 5.0
    report = data["report"]
    assert report["epsilon_lower_bound"] > 5
    assert report["ceiling"] > report["epsilon_lower_bound"]
    assert report["signature"]["trials"] == 2000
    assert report["unit"] == "document"


@pytest.mark.slow  # tests/unit/audits has the audit, test_exit_codes the command
def test_mechanisms_and_texts(words: tuple[str, ...]) -> None:
    done = dptext("audit", "exact", *words, "--first", WORDS[0], "--second", WORDS[40], *QUICK)
    assert done.returncode == 0, done.stderr
    assert "(exact)" in done.stdout
    smaller = dptext("audit", "exact", *words, "--first", WORDS[0], "--second", WORDS[40], *QUICK, "--claim", "0.3")
    assert smaller.returncode == 1
    known = dptext("audit", "distinguish", *words, "--first", WORDS[0], "--second", CANARY, *QUICK)
    assert known.returncode == 0, known.stderr
    assert CANARY not in known.stdout + known.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("distinguish", "--noise", "lapalce"), "to be one of"),
        (("distinguish", "--noise", "laplace", "--mechanism", "word_metric"), "Expected one of --noise"),
        (("distinguish",), "Expected one of --mechanism"),
        (("distinguish", "--noise", "laplace", "--trials", "10"), "trials=10"),
        (("distinguish", "--noise", "laplace", "--epsilon", "-1"), "epsilon=-1"),
        (("whitebox", "--noise", "gaussian", "--dim", "4"), "--delta 1e-5"),
        (("exact", "--mechanism", "word_metric", "--set", "epsilon=1", "--epsilon", "2"), "Expected epsilon once"),
        (("distinguish", "--mechanism", "word_metric", "--dim", "3"), "Expected --noise with --dim"),
        (("whitebox", "--mechanism", "word_metric", "--clip-norm", "2"), "Expected --noise with --clip-norm"),
        (("whitebox", "--noise", "privunit_sphere", "--clip-norm", "2"), "Expected clip_norm=1"),
        (("reconstruction", "--noise", "laplace", "--candidates", "1"), "candidates"),
        (("whitebox", "--noise", "laplace", "--delta", "1e-5"), "--noise laplace without --delta, or with --claim"),
        (("sensitivity", "--clip", "l7"), "--clip"),
    ],
)
def test_bad_usage_ends_with_2_and_one_line(arguments: tuple[str, ...], wanted: str) -> None:
    done = dptext("audit", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert wanted in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_epsilon_is_that_of_the_mechanism(vectors: Path) -> None:
    given = Claimed(mechanism="word_metric", assignments=[f"vectors={vectors}", "n_words=300"], epsilon=7.0)
    assert given.on_trial()[1].epsilon == 7


def test_no_neighbours_are_refused_without_their_text(words: tuple[str, ...]) -> None:
    done = dptext("audit", "distinguish", *words, "--first", f"{CANARY} a", "--second", f"b c {CANARY}", *QUICK)
    assert done.returncode == 2
    assert "exactly one token" in done.stderr
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.slow  # unit tests have the figures, test_exit_codes the command
def test_figures(tmp_path: Path) -> None:
    curve, shares = tmp_path / "curve.svg", tmp_path / "shares.svg"
    published = ("audit", "distinguish", "--noise", "published_laplace", "--epsilon", "5", "--confidence", "0.9")
    done = dptext(*published, *QUICK, "--figure", curve)
    assert done.returncode == 1, done.stderr
    assert "lower bound on epsilon (90%)" in curve.read_text("utf-8")
    done = dptext("audit", "sensitivity", "--dims", "1,2,4,8", "--figure", shares)
    assert done.returncode == 1, done.stderr
    for path in (curve, shares):
        assert path.read_text("utf-8").startswith("<?xml")
    done = dptext("audit", "whitebox", "--noise", "laplace", *QUICK, "--figure", curve)
    assert done.returncode == 2


def test_sensitivity_of_real_vectors(tmp_path: Path) -> None:
    latents = tmp_path / "latents.npy"
    np.save(latents, np.random.default_rng(0).normal(size=(200, 64)))
    assert dptext("audit", "sensitivity", "--latents", latents, "--clip-norm", "1").returncode == 1
    assert dptext("audit", "sensitivity", "--latents", latents, "--clip-norm", "1", "--clip", "l1").returncode == 0


@pytest.mark.slow
def test_reconstruction(tmp_path: Path) -> None:
    common = ("audit", "reconstruction", "--epsilon", "5", "--dim", "64", "--trials", "2000", "--seed", "1")
    published = dptext(*common, "--noise", "published_laplace")
    assert published.returncode == 1, published.stderr
    corrected = dptext(*common, "--noise", "laplace", "--json")
    assert corrected.returncode == 0, corrected.stderr
    assert json.loads(corrected.stdout)
    large = dptext("audit", "reconstruction", "--noise", "published_laplace", "--epsilon", "20", "--dim", "64", *QUICK)
    assert large.returncode == 0
    assert "whitebox" in large.stdout
