"""Writers that see no logits: words are counted in what they write, and what they wrote is kept."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import dptext as dp
import rome
from dptext.errors import ConfigError, ServerError
from dptext.runs import writing
from dptext.synthesis.asking import Examples, answer_line, completion_line, lines, question
from dptext.synthesis.by_length import More
from dptext.synthesis.from_drafts import PACKAGE_IS_PUBLIC, Counted, FromDrafts, Moves, examples_of
from dptext.synthesis.kept_writing import KeptWriting
from dptext.synthesis.word_targets import WordTargets

COMMON = -np.log(9)  # the drafter writes each word in one of ten texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn(FromDrafts):
    """A writer that draws each word of a vocabulary for itself, by its odds."""

    takes: ClassVar[str] = ""

    def drafter(self, by: WordTargets) -> Words:
        return Words()


class Words:
    weights = "5" * 64
    asked: ClassVar[list[tuple[str, int, Moves]]] = []
    left: ClassVar[int] = 1_000_000  # drafts before the server fails

    def draft(
        self, name: str, examples: Examples, n: int, *, moves: Moves, seed: int, more: More | None
    ) -> Sequence[str]:
        if len(self.asked) >= self.left:
            raise ServerError("The server failed.")
        self.asked.append((name, n, moves))
        draws = np.random.default_rng(seed)
        odds = np.array([COMMON + moves.shift.get(word, 0.0) for word in rome.WORDS])
        there = draws.random((n, len(rome.WORDS))) < 1 / (1 + np.exp(-odds))
        if more is not None:
            more(n)
        marks = [" ".join(word for word, so in zip(rome.WORDS, row, strict=True) if so) for row in there]
        return [f"text{seed % 997}x{i} says {some}" for i, some in enumerate(marks)]


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    Words.asked.clear()


@pytest.fixture(scope="module")
def summary() -> Any:
    return rome.summary()


def targets(summary: Any, **changed: Any) -> WordTargets:
    return WordTargets.of(summary.summary, Drawn(**{"size": 200, "drafts": 400, **changed}))


def rate(texts: Sequence[str], word: str) -> float:
    return float(np.mean([word in text.split() for text in texts]))


@pytest.mark.parametrize("matches", [0, 1, 3])
def test_drafts_get_the_words_as_often_as_the_noisy_numbers_say(matches: int, summary: Any) -> None:
    counted = targets(summary, matches=matches).opened()
    shift, likely, drawn = counted.shift(0, 1)
    assert (likely, drawn) == (0.0, 0)
    texts, *_ = counted.texts(0, 2_000, 2, shift)
    assert rate(texts, "rome") == pytest.approx(0.7, abs=0.1)
    assert rate(texts, "doctor") < 0.05
    still, *_ = targets(summary, steered=False).opened().texts(0, 2_000, 2, np.zeros_like(shift))
    assert rate(still, "rome") == pytest.approx(0.1, abs=0.03)
    assert len(Words.asked) == matches + 3


def test_without_steering_nothing_is_drafted(summary: Any) -> None:
    made = targets(summary, steered=False)
    shift, *_ = made.opened().shift(0, 1)
    assert not shift.any()
    assert Words.asked == []
    assert made.settings.drafted(2) == 0
    assert targets(summary, matches=2).settings.drafted(2) == 2 * 400 * 3


def test_key_words_are_those_that_surpass_the_noise(summary: Any) -> None:
    counted = targets(summary, matches=0).opened()
    shift, *_ = counted.shift(0, 1)
    counted.texts(0, 5, 2, shift)
    moves = Words.asked[-1][2]
    assert [*moves.lift] == ["rome"]
    assert moves.lift["rome"] == pytest.approx(0.6, abs=0.1)
    assert moves.shift["rome"] > 1.5
    assert moves.shift["doctor"] < -1.0
    loud = replace(targets(summary), deviations=np.full(2, 2_000.0)).opened()
    shift, *_ = loud.shift(0, 1)
    loud.texts(0, 5, 2, shift)
    assert Words.asked[-1][2].lift == {}


def test_texts_are_readable_and_no_examples(summary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    by = targets(summary)
    by = replace(by, examples=(("Show me  the TRAIN", "travel"), ("My loan", None)))
    counted = by.opened()
    assert isinstance(counted, Counted)
    written = [
        "show me the train",
        "a\ntrain",
        "word",
        "go go go",
        "a train",
        "my LOAN",
        "a bus to Rome",
        "a \x00 b",
        "a \ufffd b",
        "a \ud800 b",
        "a \x1b b",
    ]
    monkeypatch.setattr(Words, "draft", lambda *_, **__: written)
    texts, *_ = counted.texts(0, 9, 1, np.zeros((2, len(by.lexicon))))
    assert texts == ["a train", "a bus to Rome"]
    assert examples_of(by) == [("travel", "Show me the TRAIN"), ("travel", "My loan")]


def test_what_a_model_is_asked() -> None:
    examples = [("travel", "A train to Rome"), ("money", "My loan")]
    assert lines(examples, "money") == "travel: A train to Rome\nmoney: My loan\nmoney:"
    asked = lines(examples, "money", ["bank", "rate"], [["train"], []])
    assert asked == "travel (train): A train to Rome\nmoney: My loan\nmoney (bank, rate):"
    said = question(examples, "money", ["bank"])
    assert "travel: A train to Rome\nmoney: My loan\n" in said
    assert "about: money. Use the words: bank." in said
    assert "Use the words" not in question(examples, "money")
    assert question([], "money").startswith("Write one more text")


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("A train", "A train"), ('"A train to Rome."', "A train to Rome."), ("\n\n  A train \nSure?", "A train"),
        ('"A', '"A'), ('"', '"'), ("", ""), ("“A train”", "A train"), ('He said "no"', 'He said "no"'),
        ("Sure! Here is one:\n\nA train", "A train"), ("Here is one:", "Here is one:"), ("Trips: A train", "A train"),
        ("**A train**", "A train"), ("**trips:** A train", "A train"), ("<think>Hm.\nA</think>\nA train", "A train"),
        ("<think>Hm. A train", ""), ("Tripsy: A train", "Tripsy: A train"),
    ],
)  # fmt: skip
def test_the_text_in_an_answer(answer: str, line: str) -> None:
    assert answer_line(answer, "trips") == line
    assert answer_line("trips: A train") == "trips: A train"


@pytest.mark.parametrize(
    ("text", "line"),
    [(" A train", "A train"), ("\n A train\ntrips: B", "A train"), ("trips: a\ntrips: A", "A"), ("", ""), ("\n", "")],
)
def test_one_line_of_a_completion(text: str, line: str) -> None:
    assert completion_line(text, "trips: a\ntrips:") == line


class Point:
    """An entry point of a package that brings a writer."""

    name, group, value, attr = "drawn", "dptext.writers", "test_drafted:Drawn", "Drawn"
    dist = None

    def __init__(self, found: object) -> None:
        self.found = found

    def load(self) -> object:
        return self.found


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptext.doors.points", lambda group: [Point(Drawn)] * (group == "dptext.writers"))
    monkeypatch.setattr(writing, "WRITERS", writing.Writers("dptext.writers", writing.OUR_WRITERS, what="writer"))


@pytest.mark.usefixtures("brought")
def test_a_package_brings_a_writer(summary: Any) -> None:
    made = dp.write(summary, writer="drawn", size=150, mix={"travel": 1.0}, seed=1, drafts=200)
    assert len(made.releases) == 150
    assert rate([each.output for each in made.releases], "rome") > 0.5
    assert made.certificate.derived["writer"] == "drawn"
    assert made.certificate.derived["weights"] == "5" * 64
    with pytest.raises(ConfigError, match="Expected --writer drawn, found drawn with something"):
        dp.write(summary, writer="drawn:x")


def test_the_writer_of_the_guide_writes(summary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is whole as it stands there, in twenty lines."""
    guide = (Path(__file__).parents[3] / "docs/guides/your-own-model.md").read_text("utf-8")
    code = guide.partition("```python\n")[2].partition("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    (tmp_path / "of_the_guide.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    echo = importlib.import_module("of_the_guide").Echo
    monkeypatch.setattr("dptext.doors.points", lambda group: [Point(echo)] * (group == "dptext.writers"))
    monkeypatch.setattr(writing, "WRITERS", writing.Writers("dptext.writers", writing.OUR_WRITERS, what="writer"))
    made = dp.write(summary, writer="drawn", size=12, mix={"travel": 1.0}, seed=1, drafts=8)
    assert all("about travel: " in each.output and "rome" in each.output for each in made.releases)
    assert len(made.releases) == 12


def test_what_is_no_writer_is_refused(monkeypatch: pytest.MonkeyPatch, summary: Any) -> None:
    monkeypatch.setattr("dptext.doors.points", lambda group: [Point(dict)] * (group == "dptext.writers"))
    monkeypatch.setattr(writing, "WRITERS", writing.Writers("dptext.writers", writing.OUR_WRITERS, what="writer"))
    with pytest.raises(ConfigError, match=r"to be a subclass of .*FromDrafts"):
        dp.write(summary, writer="drawn")


# what was written is kept

RUN: dict[str, Any] = {"writer": "drawn", "size": 400, "drafts": 60, "matches": 1, "mix": {"travel": 0.5}}


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize(("after", "kept"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (6, 4)])
def test_a_stopped_run_goes_on_and_asks_for_what_is_missing(
    after: int, kept: int, summary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shift has two drafts, and is kept whole. The corpus is the one of a run that was not stopped."""
    keep = tmp_path / "kept.jsonl"
    expected = dp.write(summary, **RUN, seed=1)
    whole = len(Words.asked)
    Words.asked.clear()
    monkeypatch.setattr(Words, "left", after)
    with pytest.raises(ServerError):
        dp.write(summary, **RUN, seed=1, keep=keep)
    assert len(keep.read_text().splitlines()) - 1 == kept if kept else not keep.exists()
    if kept:  # the process was killed as it wrote a line
        keep.write_text(keep.read_text() + '{"label": 0, "n": 128, "se')
    Words.asked.clear()
    monkeypatch.setattr(Words, "left", 1_000_000)
    told: list[tuple[int, int]] = []
    made = dp.write(summary, **RUN, seed=1, keep=keep, on_progress=lambda *now: told.append(now))
    assert made.releases == expected.releases
    assert made.certificate.derived == expected.certificate.derived
    shifts = min(kept, 2)
    assert len(Words.asked) == whole - 2 * shifts - (kept - shifts)
    assert told[-1][0] == told[-1][1]
    Words.asked.clear()
    assert dp.write(summary, **RUN, seed=1, keep=keep).releases == expected.releases
    assert Words.asked == []


@pytest.mark.usefixtures("brought")
def test_without_a_seed_a_stopped_run_keeps_its_own(summary: Any, tmp_path: Path) -> None:
    keep = tmp_path / "kept.jsonl"
    first = dp.write(summary, **RUN, keep=keep)
    assert dp.write(summary, **RUN, keep=keep).releases == first.releases
    keep.unlink()
    assert dp.write(summary, **RUN, keep=keep).releases != first.releases


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize("change", [{"size": 300}, {"seed": 2}, {"matches": 0}, {"mix": {"travel": 0.9}}])
def test_what_another_run_kept_is_refused(change: dict[str, Any], summary: Any, tmp_path: Path) -> None:
    keep = tmp_path / "kept.jsonl"
    given = {**RUN, "seed": 1, "keep": keep}
    dp.write(summary, **given)
    there = keep.read_bytes()
    with pytest.raises(ConfigError, match="found another run's"):
        dp.write(summary, **{**given, **change})
    assert keep.read_bytes() == there


@pytest.mark.usefixtures("brought")
def test_what_another_run_kept_is_replaced_by_force(summary: Any, tmp_path: Path) -> None:
    keep = tmp_path / "kept.jsonl"
    dp.write(summary, **RUN, seed=1, keep=keep)
    Words.asked.clear()
    dp.write(summary, **RUN, seed=1, keep=keep, force=True)
    assert Words.asked == []  # of the same run nothing is thrown away
    expected = dp.write(summary, **RUN, seed=2)
    assert dp.write(summary, **RUN, seed=2, keep=keep, force=True).releases == expected.releases


@pytest.mark.usefixtures("brought")
def test_what_another_model_wrote_is_refused(summary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = tmp_path / "kept.jsonl"
    dp.write(summary, **RUN, seed=1, keep=keep)
    monkeypatch.setattr(Words, "weights", "6" * 64)
    with pytest.raises(ConfigError, match=r"another sha256\. Give that model"):
        dp.write(summary, **RUN, seed=1, keep=keep)
    monkeypatch.setattr(Words, "weights", "v1.2")
    with pytest.raises(ConfigError, match=r"to be a sha256, found 'v1\.2'"):
        dp.write(summary, **RUN, seed=1)


@pytest.mark.usefixtures("brought")
def test_a_task_without_a_text_is_not_kept(summary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = tmp_path / "kept.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(Words, "draft", lambda *_, **__: [])
        with pytest.raises(ConfigError, match="at least one text to leave"):
            dp.write(summary, **RUN, seed=1, keep=keep)
    assert len(dp.write(summary, **RUN, seed=1, keep=keep).releases) > 300


@pytest.mark.usefixtures("brought")
def test_what_a_package_would_be_asked_is_not_called_local(summary: Any) -> None:
    (said,) = writing.prepared(summary, **RUN).asks()
    assert said.startswith("640 texts, 240 of them drafts, would be asked of Drawn. What leaves this machine is up to")
    assert said.endswith("how many texts of each are wanted, and noisy words, each with how much more or less frequent "
                         "it should be.")  # fmt: skip
    *_, paid = writing.prepared(summary, **RUN).asks((1.0, 2.0))
    assert paid == "What it costs is up to its package, too: --price says nothing of it."
    (still,) = writing.prepared(summary, **RUN, steered=False).asks()
    assert "noisy" not in still
    with pytest.raises(ConfigError, match="Expected --price to be two prices"):
        list(writing.prepared(summary, **RUN).asks((1.0, float("inf"))))


@pytest.mark.usefixtures("brought")
def test_of_a_package_is_said_that_its_code_was_not_checked(summary: Any) -> None:
    made = dp.write(summary, **RUN, seed=1)
    assert made.sentences[0].startswith("Drawn is a writer of a package, whose code was not checked: it got public")
    assert made.sentences[0].endswith("and may have sent them elsewhere.")
    assert made.certificate.assumed_of_writer == (PACKAGE_IS_PUBLIC,)
    assert "drawn is a writer of a package, whose code was not checked" in made.certificate.explain()
    assert "sha256 of its weights, as the package says, 555555555555..." in made.certificate.explain()


@pytest.mark.parametrize("data", [b"", b"[1]\n", b"{oh", b"null\n", b"\xff\xfe", b'{"a": 1}\n{"b"', b"my,notes\n1,2"])
def test_a_file_of_another_kind_is_left_alone(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="found another file: move it away"):
        KeptWriting.begin(path, {"a": 1}, 7, replace=True)
    assert path.read_bytes() == data
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="found another file"):
        KeptWriting.begin(tmp_path / "folder", {"a": 1}, 7)


def test_tasks_and_answers_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    kept = KeptWriting.begin(path, {"a": 1}, 7)
    assert not path.exists()
    kept.keep({"label": 0, "n": 2, "seed": 5, "texts": ["a b", "\ud800"], "likely": 0.5, "tokens": 3})
    kept.keep_answer(5, 1, "a train", requests=4, tokens=90)
    again = KeptWriting.begin(path, {"a": 1}, 9)
    assert (again.seed, again.done[0, 2, 5]["texts"], again.answers) == (7, ["a b", "\ud800"], {(5, 1): "a train"})
    assert repr(again) == "KeptWriting(1 tasks, 1 answers)"
    assert (again.requests, again.tokens) == (4, 90)


@pytest.mark.parametrize("damage", ['{"label": 0, "n"', "[]", '{"answer": "one"}', "{}"])
def test_a_damaged_line_of_what_was_kept_is_said(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    KeptWriting.begin(path, {"a": 1}, 7).keep_answer(1, 0, "one", requests=1, tokens=1)
    with path.open("a") as file:
        file.write(f"{damage}\n")
    with pytest.raises(ConfigError, match="found a damaged one: give --force"):
        KeptWriting.begin(path, {"a": 1}, 7)
    assert KeptWriting.begin(path, {"a": 1}, 7, replace=True).answers == {}


def test_a_file_that_names_no_run_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    path.write_text('{"kept by": "dptext write", "seed": 1}\n')
    with pytest.raises(ConfigError, match="found another file"):
        KeptWriting.begin(path, {"a": 1}, 7)
