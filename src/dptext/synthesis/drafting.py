"""Public drafts: what a language model writes of each label from public examples alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dptext.errors import MissingExtraError
from dptext.language.reading import SMOLLM2, is_there, load_language_model
from dptext.mechanism import FitProgress, OnProgress
from dptext.sampling.randomness import seeded
from dptext.synthesis.by_length import ByLength, examples_by_length, shares_of_public
from dptext.synthesis.lengths import LengthBins
from dptext.synthesis.writer import Writer
from dptext.text.records import Record


class PublicDrafts(NamedTuple):
    """Public examples, the drafts of each label, and sha256 of the model's weights; empty without drafts."""

    examples: tuple[Record, ...] = ()
    drafts: tuple[tuple[str, ...], ...] = ()
    model: str = ""


def public_drafts(
    records: Sequence[Record],
    *,
    names: tuple[str, ...],
    labels: Sequence[str],
    bins: LengthBins,
    model: str,
    examples: int,
    drafts: int,
    tokens: int,
    seed: int,
    on_progress: OnProgress | None,
) -> PublicDrafts:
    """Write `drafts` texts of each label, whose meanings are `names`, in the lengths of the public records.

    MissingExtraError: the model is absent. Without the default model, which is optional, there are examples alone.
    ConfigError: see `load_language_model` and `LineWriter.of`.
    """
    shown = examples_by_length(records, bins, examples, tokens=tokens, seed=seed)
    if not drafts:
        return PublicDrafts(shown)
    whole = drafts * len(names)
    if on_progress is not None and is_there(model):  # the model is loaded for some seconds
        on_progress(FitProgress(0, whole, "public drafts written"))
    try:
        loaded = load_language_model(model).fast()
    except MissingExtraError:
        if model == SMOLLM2:
            return PublicDrafts(shown)
        raise
    writers = ByLength.of(
        Writer, loaded, names, labels, shown, bins=bins, tokens=tokens, temperature=0.7,
        shares=shares_of_public([each.text for each in records], bins, len(names)), options=min(512, loaded.size),
    )  # fmt: skip
    none, source, done = np.zeros(loaded.size), seeded(seed), 0

    def told(more: int) -> None:
        nonlocal done
        done += more
        if on_progress is not None:
            on_progress(FitProgress(done, whole, "public drafts written"))

    found = [
        [
            text
            for writer, written in writers.shifted(label, drafts, none, source, told)
            for text in writer.readable(written.texts)
        ]
        for label in range(len(names))
    ]
    return PublicDrafts(shown, tuple(tuple(dict.fromkeys(each)) for each in found), loaded.digest)
