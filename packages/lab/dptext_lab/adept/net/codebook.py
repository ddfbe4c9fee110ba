"""A public codebook of utterances: the decoder writes them from public latents; they are cleaned, and ranked by cosine.

The functions of this module see public text only, except `scores`, which ranks for a private text. So it costs no
privacy to choose the sentences, their number, and the least chance of each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dptext.embeddings.npy import TextPool
from dptext.errors import ConfigError
from dptext.frozen import read_only
from dptext.sampling.envelope import EnvelopeResponse, tuned_response
from dptext.sampling.top_k import agreement
from dptext.text.records import Record
from dptext.types import Floats, Int16s
from dptext_lab.adept.net.decoding import Decoding
from dptext_lab.adept.net.model import AnnotatedModel

_ROUNDS = 6
_WORST = 0.1
_MIN_WORDS = 2
_QUERIES = 2000
_PAIRS = 10_000_000  # bounds time and memory
_GRID = 4096.0
_FIRST = 3.0  # more than 2, the largest difference of two cosines


@dataclass(frozen=True, slots=True, eq=False)
class TextCodebook(TextPool):
    """Public utterances. No two have both the same text and the same label.

    `points` `(size, d)` are their unit vectors for the cosine. `sources` are the positions of the public records from
    which they were written.
    """

    points: Floats
    sources: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", read_only(self.points))


def scores(codebook: TextCodebook, meanings: Floats, labels: Sequence[str | None], *, label_weight: float) -> Int16s:
    """Cosines `(n, size)`, plus `label_weight` for equal labels, in whole steps of 2^-12.

    A weight above 3 counts as 3, which already ranks all equal labels first.
    """
    # The product is exact for meanings on a sentence encoder's grid. The weight, which may be any float, is added once
    # to each score. So no score depends on the other rows.
    likeness = meanings * _GRID @ codebook.points.T
    likeness += min(label_weight, _FIRST) * _GRID * agreement(codebook.labels, labels)
    return np.asarray(np.rint(likeness, out=likeness).astype(np.int16))


def write_codebook(model: AnnotatedModel, public: Sequence[Record], *, size: int, seed: int) -> TextCodebook:
    """Decode the latents of public records, and latents near to them, until there are `size` good sentences.

    A sentence is removed if it is a duplicate, has another label than its record, did not end, has fewer than two
    words, or has a word twice in a row. Then the tenth of the sentences that the decoder finds least likely is removed.
    ConfigError: fewer than two are left.
    """
    source = np.random.default_rng(seed)
    latents = model.latents(public)
    wanted = math.ceil(size / (1 - _WORST)) + 1
    kept: dict[tuple[str | None, str], tuple[int, Floats]] = {}
    for round_ in range(_ROUNDS):
        # The first round writes the best sentence of each latent. Later rounds draw sentences farther and farther away.
        how = Decoding(temperature=0.0 if round_ == 0 else 0.5)
        shift = 0.1 * round_ * source.normal(size=latents.shape) / math.sqrt(latents.shape[1])
        moved = latents + shift * np.linalg.norm(latents, axis=1, keepdims=True)
        for i, (label, text) in enumerate(model.write(moved, how, seed=seed + round_)):
            if _is_whole(text, model.tokens.max_tokens) and (not model.tokens.labels or label == public[i].label):
                kept.setdefault((label, text), (i, moved[i]))
        if len(kept) >= wanted:
            break
    if len(kept) < 2:
        remedy = "give more public text, more epochs or a larger hidden"
        raise ConfigError(f"Expected a model that writes at least 2 good sentences, found {len(kept)}: {remedy}.")
    utterances = [Record(str(i), text, label=label) for i, (label, text) in enumerate(kept)]
    losses = model.writing_losses(np.stack([latent for _, latent in kept.values()]), utterances)
    likely = np.argsort(losses, kind="stable")[: max(2, math.floor(len(kept) * (1 - _WORST)))]
    chosen = np.sort(source.permutation(likely)[:size])
    good = [utterances[i] for i in chosen]
    origins = [origin for origin, _ in kept.values()]
    texts, labels = tuple(record.text for record in good), tuple(record.label for record in good)
    return TextCodebook(texts, labels, model.meanings(good), tuple(origins[i] for i in chosen))


def _is_whole(text: str, max_tokens: int) -> bool:
    words = text.split()
    twice = any(first == second for first, second in pairwise(words))
    return _MIN_WORDS <= len(words) < max_tokens and not twice


def best_choice(
    book: TextCodebook, model: AnnotatedModel, public: Sequence[Record], epsilon: float, label_weight: float, seed: int
) -> EnvelopeResponse:
    """Make the choice with the highest scores on public records. An utterance does not count for its own record."""
    most = min(_QUERIES, max(1, _PAIRS // len(book)))
    rows = np.random.default_rng(seed).permutation(len(public))[:most]
    asked = [public[i] for i in rows]
    ranked = scores(book, model.meanings(asked), [record.label for record in asked], label_weight=label_weight)
    own = rows[:, None] == np.asarray(book.sources)[None, :]
    return tuned_response(ranked, own, epsilon=epsilon, seed=seed)
