"""Attacks on a corpus: what was planted is found, beside a control, and nothing is found where nothing leaves."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dptext.embeddings.encoders import load_encoder
from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.text.samples import sample_records
from dptext.utility.leaving import Leaving, leaving

N = 200
EVERY = [*{each.text: each for each in sample_records(2_400)}.values()]
PRIVATE, OTHERS, POOL, FREE = (EVERY[i * N : (i + 1) * N] for i in range(4))


def found(made: list[Record], private: list[Record] = PRIVATE, others: list[Record] = OTHERS) -> Leaving:
    return leaving(made, private=private, others=others, pool=POOL, embedder=load_encoder("glove"), seed=1)


def test_a_corpus_of_public_texts_shows_nothing() -> None:
    """Also one of texts that somebody else wrote: private texts and the control are alike to it."""
    for made in (POOL, FREE):
        told = found(made)
        assert (told.copies.of_private, told.copies.of_others) == ((0, N), (0, N))
        assert told.shown == ()
        assert not told.differ
        assert told.membership.low < 0.5 < told.membership.high
        assert told.nearer is not None
        assert 0.3 < told.nearer < 0.7
        assert told.texts == N


def test_copies_are_counted_in_all_texts_and_told() -> None:
    """Not in a sample: the control is smaller here."""
    told = found([*POOL[:100], *PRIVATE[:60]], others=OTHERS[:100])
    assert (told.copies.of_private, told.copies.of_others) == ((60, N), (0, 100))
    assert {"Texts word for word", "nearness to the corpus"} <= {*told.shown}
    assert told.texts == 100
    assert told.membership_by_public.low < 0.5 < told.membership_by_public.high
    assert told.distance < told.distance_of_others


def test_one_copy_more_than_of_the_control_is_chance() -> None:
    told = found([*POOL, *PRIVATE[:2], *OTHERS[:1]])
    assert (told.copies.of_private[0], told.copies.of_others[0]) == (2, 1)
    assert "Texts word for word" not in told.shown
    assert "Texts word for word" in found([*POOL, *PRIVATE[:9], *OTHERS[:1]]).shown


def test_a_control_that_is_nearer_is_none() -> None:
    """Nothing is said of private texts if the corpus copies others, and that the control differs is said."""
    told = found([*POOL[:100], *OTHERS[:60]])
    assert (told.copies.of_private[0], told.copies.of_others[0]) == (0, 60)
    assert told.shown == ()
    assert told.differ


def test_a_control_that_public_texts_alone_tell_apart_is_of_another_source() -> None:
    """Private texts are near copies of the pool here, as reviews of the same films are, and the control is not."""
    near = [replace(each, text=f"{each.text} Thanks.") for each in POOL]
    assert found(FREE, private=near).apart_by_public
    assert not found(FREE).apart_by_public
    assert not found([*POOL[:100], *PRIVATE[:60]]).apart_by_public


def test_near_copies_are_told_though_no_text_is_the_same() -> None:
    made = [replace(each, text=f"{each.text[:-1]}, please.") for each in PRIVATE[:120]]
    told = found([*POOL[:60], *made])
    assert told.copies.of_private[0] == 0
    assert "nearness to the corpus" in told.shown
    assert told.to_dict()["shown"] == [*told.shown]


def test_a_public_text_that_is_private_too_is_no_copy_and_a_shared_one_no_control() -> None:
    told = found([*POOL, PRIVATE[0]], private=[*PRIVATE, POOL[0]], others=[*OTHERS, *PRIVATE[:50]])
    assert told.copies.of_private == (1, N)  # the text that is no public one
    assert told.copies.of_others == (0, N)
    with pytest.raises(ConfigError, match="at least 8 records"):
        found(POOL, others=PRIVATE)


def test_names_numbers_and_addresses_that_come_back_are_counted_beside_a_control() -> None:
    def with_secret(records: list[Record], name: str) -> list[Record]:
        told = []
        for i, each in enumerate(records, start=1_000 * len(name)):
            own = name + "".join(chr(97 + int(digit)) for digit in str(i))
            told.append(f"{each.text} Call {own} at 0176 {i:06d} or {own}@mail.org.")
        return [replace(each, text=text) for each, text in zip(records, told, strict=True)]

    private, others = with_secret(PRIVATE, "xanthippe"), with_secret(OTHERS, "yorick")
    clean = {each.kind: each for each in found(POOL, private, others).replayed}
    assert {each.of_private[0] for each in clean.values()} == {0}
    assert {each.of_private[1] >= N for each in clean.values()} == {True}
    leaked = {each.kind: each for each in found([*POOL, *private[:10]], private, others).replayed}
    assert {kind: each.of_private[0] >= 10 for kind, each in leaked.items()} == dict.fromkeys(clean, True)
    assert leaked["E-mail addresses"].of_others == (0, N)
    assert leaked["Long numbers"].of_private == (10, N)
    assert "10 of 200, of the control 0 of 200" in leaked["Long numbers"].sentence
    shown = found([*POOL, *private[:30]], private, others).shown
    assert {"E-mail addresses", "Long numbers", "Names and rare words"} <= {*shown}


def test_an_attribute_that_only_private_texts_give_away_is_told() -> None:
    """Labels by lot, which nobody can guess, leave with the texts."""
    rng = np.random.default_rng(3)
    private, others = (
        [replace(each, label="ab"[int(bit)]) for each, bit in zip(side, rng.integers(0, 2, N), strict=True)]
        for side in (PRIVATE, OTHERS)
    )
    made = [replace(each, text=f"{each.text} Thanks.") for each in private]
    told = found(made, private, others)
    assert told.attribute is not None
    assert told.attribute_of_others is not None
    assert told.attribute.low > 0.8 > told.attribute_of_others.high
    assert "labels of the nearest texts" in told.shown
    bare = found([replace(each, label=None) for each in made], private, others)
    assert (bare.attribute, bare.attribute_of_others) == (None, None)


def test_as_many_texts_of_both_sides_are_drawn_and_few_are_refused() -> None:
    told = found(POOL, others=OTHERS[:50])
    assert told.texts == 50
    assert json.loads(json.dumps(told.to_dict()))["texts"] == 50
    with pytest.raises(ConfigError, match="at least 8 records"):
        found(POOL, others=OTHERS[:7])


@pytest.mark.parametrize("run", ["a", "1 ", "a.", "1", "a@", "@a.", "12-"])
def test_a_long_run_of_characters_takes_no_time(run: str) -> None:
    """A pattern that began anew at each character would take hours for it."""
    long = [Record(str(i), run * 100_000, "health") for i in range(2)]
    told = found([*POOL, *long[:1]], private=[*PRIVATE, *long])
    assert told.copies.of_private == (1, N + 1)
