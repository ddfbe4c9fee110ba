"""Where the laboratory is absent, measured rows of its mechanisms say what to install, or are left out and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptext.cli.app import app
from dptext.errors import ConfigError
from dptext.registry import OUR_MECHANISMS, OUR_SYNTHESES, mechanisms, syntheses
from dptext.text.samples import sample_records

LINE = "It is in dptext-lab. `make wheels` in a checkout fills dist. Run: pip install --find-links dist 'dptext[lab]'"


@pytest.fixture(autouse=True)
def _absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptext.doors.points", lambda group: [])
    kinds, ways = mechanisms(), syntheses()
    assert ([*kinds], [*ways]) == ([*OUR_MECHANISMS], [*OUR_SYNTHESES])
    for module in ("recommend", "init_texts", "mechanisms"):
        monkeypatch.setattr(f"dptext.cli.{module}.MECHANISMS", kinds)
    monkeypatch.setattr("dptext.cli.mechanisms.SYNTHESES", ways)


def call(line: str) -> tuple[str, str]:
    done = CliRunner().invoke(app, line.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


@pytest.mark.slow_cases(
    "10-token-classification",
    "10-token-meaning",
    "10-sentence-classification",
    "10-sentence-authorship",
    "10-document-meaning",
    "10-document-authorship",
    "10-author-meaning",
    "10-author-classification",
    why="each task and each unit stays once or more",
)
@pytest.mark.slow_cases("2", "5", "1000", why="every task and unit stays at an epsilon of 10")
@pytest.mark.parametrize("task", ["classification", "meaning", "authorship"])
@pytest.mark.parametrize("unit", ["token", "sentence", "document", "author"])
@pytest.mark.parametrize("epsilon", ["2", "5", "10", "1000"])
def test_recommend_answers_all_that_is_asked(task: str, unit: str, epsilon: str) -> None:
    asked = f"recommend --of texts --task {task} --unit {unit} --epsilon {epsilon}"
    told, _ = call(f"{asked} --details")
    name = told.removeprefix("Take ").partition(":")[0]
    if told.startswith("Take ") and not told.startswith("Take none"):
        (following,) = (line for line in told.splitlines() if line.startswith("Next: "))
        wanted = (
            f"dptext fit --mechanism {name} " if name in OUR_MECHANISMS else f"install {name}, and ask again. {LINE}"
        )
        assert following.startswith(f"Next: {wanted}")
    assert "\n".join(json.loads(call(f"{asked} --json")[0])["answer"]) in told


def test_recommend_says_what_brings_the_best() -> None:
    told, _ = call("recommend --of texts --task meaning --epsilon 1000")
    assert told.startswith("Take erae:")
    assert f"\nNext: install erae, and ask again. {LINE}\n" in told


def test_init_leaves_out_what_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, part in (("public", sample_records(40)), ("private", sample_records(60)[40:])):
        Path(f"{name}.jsonl").write_text("".join(json.dumps({"text": each.text}) + "\n" for each in part), "utf-8")
    told, said = call("init private.jsonl --for texts --public public.jsonl --unit document --epsilon 5 --task meaning")
    assert "measured mechanisms are not installed and left out, such as adept. " + LINE in said
    assert said.startswith("9 ")
    assert told.startswith(
        "Take candidates: at epsilon 5 per document it measured best for meaning on 3 of our corpora"
    )
    assert 'kind = "candidates"' in Path("dptext.toml").read_text("utf-8")


@pytest.mark.parametrize("name", ["adept", "redaction", "prediction"])
def test_mechanisms_names_the_package(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call(f"mechanisms {name}")
    said = str(caught.value)
    assert said.startswith(f"Expected a mechanism, found '{name}'. ")
    assert said.endswith(LINE) is (name != "redaction")
