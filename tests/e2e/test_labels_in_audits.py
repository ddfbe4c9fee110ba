"""Audits read labels as the public set of the mechanism spells them, like the runs that they attack."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from dptext.cli.app import app
from dptext.cli.audit import EXIT_REFUTED
from dptext.text.samples import SAMPLE_LABELS, sample_records
from hashed_words import HashedWords

LABELS = {label: i for i, label in enumerate(SAMPLE_LABELS)}
MECHANISM = ["--mechanism", "label_only", "--set", "epsilon=6", "--set", "embedder=tfidf"]


def write(path: Path, spelling: str, seed: int) -> Path:
    """Texts of six authors with numbers for labels, each spelled in one way."""
    rows = [
        {"text": each.text, "label": spelling.format(LABELS[str(each.label)]), "author": f"a{i % 6}"}
        for i, each in enumerate(sample_records(120, seed=seed))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.slow_cases(
    "trait", "membership- {}", "authorship-{}.0", why="two commands stay with one spelling each, and each spelling"
)
@pytest.mark.parametrize("other", ["{}.0", " {}"])
@pytest.mark.parametrize("command", ["membership", "authorship", "trait"])
def test_another_spelling_of_the_labels_changes_no_number(
    command: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dptext.cli.audit import inference

    monkeypatch.setattr(inference, "load_encoder", HashedWords)
    labels = json.dumps([str(number) for number in LABELS.values()])
    public = write(tmp_path / "public.jsonl", "{}", seed=7)
    answers = []
    for spelling in ("{}", other):
        files = [
            write(tmp_path / f"{part}.jsonl", spelling, seed=part) for part in range(2 if command == "trait" else 1)
        ]
        more = {
            "membership": ["--attack", "loss"],
            "authorship": ["--author-field", "author", "--train-texts", "8", "--attacked-texts", "4"],
            "trait": ["--attacker", "tfidf", "--training", "60", "--attacked", "30"],
        }[command]
        given = ["audit", command, *map(str, files), *MECHANISM, "--set", f"labels={labels}", *more]
        done = CliRunner().invoke(
            app, [*given, "--public", str(public), "--label-field", "label", "--seed", "3", "--json"]
        )
        assert done.exit_code == 0, (done.output, done.exception)
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of epsilon 6 per label."""
    folder = tmp_path_factory.mktemp("labels")
    public = write(folder / "public.jsonl", "{}", seed=7)
    given = ["--set", "labels=0,1,2,3", "--public", str(public), "--label-field", "label", "--out", str(folder / "m")]
    done = CliRunner().invoke(app, ["fit", *MECHANISM, *given])
    assert done.exit_code == 0, (done.output, done.exception)
    return folder / "m"


def audited(command: str, model: Path, *more: str) -> Result:
    given = ["audit", command, "--model", str(model), "--claim", "2", "--trials", "400", "--seed", "1"]
    return CliRunner().invoke(app, [*given, *more])


@pytest.mark.parametrize("command", ["distinguish", "exact"])
def test_too_small_an_epsilon_of_labels_is_refuted_without_a_pair(command: str, model: Path) -> None:
    done = audited(command, model)
    assert done.exit_code == EXIT_REFUTED, (done.output, done.exception)
    assert "The claim of epsilon 2 per document is refuted: " in done.stdout
    assert "sampler" not in done.stdout


def test_a_pair_has_the_labels_that_are_given(model: Path) -> None:
    pair = ("--first", "so", "--second", "so")
    done = audited("distinguish", model, *pair)
    assert done.exit_code == 0
    assert "both texts have none: --first-label and --second-label give them." in done.stderr
    done = audited("distinguish", model, *pair, "--first-label", "0", "--second-label", "1")
    assert done.exit_code == EXIT_REFUTED, (done.output, done.exception)
    assert "both texts have none" not in done.stderr


def test_a_text_of_a_pair_may_be_empty(model: Path) -> None:
    done = audited("distinguish", model, "--first", "", "--second", "so it is")
    assert done.exit_code == 0, (done.output, done.exception)


def test_labels_of_a_pair_are_refused_where_nothing_reads_them(model: Path) -> None:
    done = audited("distinguish", model, "--first-label", "0")
    assert "Expected --first TEXT and --second TEXT with --first-label or --second-label." in str(done.exception)
    given = ("--first", "a", "--second", "b", "--second-label", "0", "--noise", "laplace")
    done = CliRunner().invoke(app, ["audit", "distinguish", *given])
    assert "Expected no --first-label and no --second-label" in str(done.exception)
