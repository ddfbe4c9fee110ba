"""`dptext audit authorship`: from a file to a table, exit codes, and no text or author in anything that is printed."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dptext.cli.app import app, exit_code
from dptext.errors import DPTextError
from dptext.sampling.randomness import Randomness
from hashed_words import HashedWords
from vectors import WORDS

CANARY = "zqxcanaryxv"
AUTHORS = 6


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    from dptext.embeddings import sentence_encoder

    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: HashedWords())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Fifteen texts of each author; each author likes three words of the small vocabulary."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(15 * AUTHORS):
        author = i % AUTHORS
        words = [*rng.choice(WORDS[100:], 5), *rng.choice(WORDS[author * 10 : author * 10 + 3], 3)]
        lines.append(json.dumps({"body": " ".join(rng.permutation(words)), "who": f"{CANARY}{author}"}))
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def dptext(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, DPTextError):
        return exit_code(result.exception), result.stdout, f"{result.stderr}dptext: {result.exception}\n"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.slow  # tests/unit/audits has the audit, the tests below the command
def test_from_a_file_to_a_table(source: Path, tmp_path: Path, vectors: Path) -> None:
    words = ["--mechanism", "word_metric", "--set", f"vectors={vectors}", "--set", "n_words=300", "--set"]
    fields = ["--text-field", "body", "--author-field", "who"]
    few = [*fields, "--train-texts", 9, "--attacked-texts", 6, "--seed", 1]

    found, said = {}, ""
    for epsilon in (0.01, 1000):
        code, out, err = dptext("audit", "authorship", source, *few, *words, f"epsilon={epsilon}", "--json")
        assert code == 0, err
        found[epsilon] = json.loads(out)
        said += out + err
    high, low = (found[epsilon]["attacks"][0] for epsilon in (1000, 0.01))
    assert high["accuracy"]["low"] > low["accuracy"]["high"]
    assert high["similarity"]["low"] > low["similarity"]["high"]
    assert found[1000]["claim"] is None  # it guarantees words only
    assert found[1000]["refuted"] is False
    assert found[1000]["signature"]["seed"] == 1

    released = tmp_path / "out.jsonl"
    code, _, err = dptext("privatize", source, released, *words, "epsilon=1000", "--text-field", "body")
    assert code == 0, err
    code, out, err = dptext("audit", "authorship", source, *few, "--released", released, "--bundle", 3, "--details")
    assert code == 0, err
    for shown in ("character n-grams, static", "sentence encoder, adaptive", "control: ", "originals: ", "chance"):
        assert f"| {shown}" in out
    assert "similarity" in out
    assert "6 authors, 54 training texts, 36 attacked texts, 3 texts of one author at a time" in out
    first, second, third = out.splitlines()[:3]
    assert first.startswith("Attackers name the authors better than by guessing: the best is right for ")
    assert second.startswith("The releases have a similarity of ")
    assert third.startswith("No claim for replacing one document")
    assert "they are not private" in err
    assert "attackers: 4 of 4 trained" in err
    adaptive = next(line for line in out.splitlines() if line.startswith("| character n-grams, adaptive"))
    assert float(adaptive.split("[")[1].split(",")[0]) > 1 / AUTHORS  # another order of releases would be at chance
    assert CANARY not in said + out + err


def test_a_claim_for_documents_is_tried(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Randomized response on the author survives at its epsilon; the same claim with the author passed on does not."""
    from dptext.sampling import top_k

    labels = json.dumps([f"{CANARY}{i}" for i in range(AUTHORS)])
    audit = ["audit", "authorship", source, "--text-field", "body", "--author-field", "who", "--label-field", "who"]
    audit += ["--mechanism", "label_only", "--set", "epsilon=0.5", "--set", f"labels={labels}", "--public", source]
    audit += ["--train-texts", 9, "--attacked-texts", 6, "--seed", 1]
    code, out, err = dptext(*audit)
    assert code == 0, err
    assert "Nothing refutes the claim of epsilon 0.5 per document: no difference was seen." in out
    assert "control" not in out
    assert "90 of the texts are in --public" in err
    drawn = top_k.TopKRandomizedResponse.drawn

    def best(choice: top_k.TopKRandomizedResponse, rows: int, source: Randomness) -> tuple[np.ndarray, np.ndarray]:
        hit, rank = drawn(choice, rows, source)
        return np.ones_like(hit), np.zeros_like(rank)

    monkeypatch.setattr(top_k.TopKRandomizedResponse, "drawn", best)
    code, out, err = dptext(*audit)
    assert code == 1, out + err
    assert out.startswith("The claim of epsilon 0.5 per document is refuted: outputs of two neighbours differ by ")


def test_bad_usage_ends_with_2_and_names_no_author(source: Path, tmp_path: Path, vectors: Path) -> None:
    words = ["--mechanism", "word_metric", "--set", f"vectors={vectors}", "--set", "epsilon=1"]
    fields = ["--text-field", "body", "--author-field", "who"]
    rare = [
        "--mechanism",
        "private_phrases",
        "--set",
        f"vectors={vectors}",
        "--set",
        "variance=1",
        "--set",
        "n_words=300",
        "--set",
        "common_words=100",
    ]
    small = ["--train-texts", 5, "--attacked-texts", 2]
    for arguments, wanted, status in (
        ([*words, "--text-field", "body"], "--author-field", 2),
        (fields, "Expected one of --mechanism", 2),
        ([*fields, *words, "--released", source], "Expected one of --mechanism", 2),
        ([*fields, *words], "for 6 of 6 authors", 2),
        ([*fields, *words, "--bundle", 11], "--bundle 11", 2),
        ([*fields, *words, "--train-texts", 0], "train_texts=0", 2),
        ([*fields, *words, "--public", source], "--public", 2),
        ([*fields, "--mechanism", "adept", "--set", "epsilon=1"], "--public FILE", 2),
        ([*fields, *rare, *small], "--without-guarantee", 2),
        ([*fields, "--released", vectors, *small], "each of the 90 originals", 2),
        (["--author-field", "nobody", "--text-field", "body", *words], "nobody", 4),
    ):
        code, out, err = dptext("audit", "authorship", source, *arguments)
        assert code == status, (arguments, out, err)
        assert wanted in err, (arguments, err)
        assert CANARY not in out + err
    code, _, err = dptext("audit", "authorship", source, *fields, *rare, *small, "--without-guarantee")
    assert code == 0, err
