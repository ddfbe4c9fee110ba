"""Steering: what a unit adds, what noisy numbers are believed, how words are spelled, and that writing follows them."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import current_process, get_context

import numpy as np
import pytest

pytest.importorskip("numba")

import dptext as dp
import tiny_language
from dptext.errors import ConfigError
from dptext.language.writing import Shifted, options_of
from dptext.sampling.randomness import secure, seeded
from dptext.sampling.weights import softmax
from dptext.synthesis import desks
from dptext.synthesis.blocks import COUNTS, WORDS
from dptext.synthesis.desks import Desk, Desks, WritingProgress
from dptext.synthesis.from_model import FromModel, ModelTexts, _own_label
from dptext.synthesis.judging import believed
from dptext.synthesis.readings import Corpus
from dptext.synthesis.steering import FittedSteering, Steering
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.synthesis.sums import STEPS, Draws, PrivateSum
from dptext.synthesis.word_shifts import Spellings, Steered
from dptext.synthesis.word_targets import WordTargets
from dptext.synthesis.writer import Writer, too_few
from dptext.text.batches import Batch
from dptext.text.records import Record

SPEC = Steering(
    labels=("travel", "money"), about=200, tokens=10, size=40, options=40, examples=0, marks=6, vocabulary=95,
    drafts=30, matches=2, epsilon=8.0, encoder="glove",
)  # fmt: skip
#: Public texts, of which one in ten has the word 9.
POOL = [replace(each, text=each.text + " 9" * (i % 10 == 0)) for i, each in enumerate(dp.sample_records(60, seed=3))]
CANARY = "zqsteered"


@pytest.fixture(scope="module", autouse=True)
def model() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in tiny_language.LOADING:
            patch.setattr(f"{module}.load_language_model", lambda _: tiny_language.model())
        patch.setattr("dptext.synthesis.writer.is_readable", bool)  # this model writes few spaces
        yield


@pytest.fixture(scope="module")
def fitted() -> FittedSteering:
    return SPEC.fit(public=POOL)


def corpus(records: list[Record]) -> Corpus:
    return lambda: (batch for batch in [Batch.of(records)])


def measured(spec: Steering, records: list[Record]) -> Summary:
    return spec.summary.fit(public=POOL).measure(corpus(records), Draws(secure()))


def places(summary: Summary, *words: str) -> list[int]:
    assert summary.public.lexicon is not None
    return [summary.public.lexicon.words.index(word) for word in words]


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
@pytest.mark.parametrize("points", [True, False])
def test_no_text_adds_more_than_a_unit(points: bool, relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text's vector is no longer than the sensitivity, and none that has marks is left out for being longer."""
    added = []
    monkeypatch.setattr(PrivateSum, "add", lambda self, cells, values, authors: added.append((cells, values)))
    summary = replace(SPEC.summary, points=points, relation=relation).fit(public=POOL)
    assert summary.public.lexicon is not None
    known = " ".join(summary.public.lexicon.words)
    texts = ["", "a", f"{known[:2000]} and {known[:2000]}", "zzzz " * 400, "?!" * 9]
    summary.measure(corpus([Record(str(i), text, label="money") for i, text in enumerate(texts)]), Draws(seeded(1)))
    ((cells, values),) = added
    assert len(cells) == 4  # the blank one says nothing
    dim = summary.pool.space.dim if points and summary.pool.space else 0
    layout = summary.spec.layout(dim=dim, width=len(summary.public.lexicon))
    for where, what in zip(cells, values, strict=True):
        assert len(set(where.tolist())) == len(where)
        weights = np.where(where < layout.signed, summary.spec.noise().sign_weight, 1)
        assert int((weights * np.trunc(what * STEPS).astype(np.int64) ** 2).sum()) <= STEPS**2
    if not points:
        assert np.linalg.norm(values[1]) == pytest.approx(1.0, abs=1e-3)  # all marks
    words = next(block for block in layout.blocks if block.name == WORDS)
    of_words = cells[:, -SPEC.marks - points : cells.shape[1] - points]
    assert of_words[1].tolist() == (words.start + words.width + np.arange(SPEC.marks)).tolist()  # in its label's row
    assert (of_words[0] >= layout.size).all()  # no mark


