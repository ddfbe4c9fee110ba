"""`dptext audit divergence`: from files to a table, figures and JSON, exit codes; no text in anything that is shown."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dptext.cli.app import app, exit_code
from dptext.errors import DPTextError
from dptext_lab.redaction.divergence import density_ratio, estimators
from vectors import WORDS

CANARY = "zqxcanaryxv"
FEW = ("--embedding", "tfidf", "--components", 4, "--alphas", "1.1,2,5", "--text-field", "body", "--seed", 1)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density_ratio, "MOST_EPOCHS", 2)
    monkeypatch.setattr(estimators, "NEAREST_HALVES", 5)


def written(path: Path, likes: list[str], count: int, seed: int, mark: str = "") -> Path:
    rng = np.random.default_rng(seed)
    texts = [" ".join([*rng.choice(WORDS[:80], 5), *rng.choice(likes, 3), mark]).strip() for _ in range(count)]
    path.write_text("".join(json.dumps({"body": text}) + "\n" for text in texts), "utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    return (
        written(tmp_path / "a.jsonl", WORDS[:4], 90, 1, CANARY),
        written(tmp_path / "b.jsonl", WORDS[4:8], 90, 2, CANARY),
        written(tmp_path / "public.jsonl", WORDS[:80], 150, 3),
    )


def dptext(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, DPTextError):
        return exit_code(result.exception), result.stdout, f"{result.stderr}dptext: {result.exception}\n"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.slow  # tests/unit/audits has the audit, the tests below the command
def test_from_files_to_a_table_figures_and_json(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, public = files
    out = tmp_path / "found"
    code, shown, said = dptext(
        "audit", "divergence", first, second, "--public", public, *FEW, "--attack-accuracy", ".9,.85,.95", "--out", out,
        "--json",
    )  # fmt: skip
    assert code == 0, said
    data = json.loads(shown)
    assert set(data["epsilon"]) == {"value", "low", "high"}
    assert data["delta"] == 8e-5 + 1 / 90  # with what is trimmed
    assert data["epsilon"]["low"] > 0
    assert data["checks"][-1]["accuracy"]["low"] == 0.85
    assert "NOT an upper bound" in data["meaning"]
    assert json.loads((out / "divergence.json").read_text("utf-8")) == data
    figure = (out / "divergence.svg").read_text("utf-8")
    assert "<!-- No upper bound: estimates in one embedding -->" in figure
    assert "cheapest line above" in figure
    points = (out / "plane.svg").read_text("utf-8")
    assert "<!-- first set -->" in points
    for text in (shown, said, figure, points):
        assert CANARY not in text
        assert not any(f" {word} " in text for word in WORDS[:8])

    code, shown, said = dptext("audit", "divergence", first, second, "--public", public, *FEW)
    assert code == 0, said
    assert "not differential privacy" in shown
    assert CANARY not in shown + said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--alphas", "2;3"], "--alphas"),
        (["--alphas", "1,2"], "alpha=1.0 > 1"),
        (["--permutations", "3"], "permutations=3"),
        (["--embedding", "unheard"], "--embedding 'unheard'"),
        (["--attack-accuracy", "1.2"], "--attack-accuracy '1.2'"),
        (["--attack-accuracy", ".9,.95,.99"], "--attack-accuracy"),
        (["--delta", "0"], "delta=0.0"),
        (["--components", "90"], ""),
    ],
)
def test_settings_that_cannot_be_used_end_with_2(
    files: tuple[Path, Path, Path], options: list[str], reason: str
) -> None:
    first, second, public = files
    if options[0] == "--components":  # as many coordinates as half of the records allow no covariance
        first = written(first, WORDS[:4], 40, 1, CANARY)
        second = written(second, WORDS[4:8], 40, 2, CANARY)
        reason = "Expected"
    few = dict(zip(FEW[::2], FEW[1::2], strict=True)) | dict(zip(options[::2], options[1::2], strict=True))
    given = (each for pair in few.items() for each in pair)
    code, shown, said = dptext("audit", "divergence", first, second, "--public", public, *given)
    assert code == 2
    assert reason in said
    assert CANARY not in shown + said


def test_public_text_must_not_be_that_of_the_sets(files: tuple[Path, Path, Path]) -> None:
    first, second, _ = files
    code, shown, said = dptext("audit", "divergence", first, second, "--public", first, *FEW)
    assert code == 2
    assert "must not be fitted on what is compared" in said
    assert CANARY not in shown + said
