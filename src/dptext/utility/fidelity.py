"""Fidelity: the kept parts of each record (label, meaning, words), and the variety of the outputs.

A classifier that is trained on the outputs may be good although no output is related to its original: a decoder
regenerates public knowledge. These numbers compare each output with its own original.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import EmbeddedTexts, Embedder, embed_distinct
from dptext.embeddings.encoders import load_encoder
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni, clopper_pearson, clopper_pearson_lower, clopper_pearson_upper
from dptext.sampling.bootstrap import bootstrap_mean
from dptext.text.reading import as_records
from dptext.text.records import Record, Release
from dptext.text.tables import Texts
from dptext.text.tokens import composed, tokenize
from dptext.types import Floats, Integers, Json, fields_as_json

#: The number of originals among which an output's own is ranked; all originals if there are fewer.
ORIGINALS_COMPARED = 100
#: Cosines closer than this are ties: the order of summation in a product must not rank equal texts.
TIE = 1e-9
_CONFIDENCE = 0.95
_VALUES_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Kept parts of the records.

    Attributes:
        label_kept: share of the records with a label whose release has the same label, Clopper-Pearson. A release
            without a label keeps none. None if no record, or no release, has a label.
        cosine: mean cosine of an output and its own original in the space of the embedder, bootstrap over records. A
            text whose vector is zero has cosine 0 to every other.
        own_first: share of the records whose own original has the largest cosine to the output among `candidates`
            originals, Clopper-Pearson. A record whose original ties with others for the first place, t in all, counts
            1/t, its average if ties were broken at random. A sum that is no integer is rounded down for the lower end
            and up for the upper end. Chance is 1/candidates.
        candidates: the number of originals that are compared for each record: its own, and distinct others drawn by the
            seed. The number is 100, or the number of records if there are fewer.
        tokens_kept: mean share of the original's tokens, case-folded and counted as often as they occur, that the
            output has, too; bootstrap over the originals with tokens. None if there are none.
        distinct_texts: distinct outputs / outputs.
        distinct_1, distinct_2: distinct words (pairs of neighbouring words) / all of them, over all outputs,
            case-folded; 0 if there are none. Like `distinct_texts` they shrink as outputs are added, so compare them
            for equal numbers of records. They have no interval, because resampling records repeats some.
        repetition: share of the outputs in which some three neighbouring tokens occur again, Clopper-Pearson.
    """

    label_kept: Estimate | None
    cosine: Estimate
    own_first: Estimate
    candidates: int
    tokens_kept: Estimate | None
    distinct_texts: float
    distinct_1: float
    distinct_2: float
    repetition: Estimate
    records: int

    def to_dict(self) -> dict[str, Json]:
        """Return the numbers as JSON-able data; estimates with their intervals, None for missing numbers."""
        return fields_as_json(self)


def check_pairs(originals: Sequence[Record], outputs: Sequence[Release[str]]) -> None:
    """Raise ConfigError unless there is an output, and each output belongs to the original in the same place."""
    if not originals or [record.id for record in originals] != [release.id for release in outputs]:
        raise ConfigError(
            f"Expected one output for each of {len(originals)} originals (at least one), in the same order and with "
            f"the same ids, found {len(outputs)}."
        )