def test_noisy_numbers_say_what_the_corpus_has() -> None:
    first, second = measured(SPEC, []).public.lexicon.words[:2]  # type: ignore[union-attr]
    records = [Record(str(i), f"{first} {second} {first}", label="travel") for i in range(300)]
    found = measured(replace(SPEC, epsilon=200.0), records)
    counts, words = found.known[COUNTS], found.known[WORDS]
    assert counts.numbers[:, 0] == pytest.approx([300, 0], abs=6 * counts.deviation)
    assert words.numbers[0, places(found, first, second)] == pytest.approx(300, abs=6 * words.deviation)
    assert np.abs(np.delete(words.numbers[0], places(found, first, second))).max() < 6 * words.deviation
    assert np.abs(words.numbers[1]).max() < 6 * words.deviation


def test_what_is_believed_is_near_the_public_where_noise_is_large() -> None:
    rates, numbers = np.full(3, 0.01), np.array([1.0, 40.0, 90.0])
    exact = believed(numbers, 100.0, rates, 0.1)
    assert exact == pytest.approx([0.01, 0.4, 0.9], rel=0.11)
    unknown = believed(numbers, 100.0, rates, 1e6) / rates  # the mean of the prior, for each word the same
    assert unknown == pytest.approx(unknown[0], rel=1e-3)
    assert 0.4 < unknown[0] < 2.5
    some = believed(numbers, 100.0, rates, 20.0)
    assert 0.005 < some[0] < 0.02
    assert some[0] < some[1] < 0.4
    assert 0.5 < some[2] <= 0.95
    assert (believed(np.array([-50.0, 500.0]), 100.0, np.array([0.5, 0.5]), 1.0) <= 1).all()


def test_a_frequent_word_that_public_text_lacks_is_believed() -> None:
    """The least public rate is 1e-6. A bound on shifts at e^8 had kept such a word below .003 at any number."""
    found = believed(np.array([0.0, 60.0, 160.0]), 424.0, np.full(3, 1e-6), 19.0)
    assert found[0] < 5e-6
    assert found[1] > 20 * found[0]  # three deviations: in part
    assert found[2] == pytest.approx(160 / 424, rel=0.15)


def test_noise_alone_is_rarely_believed() -> None:
    rng = np.random.default_rng(5)
    rates = np.full(20_000, 1e-4)
    found = believed(rng.normal(0, 20, len(rates)), 300.0, rates, 20.0)
    assert (found > 10 * rates).mean() < 0.02
    assert np.exp(np.log(found / rates).mean()) < 2


def test_a_shift_moves_chances_by_what_it_says_and_a_token_that_is_there_is_not_made_likelier_again() -> None:
    known = np.log(np.tile([0.5, 0.3, 0.15, 0.05], (2, 1)))
    shift = np.array([0.0, 2.0, 0.0, -1.0])
    choose = Shifted(1.0, 4, 0, seeded(2), shift)
    drawn = [choose(known, [[2], [1]]) for _ in range(1_500)]
    for row, moved in ((0, shift), (1, np.array([0.0, 0.0, 0.0, -1.0]))):
        chances = softmax(known[:1] + moved)[0]
        found = np.bincount([each[row] for each in drawn], minlength=4) / len(drawn)
        assert found == pytest.approx(chances, abs=0.04)
    assert choose.expected.sum() == pytest.approx(2 * len(drawn))
    assert set(options_of(known, 2, 3)[0].tolist()) == {0, 3}


def of_letters(**numbers: float) -> np.ndarray:
    """Expected numbers of tokens of the tiny model, whose tokens are letters; `space` is one of them."""
    model, found = tiny_language.model(), np.zeros(tiny_language.CONFIG["vocab_size"])
    for letter, number in numbers.items():
        (token,) = model.tokens({"space": " ", "nine": "9"}.get(letter, letter))
        found[token] = number
    return found


