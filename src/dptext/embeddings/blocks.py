"""Texts put into blocks for a sentence encoder, so that the shape of a text's block depends on its own length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dptext.types import Integers, Positions

#: Word pieces of a block, largest first. A single text needs a block of the smallest size.
_SIZES = (1024, 512, 256, 128, 64)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Texts that are computed together.

    Attributes:
        texts: positions of at most `n_rows` texts; the rows after theirs are filled up.
        n_rows: rows of the block.
        length: word pieces of a row.
        full: whether no row has padding; else each row has some. The libraries drop the attention mask of a block
            without padding, and then compute in another way.
    """

    texts: Positions
    n_rows: int
    length: int
    full: bool


def padded_blocks(lengths: Positions, *, limit: int, factor: int) -> Iterator[Block]:
    """Put every text into one block. Its own length decides the shape, up to the choice among five sizes.

    Args:
        lengths: word pieces of each text.
        limit: word pieces that the model reads at most.
        factor: multiplies the rows of a block; 1 on a processor.
    """
    groups: dict[tuple[int, bool], list[int]] = {}
    for i, length in enumerate(lengths.tolist()):
        groups.setdefault(_place(length, limit), []).append(i)
    for (length, full), texts in sorted(groups.items()):
        sizes = [max(1, factor * pieces // length) for pieces in _SIZES]
        start = 0
        while start < len(texts):
            n_rows = next((size for size in sizes if size <= len(texts) - start), sizes[-1])
            yield Block(np.array(texts[start : start + n_rows], np.intp), n_rows, length, full)
            start += n_rows


def _place(length: int, limit: int) -> tuple[int, bool]:
    """Length of the block for a text of so many pieces, and whether its rows are full.

    At least one place is left where they are not. Steps of 4 up to 64 pieces, of 8 up to 128, of 16 up to 256: at most
    an eighth of a long row is padding.
    """
    if length >= limit:
        return limit, True
    step = 1 << max(length.bit_length() - 4, 2)
    return min((length // step + 1) * step, limit), False


def padded(pieces: Mapping[str, Sequence[Sequence[int]]], block: Block, *, pad: int, side: str) -> dict[str, Integers]:
    """The features of a block, `(n_rows, length)` each. A row without a text has one piece, or all if it is full."""
    shape = (block.n_rows, block.length)
    features = {name: np.full(shape, pad if name == "input_ids" else 0, np.int64) for name in pieces}
    mask = features["attention_mask"] = np.full(shape, int(block.full), np.int64)
    mask[:, 0 if side == "right" else -1] = 1
    for row, text in enumerate(block.texts.tolist()):
        length = len(pieces["input_ids"][text])
        columns = slice(length) if side == "right" else slice(block.length - length, None)
        mask[row, columns] = 1
        for name, values in pieces.items():
            features[name][row, columns] = values[text]
    return features
