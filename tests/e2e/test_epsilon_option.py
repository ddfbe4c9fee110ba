"""`--epsilon` of the commands that name a mechanism is `--set epsilon=`, and what contradicts it is refused."""

import json
from pathlib import Path

import pytest

from commands import dptext


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"text": f"some words {i}", "label": "ab"[i % 2]} for i in range(12)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


def settings(folder: Path, name: str) -> dict[str, object]:
    found = json.loads((folder / name).read_text("utf-8"))["settings"]
    assert isinstance(found, dict)
    return found


def test_it_is_what_set_says(folder: Path, vectors: Path) -> None:
    word = ("--mechanism", "word_metric", "--set", f"vectors={vectors}", "--set", "n_words=300")
    done = dptext("fit", *word, "--epsilon", "3.5", "--out", "model", cwd=folder)
    assert done.returncode == 0, done.stderr
    for target, how in (("option.jsonl", ("--epsilon", "3.5")), ("set.jsonl", ("--set", "epsilon=3.5"))):
        done = dptext("privatize", "in.jsonl", target, *word, *how, cwd=folder)
        assert done.returncode == 0, done.stderr
    done = dptext("privatize", "in.jsonl", "model.jsonl", "--model", "model", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = [settings(folder, f"{name}.jsonl.guarantee.json") for name in ("option", "set", "model")]
    assert found[0] == found[1] == found[2]
    assert found[0]["epsilon"] == 3.5


def test_explain_takes_it_as_well(folder: Path) -> None:
    explain = ("explain", "--mechanism", "candidates", "--json")
    option, assigned = (dptext(*explain, *how, cwd=folder) for how in (("--epsilon", "2"), ("--set", "epsilon=2")))
    assert option.returncode == 0, option.stderr
    assert option.stdout == assigned.stdout
    (folder / "model").mkdir()
    for read in ("in.jsonl.guarantee.json", "model"):
        done = dptext("explain", read, "--epsilon", "2", cwd=folder)
        assert done.returncode == 2
        assert "Expected a certificate or a mechanism with settings, not both." in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "--out", "model"),
        ("privatize", "in.jsonl", "out.jsonl"),
        ("explain",),
        ("audit", "authorship", "in.jsonl"),
        ("audit", "membership", "in.jsonl"),
    ],
)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--mechanism", "word_metric", "--set", "epsilon=2"), "Expected epsilon once, found it as --epsilon and by"),
        (("--mechanism", "random_redaction"), "Expected no --epsilon: random_redaction has no such setting. Its "),
        (("--spec", "spec.toml"), "Expected epsilon once, found --epsilon 1 and epsilon = 3.0 in spec.toml"),
        (("--mechanism", "prototypes"), "which answers a corpus: dptext synthesize"),
        ((), "Expected one of --mechanism NAME, --spec FILE.toml"),
    ],
)
def test_what_contradicts_it_is_refused(
    command: tuple[str, ...], given: tuple[str, ...], said: str, folder: Path
) -> None:
    (folder / "spec.toml").write_text('kind = "word_metric"\nepsilon = 3.0\n', "utf-8")
    done = dptext(*command, *given, "--epsilon", "1", cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert {path.name for path in folder.iterdir()} == {"in.jsonl", "spec.toml"}


def test_a_file_of_settings_may_leave_it_out_or_say_the_same(folder: Path, vectors: Path) -> None:
    for i, line in enumerate(("", "epsilon = 3\n")):
        (folder / "spec.toml").write_text(
            f'kind = "word_metric"\n{line}vectors = "{vectors}"\nn_words = 300\n', "utf-8"
        )
        done = dptext("privatize", "in.jsonl", f"{i}.jsonl", "--spec", "spec.toml", "--epsilon", "3", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert settings(folder, f"{i}.jsonl.guarantee.json")["epsilon"] == 3


def test_a_model_has_its_epsilon(folder: Path) -> None:
    (folder / "model").mkdir()
    done = dptext("privatize", "in.jsonl", "out.jsonl", "--model", "model", "--epsilon", "1", cwd=folder)
    assert done.returncode == 2
    assert "Expected no --epsilon with --model: a model was fitted with its epsilon" in done.stderr
    assert "dptext fit --epsilon N --out MODEL" in done.stderr


def test_it_changes_the_mechanism_of_the_folder(folder: Path, vectors: Path) -> None:
    (folder / "dptext.toml").write_text(
        f'[mechanism]\nkind = "word_metric"\nepsilon = 9.0\nvectors = "{vectors}"\nn_words = 300\n', "utf-8"
    )
    done = dptext("privatize", "in.jsonl", "out.jsonl", "--epsilon", "4", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert settings(folder, "out.jsonl.guarantee.json")["epsilon"] == 4