def fidelity(
    originals: Texts,
    outputs: Iterable[Release[str]],
    *,
    embedder: Embedder | None = None,
    embedded: EmbeddedTexts | None = None,
    seed: int = 0,
) -> Fidelity:
    """Compare each output with its own original; intervals at 95%.

    `originals` are the private records, or anything that `as_records` accepts; `outputs` has one release of each, in
    the same order. `embedder`, for the cosines, is public, all-MiniLM-L6-v2 by default; it is not used if `embedded`
    holds the vectors of all these texts. `seed` is of the candidates and the bootstrap. ConfigError: outputs that do
    not match the originals, or an embedder without finite vectors. MissingExtraError: the default embedder is not
    installed.
    """
    originals, outputs = as_records(originals), list(outputs)
    check_pairs(originals, outputs)
    texts, written = [record.text for record in originals], [release.output for release in outputs]
    space = embedded or embed_distinct([*texts, *written], embedder or load_encoder(), single=True)
    own, ranked = _cosines(space, space.positions(texts), space.positions(written), seed)
    tokens, tokens_out = _tokens(texts), _tokens(written)
    both = [(before, Counter(before) & Counter(after)) for before, after in zip(tokens, tokens_out, strict=True)]
    shares = [kept.total() / len(before) for before, kept in both if before]
    repeated = sum(map(_repeats, tokens_out))
    return Fidelity(
        label_kept=_label_kept(originals, outputs),
        cosine=bootstrap_mean(own, seed=seed, bounds=(-1.0, 1.0)),
        own_first=_share_of_ones(ranked),
        candidates=min(ORIGINALS_COMPARED, len(originals)),
        tokens_kept=bootstrap_mean(np.array(shares), seed=seed, bounds=(0.0, 1.0)) if shares else None,
        distinct_texts=len(set(written)) / len(written),
        distinct_1=_distinct(tuple(line) for tokens in tokens_out for line in zip(tokens, strict=True)),
        distinct_2=_distinct(pair for tokens in tokens_out for pair in pairwise(tokens)),
        repetition=clopper_pearson(repeated, len(written), confidence=_CONFIDENCE),
        records=len(originals),
    )


def _label_kept(originals: Sequence[Record], outputs: Sequence[Release[str]]) -> Estimate | None:
    pairs = [(a.label, b.label) for a, b in zip(originals, outputs, strict=True) if a.label is not None]
    if not pairs or all(release.label is None for release in outputs):
        return None
    return clopper_pearson(sum(a == b for a, b in pairs), len(pairs), confidence=_CONFIDENCE)


def _cosines(space: EmbeddedTexts, originals: Integers, outputs: Integers, seed: int) -> tuple[Floats, Floats]:
    """Return the cosine of each output and its own original; and 1/t if that is one of the t best, else 0."""
    n, dim = len(originals), space.vectors.shape[1]
    others = draw_others(n, min(ORIGINALS_COMPARED, n) - 1, seed)
    own, first = np.empty(n), np.empty(n)
    step = max(1, _VALUES_AT_ONCE // (ORIGINALS_COMPARED * dim))
    for start in range(0, n, step):
        here = slice(start, min(start + step, n))
        output = space.vectors[outputs[here]].astype(np.float64)
        own[here] = np.einsum("ij,ij->i", output, space.vectors[originals[here]])
        rivals = np.matmul(space.vectors[originals[others[here]]].astype(np.float64), output[:, :, None])[:, :, 0]
        gaps = rivals - own[here, None]
        ties = 1 + (np.abs(gaps) <= TIE).sum(axis=1)
        first[here] = np.where((gaps > TIE).any(axis=1), 0.0, 1.0 / ties)
    return np.clip(own, -1.0, 1.0), first


def draw_others(n: int, k: int, seed: int) -> Integers:
    """Draw for each of n records k distinct other records, `(n, k)`: uniform subsets, drawn for all rows at once.

    The draw is Floyd's algorithm (Bentley and Floyd 1987): for j = n-1-k, ..., n-2 draw t in [0, j] and take t, or j if
    t is taken already.
    """
    _validate.count(n=n)
    rng = np.random.default_rng(seed)
    chosen = np.empty((n, k), np.int64)
    for column, j in enumerate(range(n - 1 - k, n - 1)):
        drawn = rng.integers(0, j + 1, n)
        taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, j, drawn)
    return chosen + (chosen >= np.arange(n)[:, None])  # from indices among the other records to indices among all


def _share_of_ones(values: Floats) -> Estimate:
    n, total = len(values), round(math.fsum(values.tolist()), 9)  # thirds add up to one
    alpha = bonferroni(_CONFIDENCE, 2)
    low = clopper_pearson_lower(math.floor(total), n, alpha=alpha)
    high = clopper_pearson_upper(math.ceil(total), n, alpha=alpha)
    return Estimate(total / n, low, high, _CONFIDENCE)


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    return [[token.casefold() for line in tokenize(composed(text)) for token in line] for text in texts]


def _distinct(ngrams: Iterable[tuple[str, ...]]) -> float:
    counts = Counter(ngrams)
    return len(counts) / counts.total() if counts else 0.0


def _repeats(tokens: Sequence[str]) -> bool:
    trigrams = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
    return len(set(trigrams)) < len(trigrams)