def test_a_word_is_expected_as_often_as_its_rarest_token_in_each_spelling() -> None:
    spelled = Spellings.of(tiny_language.model(), ("ab", "9", "bc"))
    assert np.bincount(spelled.words).tolist() == [2, 1, 2]  # a digit has no capital
    expected = of_letters(space=5.0, a=0.25, b=0.5, A=0.125, c=1.0, nine=0.75)
    assert spelled.rates(expected).tolist() == [0.25 + 0.125, 0.75, 0.5]  # B of Bc is never expected
    assert spelled.rates(np.zeros(len(expected))).tolist() == [0, 0, 0]


def test_a_step_moves_the_tokens_of_the_words_that_are_wanted_more_or_less() -> None:
    spelled, expected = Spellings.of(tiny_language.model(), ("ab", "9")), of_letters(space=5.0, a=0.25, b=0.5, nine=0.5)
    space, a, b, nine, c = (tiny_language.model().tokens(each)[0] for each in " ab9c")
    none = spelled.steps(expected, np.zeros(2))
    assert not none.any()
    more = spelled.steps(expected, np.array([0.25, 0.0]))
    assert more[a] == pytest.approx(np.log(2), abs=1e-3)
    assert more[b] == pytest.approx(np.log(1.5), abs=1e-3)
    assert more[space] == pytest.approx(np.log(1.05), abs=1e-3)
    assert more[nine] == more[c] == 0
    less = spelled.steps(expected, np.array([0.0, -0.25]))
    assert less[nine] == pytest.approx(np.log(0.5), abs=1e-3)
    assert less[a] == 0
    assert less[space] == pytest.approx(np.log(0.95), abs=1e-3)
    both = spelled.steps(expected, np.array([0.25, 0.25]))  # a token of two words gains for both
    assert both[space] == pytest.approx(np.log(1.1), abs=1e-3)
    bounded = spelled.steps(expected, np.array([1e9, -1e9]))
    assert (bounded.max(), bounded[nine]) == (3.0, -2.0)


def test_writing_follows_the_private_words() -> None:
    """A word that all private texts of a label have, and public ones seldom, comes to stand in what is written."""
    more = replace(SPEC, size=160, epsilon=50.0, temperature=2.0)
    records = [Record(str(i), "9 and so", label="travel") for i in range(400)]
    summary = more.summary.fit(public=POOL).measure(corpus(records), Draws(seeded(5)))
    found = more.writer.write(summary, seeded(6))
    mine = [text for text, label in zip(found.texts, found.labels, strict=True) if label == "travel"]
    steered = WordTargets.of(summary, more.writer).opened()
    plain, *_ = steered.texts(0, 160, 1, np.zeros(steered.model.size))
    assert len(mine) > 100
    assert np.mean(["9" in text for text in mine]) > 0.15 + np.mean(["9" in text for text in plain])
    assert set(found.labels) <= {"travel", "money"}
    assert len(found.texts) == len(set(found.texts)) <= 160
    assert found.report.words is not None
    assert [word for word, _, _ in found.report.words.words[0]] == ["9"]


def test_the_writer_writes_as_many_texts_as_are_wanted_and_tells_how_far_it_is(fitted: FittedSteering) -> None:
    summary = fitted.measures.measure(corpus(list(dp.sample_records(200, seed=4))), Draws(seeded(2)))
    told: list[tuple[int, int]] = []
    set_ = replace(SPEC.writer, temperature=2.0)  # so that few texts are repeats
    found = set_.write(summary, seeded(3), on_progress=lambda done, whole: told.append((done, whole)))
    again = set_.write(summary, seeded(3))
    assert found.texts == again.texts
    assert len(found.texts) == len(set(found.texts)) <= SPEC.size
    assert told[:2] == [(0, told[0][1])] * 2  # again when the model is loaded
    more = [done for done, _ in told if done]
    assert more == sorted(set(more))
    assert {whole for _, whole in told} == {2 * 30 * 3 + SPEC.size}
    assert told[-1][0] == told[-1][1]


