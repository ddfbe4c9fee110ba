"""What is said of public texts in another language, and to the owner of private ones; nobody else hears of these."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dptext as dp
import rome
import tongues
from dptext.cli.app import app
from dptext.errors import ConfigError
from dptext.runs import writing
from dptext.runs.known_languages import encoder_lacks, in_other_language, written_in
from dptext.runs.summarizing import ReadSummary
from dptext.sampling.randomness import seeded
from dptext.synthesis.summary import SummarySpec
from dptext.text import languages

POOL = tongues.rows("de", 90, private=False, seed=2)
TEXTS = [row["text"] for row in POOL]
SMALL: dict[str, Any] = {"words": 8, "dim": 8, "about": 80}
LABELS = ("wohnung", "reise")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> tongues.Planted:
    found = tongues.Planted()
    monkeypatch.setattr(languages, "load_identifier", lambda: found)
    return found


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (dp.Candidates(epsilon=5.0), "the encoder all-MiniLM-L6-v2 knows English alone: give ranker='tfidf' (which"),
        (dp.Candidates(epsilon=5.0, ranker="tfidf"), ""),
        (dp.DeepCandidate(epsilon=5.0), "all-MiniLM-L6-v2 knows English alone: give encoder='FOLDER' (a multilingual"),
        (dp.DeepCandidate(epsilon=5.0, encoder="./mine"), ""),
        (dp.WordMetric(epsilon=5.0), "GloVe knows English alone: give vectors='FILE' (vectors of words of that"),
        (dp.WordMetric(epsilon=5.0, vectors="mine.txt"), ""),
        (dp.Truncation(epsilon=5.0), "the encoder all-MiniLM-L6-v2 knows English alone: truncation takes nothing else"),
        (dp.Prototypes(labels=LABELS), "encoder='FOLDER'"),
        (dp.Prototypes(labels=LABELS, encoder="glove"), "GloVe knows English alone: give encoder='FOLDER'"),
        (dp.Prototypes(labels=LABELS, encoder="./mine"), ""),
        (dp.Steering(labels=LABELS, encoder="./mine"), "the language model SmolLM2 knows English alone: give model="),
        (SummarySpec(labels=LABELS, points=False), ""),
        (SummarySpec(labels=LABELS, points=False, marks=5, drafts=0), ""),
    ],
)
def test_what_knows_english_alone_is_named_with_what_to_give(spec: Any, said: str, planted: tongues.Planted) -> None:
    found = in_other_language(spec, TEXTS)
    assert said in found
    assert bool(found) == bool(said)
    assert found.startswith("The public texts seem to be in German, and ") or not said
    assert in_other_language(spec, [each.text for each in dp.sample_records(90)]) == ""


def test_python_warns_of_the_pool_alone(planted: tongues.Planted) -> None:
    private = tongues.rows("es", 60, private=True, seed=1)
    given: dict[str, Any] = {"kind": "topics", "encoder": "glove", "topics": 3, "seed": 1, **SMALL}
    with pytest.warns(UserWarning, match="The public texts seem to be in German, and GloVe knows") as caught:
        dp.synthesize(private, POOL, randomness=seeded(1), **given)
    assert [each.filename for each in caught] == [__file__]
    english = [record.text for record in dp.sample_records(60)]
    dp.synthesize(private, english, randomness=seeded(1), **given)  # filterwarnings: a warning would be an error
    with pytest.warns(UserWarning, match="GloVe knows English alone: truncation takes nothing else") as caught:
        dp.fit(dp.Truncation(epsilon=5.0, encoder="glove"), TEXTS)
    assert [each.filename for each in caught] == [__file__]


def saved(folder: Path, name: str, rows: list[dict[str, str]]) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return str(path)


@pytest.mark.slow_cases("synthesize", why="both commands make one function run")
@pytest.mark.parametrize("command", ["summarize", "synthesize"])
def test_nothing_that_others_see_depends_on_the_language_of_private_texts(
    command: str, planted: tongues.Planted, tmp_path: Path
) -> None:
    """The same run, pool and noise, with private texts in two languages: what is told is the same, the files but noise.

    The planted model keeps what it is asked, and no private text is among it.
    """
    public = saved(tmp_path, "pool.jsonl", POOL)
    told, files = set(), set()
    more, name = (["-m", "topics"], "out.json") if command == "synthesize" else ([], "out.summary")
    for language in ("de", "es"):
        private = saved(tmp_path, "private.jsonl", tongues.rows(language, 80, private=True, seed=3))
        given = ["--encoder", "glove", "--about", "80", "--set", "words=0", "--set", "topics=3", "--epsilon", "1"]
        out = str(tmp_path / name)
        ran = CliRunner().invoke(
            app, [command, private, out, "--public", public, *more, *given, "--seed", "1", "--force"]
        )
        assert ran.exit_code == 0, ran.output
        told.add(ran.stderr)
        certificate = json.loads((tmp_path / f"{name}.guarantee.json").read_bytes())
        files.add(json.dumps({name: each for name, each in certificate.items() if name not in {"sha256", "created"}}))
    assert len(told) == 1
    assert "Warning: The public texts seem to be in German, and GloVe knows English alone: give --encoder" in told.pop()
    assert len(files) == 1, files
    assert planted.asked
    assert not any(tongues.CANARY in passage for passage in planted.asked)


def test_who_writes_from_a_pool_in_another_language_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """SmolLM2 would write English texts beside German ones; what a user names may know German."""
    said = written_in("de", "smollm2")
    assert said.startswith("The pool seems to be in German, and the language model SmolLM2 knows English alone: take ")
    assert written_in("en", "smollm2") == written_in("de", "./mine") == ""
    monkeypatch.setattr(writing, "is_there", lambda _: True)
    found = rome.summary()
    german = replace(found.summary, public=replace(found.summary.public, language="de"))
    ready = writing.prepared(ReadSummary(german, found.certificate, ""), writer="builtin")
    assert ready.warning == said
    assert said in [*ready.asks()]
    assert writing.prepared(found, writer="builtin").warning == ""


def test_an_encoder_that_judges_texts_is_held_against_their_language(planted: tongues.Planted) -> None:
    """`utility` says it to the owner of the texts."""
    spanish = [row["text"] for row in tongues.rows("es", 80, private=True, seed=3)]
    said = "The texts seem to be in Spanish, and {} knows English alone."
    assert encoder_lacks("sentence", spanish) == said.format("the encoder all-MiniLM-L6-v2")
    assert encoder_lacks("glove", spanish) == said.format("GloVe")
    assert encoder_lacks("./multilingual", spanish) == ""
    assert planted.asked
    planted.asked.clear()
    assert encoder_lacks("sentence", [each.text for each in dp.sample_records(80)]) == ""
    assert encoder_lacks("sentence", spanish[:2]) == ""


def test_utility_warns_the_owner(planted: tongues.Planted, tmp_path: Path) -> None:
    path = saved(tmp_path, "private.jsonl", tongues.rows("es", 80, private=True, seed=3))
    public = saved(tmp_path, "pool.jsonl", tongues.rows("es", 40, private=False, seed=4))
    given = ["utility", "corpus", path, public, "--public", public, "--label-field", "label", "--seed", "1"]
    told = CliRunner().invoke(app, [*given, "--encoder", "glove"])
    assert "Warning: The texts seem to be in Spanish, and GloVe knows English alone. Give --encoder F" in told.stderr
    assert tongues.CANARY not in told.output
    lost = CliRunner().invoke(app, [*given, "--encoder", "nowhere"])
    with pytest.raises(ConfigError, match="a folder, or a model that was downloaded"):
        raise lost.exception or AssertionError(lost.output)


def test_check_tells_the_owner(planted: tongues.Planted, tmp_path: Path) -> None:
    path = saved(tmp_path, "private.jsonl", tongues.rows("es", 80, private=True, seed=3))
    shown = CliRunner().invoke(app, ["check", path]).stdout
    said = " ".join(shown.split())
    assert (
        "Lang. most texts seem to be in Spanish. The encoder all-MiniLM-L6-v2, the word vectors of GloVe and the"
        in said
    )
    assert "give a multilingual --encoder FOLDER, public texts in that language, and --writer model:FOLDER" in said
    data = json.loads(CliRunner().invoke(app, ["check", path, "--json"]).stdout)
    assert data["language"] == {"code": "es", "share": 1.0}
    assert tongues.CANARY not in shown
    english = saved(tmp_path, "english.jsonl", [{"text": each.text} for each in dp.sample_records(80)])
    plain = CliRunner().invoke(app, ["check", english]).stdout
    assert "\nLang.  English\n" in plain
    option = "--public PUBLIC --encoder FOLDER"  # the default encoder knows English alone
    assert (option in said, option in plain) == (True, False)
    few = saved(tmp_path, "few.jsonl", tongues.rows("es", 3, private=True, seed=3))
    assert json.loads(CliRunner().invoke(app, ["check", few, "--json"]).stdout)["language"] is None
