"""An option of an audit that would change nothing beside the others is refused, with its name."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptext.cli.app import app
from dptext.errors import ConfigError

FILE = "texts.jsonl"
RELEASED = ("--author-field", "author", "--released", FILE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text('{"text": "a text", "label": "a", "author": "b"}\n', "utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "mode", "ignored"),
    [
        (f"reconstruction --mechanism syntf --pool {FILE} --candidates 50", "--pool FILE", "--candidates"),
        (f"reconstruction --noise laplace --pool {FILE} --candidates 50", "--pool FILE", "--candidates"),
        ("reconstruction --noise laplace --simulations 50", "--attack likelihood", "--simulations"),
        (f"membership {FILE} --label-field label --shadows 8", "--attack shokri", "--shadows"),
        (f"membership {FILE} --label-field label --attack loss --shadows 8", "--attack loss", "--shadows"),
        (f"membership {FILE} --attack reconstruction --classifier tfidf", "--attack reconstruction", "--classifier"),
        (f"authorship {FILE} {' '.join(RELEASED)} --label-field label", "releases", "--label-field"),
        (
            f"trait {FILE} {FILE} --released-a {FILE} --released-b {FILE} --label-field label",
            "releases",
            "--label-field",
        ),
        (
            f"trait {FILE} {FILE} --mechanism random_redaction --set level=.5 --epochs 2",
            "--attacker tfidf, linear, mlp",
            "--epochs",
        ),
        (
            f"trait {FILE} {FILE} -m random_redaction -s level=.5 --attacker mlp --top-layers 2 --epochs 1",
            "--attacker mlp",
            "--epochs, --top-layers",
        ),
        ("sensitivity --variances --figure out.svg", "--variances", "--figure"),
    ],
)
def test_what_would_change_nothing_is_refused_by_name(arguments: str, mode: str, ignored: str) -> None:
    done = CliRunner().invoke(app, ["audit", *arguments.split()])
    assert isinstance(done.exception, ConfigError), done.output
    said = str(done.exception)
    assert said.startswith(f"Expected {mode}"), said
    assert said.endswith(f"without {ignored}, which would change nothing: leave {ignored} out."), said


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ("reconstruction --noise laplace --record line", "--pool FILE with --record"),
        (f"authorship {FILE} {' '.join(RELEASED)} --public-text-field a", "--public FILE with --public-text-field"),
        (f"membership {FILE} --label-field label --public-sheet a", "--public FILE with --public-sheet"),
        (
            f"trait {FILE} {FILE} -m random_redaction -s level=.5 --public-record line",
            "--public FILE with --public-record",
        ),
    ],
)
def test_the_form_of_a_file_comes_with_the_file(arguments: str, file: str) -> None:
    done = CliRunner().invoke(app, ["audit", *arguments.split()])
    assert str(done.exception) == f"Expected {file}."


@pytest.mark.parametrize("options", ["", "--epsilon 5", "--norm l2"])
def test_a_delta_is_of_gaussian_noise_alone(options: str) -> None:
    done = CliRunner().invoke(app, ["audit", "sensitivity", "--delta", "1e-6", *options.split()])
    assert "Expected --delta with --variances or with --norm l2 --epsilon N" in str(done.exception)


def test_options_that_have_an_effect_are_taken(tmp_path: Path) -> None:
    for arguments in (
        "sensitivity --variances --delta 1e-6 --dims 8",
        "sensitivity --norm l2 --clip l2 --epsilon 1 --delta 1e-6 --dims 8 --pairs 100",
        "reconstruction --noise laplace --dim 8 --candidates 50 --attack surrogate --simulations 20 --trials 200",
    ):
        done = CliRunner().invoke(app, ["audit", *arguments.split(), "--json"])
        assert done.exit_code in (0, 1), (arguments, done.exception)
        assert "1e-06" in done.stdout or '"candidates": 50' in done.stdout
