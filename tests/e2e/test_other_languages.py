"""German and Spanish corpora from the shell, with an encoder and a language model that lie in folders."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

import tongues
import torch_folders
from commands import dptext
from dptext.runs.summarizing import read_summary
from dptext.text.function_words import FUNCTION_WORDS

# To import it takes seconds, of which the quick tests have no use.
pytestmark = pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs sentence-transformers")


def ran(folder: Path, *given: object) -> tuple[str, str]:
    done = dptext(*given, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def save(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow  # seconds to load torch; tests/unit/synthesis/test_german_and_spanish.py has planted models
@pytest.mark.parametrize(("language", "name"), [("de", "German"), ("es", "Spanish")])
def test_a_corpus_in_another_language_from_end_to_end(language: str, name: str, tmp_path: Path) -> None:
    pool, private = (tongues.rows(language, n, private=n > 90, seed=n) for n in (90, 500))
    save(tmp_path / "pool.jsonl", pool)
    save(tmp_path / "private.jsonl", private)
    tongues.saved_encoder(tmp_path / "made", [row["text"] for row in pool]).rename(tmp_path / "encoder")
    labels = ("--label-field", "label", "--labels", ",".join(tongues.WORDS[language]))
    measure = ("summarize", "private.jsonl", "--public", "pool.jsonl", *labels, "--about", 500, "--epsilon", 30)
    more = (
        "--with",
        "words,topics",
        "--set",
        "topics=3",
        "--set",
        "drafts=0",
        "--set",
        "vocabulary=90",
        "--set",
        "examples=2",
        "--seed",
        1,
    )

    _, told = ran(tmp_path, *measure[:2], "english.summary", *measure[2:], *more, "--encoder", "glove")
    assert f"Warning: The public texts seem to be in {name}, and GloVe knows English alone: give --encoder F" in told
    _, told = ran(tmp_path, *measure[:2], "own.summary", *measure[2:], *more, "--encoder", "encoder")
    assert "seem to be in" not in told

    shown, _ = ran(tmp_path, "summary", "show", "own.summary")
    for own in tongues.WORDS[language].values():
        assert own[0].lower() in shown  # Tür, Köln, señal, Logroño
    found = read_summary(tmp_path / "own.summary").summary
    assert (found.public.language, found.spec.encoder) == (language, "./encoder")
    assert not FUNCTION_WORDS[language] & (tongues.shown_words(found) | set(found.public.lexicon.words))
    explained, _ = ran(tmp_path, "explain", "own.summary")
    assert "the sentence encoder reads a sentence as if it were alone in its batch" in explained

    # the same public parts again, which the encoder in the folder reads
    ran(tmp_path, "summarize", "private.jsonl", "more.summary", "--like", "own.summary", "--label-field", "label")
    (tmp_path / "encoder").rename(tmp_path / "elsewhere")
    _, told = ran(tmp_path, "write", "own.summary", "pool-out.jsonl", "--writer", "pool", "--size", 20)
    assert set(texts(tmp_path / "pool-out.jsonl")) <= {row["text"] for row in pool}
    done = dptext(
        "summarize", "private.jsonl", "no.summary", "--like", "own.summary", "--label-field", "label", cwd=tmp_path
    )
    assert (done.returncode, (tmp_path / "no.summary").exists()) == (2, False)
    assert "./encoder" in done.stderr

    # a model of random numbers writes in letters of the language, and the encoder judges its texts
    (tmp_path / "elsewhere").rename(tmp_path / "encoder")
    model = torch_folders.saved(tmp_path / "model", "mistral", positions=900)
    few = ("--size", 20, "--set", "drafts=8", "--set", "matches=1", "--set", "tokens=12", "--seed", 1)
    ran(tmp_path, "write", "own.summary", "model-out.jsonl", "--writer", f"model:{model}", *few)
    assert 0 < len(texts(tmp_path / "model-out.jsonl")) <= 20
    certificate = json.loads((tmp_path / "model-out.jsonl.guarantee.json").read_bytes())
    assert certificate["derived"]["writer"] == "model"
