"""`dptext fit --mechanism erae` and what follows: the model, the release, what its certificate says."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptext.cli.app import app
from dptext.text.samples import sample_records

SMALL = (
    "epsilon=12",
    "max_tokens=4",
    "max_words=150",
    "hidden=16",
    "latent_dim=8",
    "embedding=8",
    "epochs=60",
    "learning_rate=0.02",
    "vectors=glove",
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": record.text}) + "\n" for record in sample_records(150)))
    return path


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_from_public_text_to_a_release(source: Path, tmp_path: Path) -> None:
    model, target = tmp_path / "model", tmp_path / "out.jsonl"
    settings = [part for setting in SMALL for part in ("--set", setting)]
    run("fit", "--mechanism", "erae", *settings, "--public", source, "--out", model)
    run("privatize", source, target, "--model", model)
    texts = [json.loads(line)["text"] for line in target.read_text().splitlines()]
    assert len(texts) == 150
    assert max(len(text.split()) for text in texts) <= 4
    assert len(set(texts)) > 20
    said = " ".join(run("explain", f"{target}.guarantee.json").split())
    assert "epsilon = 48" in said
    assert "Each of 4 words costs 12, all of them 48 without a delta" in said
    assert "all of them 48 without a delta" in " ".join(run("explain", "--mechanism", "erae", *settings).split())
