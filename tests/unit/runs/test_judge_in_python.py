"""`judge` says what `dptext utility corpus` says, of frames and results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import dptext as dp
from dptext.cli.app import app
from dptext.errors import ConfigError
from dptext.runs.judging import JudgedCorpus, judge

Rows = list[dict[str, Any]]


def rows(n: int, seed: int) -> Rows:
    return [{"body": each.text, "topic": each.label} for each in dp.sample_records(n, seed=seed)]


PRIVATE, PUBLIC, TEST = rows(80, 1), [{"body": each["body"]} for each in rows(60, 2)], rows(50, 3)
GIVEN: dict[str, Any] = {"text": "body", "label": "topic", "encoder": "glove", "seed": 4}


@pytest.fixture(scope="module")
def corpus() -> Any:
    labels = sorted({each["topic"] for each in PRIVATE})
    summary = dp.summarize(
        PRIVATE, PUBLIC, text="body", label="topic", labels=labels, about=80, epsilon=20.0, encoder="glove"
    )
    return dp.write(summary, size=40, seed=1)


@pytest.fixture(scope="module")
def judged(corpus: Any) -> JudgedCorpus:
    """The corpus, judged by half of the originals."""
    return judge(PRIVATE, corpus, PUBLIC, **GIVEN)


def test_it_has_the_numbers_of_the_command(corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, found in (("private", PRIVATE), ("public", PUBLIC), ("test", TEST)):
        pd.DataFrame(found).to_json(f"{name}.jsonl", orient="records", lines=True)
    corpus.write("corpus.jsonl")
    command = ["utility", "corpus", "private.jsonl", "corpus.jsonl", "--public", "public.jsonl", "--text-field", "body"]
    more = ["--label-field", "topic", "--encoder", "glove", "--seed", "4", "--test", "test.jsonl", "--json"]
    said = json.loads(CliRunner().invoke(app, [*command, *more]).stdout)
    for private, made, public, test in (
        (PRIVATE, corpus, PUBLIC, TEST),
        (*(pd.DataFrame(each) for each in (PRIVATE, corpus.to_pandas(), PUBLIC, TEST)),),
        ("private.jsonl", "corpus.jsonl", "public.jsonl", "test.jsonl"),
    ):
        found = judge(private, made, public, test=test, **GIVEN)
        assert found.to_dict()["rows"] == said["rows"]
        verdict = said["worth"]
        assert found.sentences[0].startswith(f"Useful for training: {verdict['verdict']}. {verdict['sentence']}")
        assert "and no guarantee covers them" in str(found)
    assert "<table>" in found._repr_html_()
    assert not any(each["body"] in repr(found) + str(found) for each in PRIVATE)


def test_half_of_the_originals_judge_without_a_test(corpus: Any, judged: JudgedCorpus) -> None:
    told: list[tuple[int, int]] = []
    found = judge(PRIVATE, corpus, PUBLIC, on_progress=lambda *at: told.append(at), **GIVEN)
    assert told == [(done, len(told) - 1) for done in range(len(told))]
    assert found.rows == judged.rows
    assert "a classifier that learns from the corpus has " in found.sentences[-2]


def test_meanings_of_labels(corpus: Any) -> None:
    """By label, or in the order of a summary; codes label no public text."""
    codes = {label: str(i) for i, label in enumerate(sorted({each["topic"] for each in PRIVATE}))}
    private = [{**each, "topic": codes[each["topic"]]} for each in PRIVATE]
    made = [{"body": each.output, "topic": codes[each.label]} for each in corpus.releases]
    assert judge(private, made, PUBLIC, **GIVEN).sentences[0].startswith("These labels say nothing in words")
    by_label = {code: label for label, code in reversed(codes.items())}
    one = judge(private, made, PUBLIC, names=by_label, **GIVEN)
    assert "Public texts were labelled '0' by 'health'" in one.sentences[1]
    with pytest.raises(ConfigError, match="names by label, as no summary has an order of labels"):
        judge(private, made, PUBLIC, names=sorted(codes), **GIVEN)
    with pytest.raises(ConfigError, match="names for each of 4 labels, found 1"):
        judge(PRIVATE, corpus, PUBLIC, names=["health"], **GIVEN)


def test_without_labels_or_with_too_few_records(corpus: Any, judged: JudgedCorpus) -> None:
    bare: dict[str, object] = {**GIVEN, "label": None}
    found = judge([each["body"] for each in PRIVATE], corpus, PUBLIC, names=["unused"], **bare)
    assert judge(PRIVATE, corpus, iter(PUBLIC), **GIVEN).rows == judged.rows
    assert found.sentences[0] == "Labels are not judged: the originals have none (label=)."
    for private, test in ((PRIVATE[:7], None), (PRIVATE, TEST[:7])):
        with pytest.raises(ConfigError, match="at least 8 records"):
            judge(private, corpus, PUBLIC, test=test, **GIVEN)
    with pytest.raises(ConfigError, match="'body'"):
        judge(pd.DataFrame(PRIVATE), corpus, pd.DataFrame({"other": ["a"] * 9}), **GIVEN)