def test_as_many_processes_write_as_this_one_may_use_processors(
    fitted: FittedSteering, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()

    @contextmanager
    def stopped(_: WordTargets, processes: int, __: WritingProgress) -> Iterator[Desk]:
        asked.append(processes)
        raise InterruptedError
        yield

    monkeypatch.setattr("dptext.synthesis.from_model.desk", stopped)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 5, 6}, raising=False)
    summary = fitted.measures.measure(corpus([]), Draws(seeded(2)))
    for more in ({"size": 600}, {"size": 600, "processes": 2}, {"size": 500}):
        with pytest.raises(InterruptedError):
            replace(SPEC.writer, **more).write(summary, seeded(3))
    with pytest.raises(InterruptedError):
        replace(SPEC, size=500).written(summary, seeded(3))
    assert asked == [3, 2, 0, 1]  # apart from a process that may have read private text


def test_a_daemon_which_may_start_no_process_writes_itself(
    fitted: FittedSteering, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = fitted.measures.measure(corpus([]), Draws(seeded(2)))
    monkeypatch.setattr(type(current_process()), "daemon", property(lambda _: True))
    found = replace(SPEC, size=6).written(summary, seeded(3))
    assert found.texts == replace(SPEC, size=6).writer.write(summary, seeded(3)).texts
    assert found.texts


def test_a_text_that_was_written_for_two_labels_leaves_once_under_the_first(
    fitted: FittedSteering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each label writes two texts that both have, and two of its own."""
    written = {0: ["both one", "own 0", "both two", "more 0"], 1: ["both two", "own 1", "both one", "more 1"]}
    monkeypatch.setattr(Steered, "texts", lambda _, label, *__: (written[label], 0.0, 1))
    monkeypatch.setattr(Steered, "shift", lambda *_: (np.zeros(1), 0.0, 1))
    summary = fitted.measures.measure(corpus([]), Draws(seeded(2)))
    found = SPEC.writer.write(summary.mixed({"travel": 0.5, "money": 0.5}), seeded(3))
    by_label = {
        label: {t for t, own in zip(found.texts, found.labels, strict=True) if own == label} for label in SPEC.labels
    }
    assert by_label == {"travel": set(written[0]), "money": {"own 1", "more 1"}}
    assert len(found.texts) == 6


def test_an_unsteered_writer_moves_no_token(fitted: FittedSteering) -> None:
    records = [each for each in dp.sample_records(2_000, seed=4) if each.label in SPEC.labels]
    summary = fitted.measures.measure(corpus(records), Draws(seeded(2)))
    still = replace(SPEC.writer, steered=False)
    shifts = [WordTargets.of(summary, each).opened().shift(0, 1)[0].any() for each in (SPEC.writer, still)]
    assert shifts == [True, False]
    told: list[int] = []
    still.write(summary, seeded(3), on_progress=lambda _, whole: told.append(whole))
    assert set(told) == {2 * 30 + SPEC.size}  # drafts are written once


@pytest.mark.parametrize(("step", "whole"), [(1.0, 2.4), (6.0, 10.0)])
def test_steps_after_the_first_are_shorter_and_a_shift_has_a_bound(
    step: float, whole: float, fitted: FittedSteering, monkeypatch: pytest.MonkeyPatch
) -> None:
    steered = WordTargets.of(fitted.measures.measure(corpus(POOL), Draws(seeded(2))), SPEC.writer).opened()
    monkeypatch.setattr(Spellings, "steps", lambda _, expected, __: np.full(len(expected), step))
    np.testing.assert_allclose(steered.shift(0, 1)[0], whole)  # one whole step, and .7 of it for each of two matches


def test_the_share_that_class_means_read_as_its_own_label_is_told() -> None:
    records = [each for each in dp.sample_records(2_000, seed=4) if each.label in SPEC.labels]
    summary = replace(SPEC.summary, points=True, epsilon=50.0, about=1_000).fit(public=POOL)
    summary = summary.measure(corpus(records), Draws(seeded(2)))
    texts = [[each.text for each in records if each.label == label][:40] for label in SPEC.labels]
    told = _own_label(summary, texts)
    assert told is not None
    assert told > 0.7
    mixed = [[*texts[0][:30], *texts[1][:10]], [*texts[1][10:], *texts[0][30:]]]  # a quarter of each is of the other
    assert _own_label(summary, mixed) == pytest.approx(0.25 + told / 2, abs=0.1)
    assert _own_label(replace(summary, known={WORDS: summary.known[WORDS]}), texts) is None
    assert _own_label(summary, [[], []]) is None


def test_what_is_sent_to_a_process_holds_noisy_numbers_and_public_text_alone(fitted: FittedSteering) -> None:
    records = [Record(str(i), f"{CANARY} {CANARY}", label="travel", author=CANARY) for i in range(50)]
    sent = pickle.dumps(WordTargets.of(fitted.measures.measure(corpus(records), Draws(secure())), SPEC.writer))
    assert CANARY.encode() not in sent
    again = pickle.loads(sent)  # noqa: S301  # what this test has made
    assert again.lexicon.words == fitted.measures.public.lexicon.words  # type: ignore[union-attr]
    assert again.lexicon.marks([POOL[0].text]).tolist() == fitted.measures.public.lexicon.marks([POOL[0].text]).tolist()  # type: ignore[union-attr]


def test_a_summary_without_words_cannot_steer() -> None:
    without = replace(SPEC.summary, marks=0, points=True)
    summary = without.fit(public=POOL).measure(corpus([]), Draws(seeded(1)))
    with pytest.raises(ConfigError, match="--with words"):
        SPEC.writer.write(summary, seeded(1))


def test_settings_are_checked_and_the_public_part_is_always_the_same(fitted: FittedSteering) -> None:
    spec = replace(SPEC, examples=3, tokens=7)
    one = spec.fit(public=POOL, seed=1)
    assert spec.fit(public=POOL, seed=1).digests == one.digests
    other = spec.fit(public=POOL, seed=2).digests
    assert other["examples"] != one.digests["examples"]
    assert other["public"] == one.digests["public"]
    assert "Steering(" in repr(fitted)
    assert "train" not in repr(fitted)
    for wrong in (
        {"marks": 0}, {"vocabulary": 0}, {"matches": -1}, {"count_share": 0.9}, {"topics": 4},
        {"drafts": 0}, {"options": 1}, {"temperature": 0.0}, {"size": 0},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            replace(SPEC, **wrong)
    for wrong in ({"size": 0}, {"matches": -1}, {"options": 1}, {"temperature": 0.0}, {"processes": -1}):
        with pytest.raises(ConfigError):
            FromModel(**wrong)


def test_a_label_of_which_too_few_different_texts_were_written_is_named(
    fitted: FittedSteering, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [Record(str(i), "a train", label=label) for label in SPEC.labels for i in range(300)]
    summary = fitted.measures.measure(corpus(records), Draws(seeded(1)))
    summary = replace(
        summary, known={**summary.known, COUNTS: replace(summary.known[COUNTS], numbers=np.full((2, 1), 300.0))}
    )

    def said(*texts: int) -> str:
        written = [[f"{label}{i}zz" for i in range(n)] for label, n in zip(SPEC.labels, texts, strict=True)]
        monkeypatch.setattr(FromModel, "written", lambda *_, **__: ModelTexts(written, 0.0, ""))
        found = SPEC.writer.write(summary, seeded(1))
        assert len(found.texts) == sum(texts)
        return " ".join(found.sentences)

    assert "wanted texts" not in said(20, 20)
    assert said(20, 19).startswith("39 of 40 wanted texts were written: others were repeats, or not readable. Copies")
    assert (
        "mix of labels is not the wanted one, as too few different texts were written: money: 3 of 20 wanted."
        in said(20, 3)
    )
    texts = [[f"{label}{i}" for i in range(n)] for label, n in zip(SPEC.labels, (20, 3), strict=True)]
    others = SPEC.released(texts, np.full(2, 300.0), 1.0, seeded(1)).sentences  # of writers without a summary
    (few,) = (each for each in others if "too few" in each)
    assert few in said(20, 3)
    assert "Read some" not in said(20, 20)
    assert "Copies of public texts: 0 of 40." in said(20, 20)


def test_what_several_processes_have_written_is_told_while_they_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "LOOK_SECONDS", 0.05)
    count, there, told = get_context("spawn").Value("q", 0), threading.Event(), list[tuple[int, int]]()

    def shift(label: int, seed: int) -> tuple[int, int]:
        with count.get_lock():
            count.value += 4
        assert there.wait(20), "nothing was told while a task ran"
        return label, seed

    def tell(done: int, whole: int) -> None:
        told.append((done, whole))
        there.set()

    class Shifting(ThreadPoolExecutor):
        """It runs `shift` in the place of what processes run."""

        def submit(self, _: object, /, *task: int) -> Future[tuple[int, int]]:  # type: ignore[override]
            return super().submit(shift, *task)

    with Shifting(1) as pool:
        writers = Desks(pool, count, WritingProgress(10, tell))  # type: ignore[arg-type]
        assert [*writers.shifts([(0, 7), (1, 8), (2, 9)])] == [(0, (0, 7)), (1, (1, 8)), (2, (2, 9))]
    assert told[0] == (4, 10)
    assert told[-1] == (10, 10)  # never more than all
    assert told == sorted(set(told))


def test_a_label_with_less_than_half_of_its_texts_is_always_named() -> None:
    """A label that was missing wholly was not said if it was at most 5% of all texts."""
    labels, wanted = ("many", "few", "none"), np.array([960, 20, 20])
    (said,) = too_few(labels, wanted, [["a"] * 960, ["a"] * 11, []])
    assert said.startswith("971 of 1,000 wanted texts were written")
    assert said.endswith(" Of some labels too few different texts were written: none: 0 of 20 wanted.")
    assert too_few(labels, wanted, [["a"] * int(n) for n in wanted]) == []
    (alone,) = too_few((), np.array([10]), [["a"] * 9])
    assert alone == "9 of 10 wanted texts were written: others were repeats, or not readable."
    many = too_few([f"label {i}" for i in range(20)], np.full(20, 4), [[]] * 20)[0]
    assert many.count("0 of 4 wanted") == 8
    assert many.endswith("; and 12 more labels.")


def test_a_copy_of_an_example_of_the_prompt_is_no_written_text(
    fitted: FittedSteering, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = WordTargets.of(measured(SPEC, []), SPEC.writer)
    steered = replace(targets, examples=(("A  train that is much longer than twice ten tokens", None),)).opened()
    written = ["a TRAIN", "a train that is muc", "a bus", "A train that is much longer than  twice TEN tokens"]
    monkeypatch.setattr(Writer, "readable", lambda *_: written)
    shift = np.zeros(steered.model.size)
    assert steered.texts(0, 1, 1, shift)[0] == ["a TRAIN", "a bus"]  # the model reads 20 tokens of the example


def test_the_model_and_the_tokens_are_those_of_the_summary_unless_others_are_set() -> None:
    """A summary that was drafted by a model of a folder was written from by the default model."""
    own = SummarySpec(labels=("a", "b"), marks=3, points=False, model="a folder", tokens=9)
    assert (FromModel().of_summary(own).model, FromModel().of_summary(own).tokens) == ("a folder", 9)
    other = FromModel(model="smollm2", tokens=7).of_summary(own)
    assert (other.model, other.tokens) == ("smollm2", 7)


def test_another_model_than_that_of_the_drafts_is_said(fitted: FittedSteering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FromModel, "written", lambda *_, **__: ModelTexts([["x y"], ["z y"]], 0.0, "5" * 64))
    summary = measured(SPEC, [])
    said = " ".join(SPEC.writer.write(summary, seeded(1)).sentences)
    assert "Another model wrote than that of the summary's public drafts: sha256 555555555555..., not tiny" in said
    monkeypatch.setattr(FromModel, "written", lambda *_, **__: ModelTexts([["x y"], ["z y"]], 0.0, "tiny"))
    assert "Another model" not in " ".join(SPEC.writer.write(summary, seeded(1)).sentences)
