"""The public space in which a corpus is summed up: vectors of texts, projected on the main directions of a public pool.

A point depends on its text alone, bit for bit: features lie on a grid and directions are whole steps, so products are
exact and no batch changes a sum.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.embeddings.distilled import DistilledEncoder, common_words, distil_with_words
from dptext.embeddings.embedder import Embedder
from dptext.embeddings.encoders import Encoder, OwnEncoder, load_encoder
from dptext.embeddings.tfidf import fit_tfidf_svd
from dptext.errors import ConfigError
from dptext.mechanism import FitProgress, OnProgress
from dptext.text.tokens import words_of
from dptext.types import Floats, Singles

_GRID: Final = 2.0**-10  # step of a feature
_EXACT: Final = 2.0**23  # single precision holds all whole numbers to twice this
_STEP: Final = 2.0**-20  # step of a direction
_LARGEST: Final = 2.0**22  # bound on a direction's sum of sizes: 53 bits hold all sums of its products with features
_WHITENING: Final = 0.25  # directions are divided by the fourth root of their variance: half-way to equal variances
# Least variance of the main direction. With less variance, texts differ by less than a step of the grid.
_LEAST_VARIANCE: Final = 2.0**-30
_MOST_READ: Final = 4096  # the first words of a text, which are compared
_ALIKE: Final = "Expected public texts that differ: give a pool of other texts."
_ANCHORS: Final = 1000  # largest number of pool texts with which other texts are compared
_FIRST: Final = 64  # anchors with which all texts are compared
#: The encoders that have a name; any other is the folder of the user's own, or the name of one that was downloaded.
ENCODERS: Final = ("sentence", "distilled", "glove")
#: The share of a pool's own texts that count as unlike it.
UNLIKE_SHARE: Final = 0.1
LEAST_TEXTS: Final = 20
MOST_WORDS: Final = 512

_UNSEEN: Final = ("Cc", "Cf", "Zl", "Zp", "Zs")  # categories of Unicode: controls, formats (zero-width), separators


_FITTED: Final = (DistilledEncoder, OwnEncoder)  # readers whose name does not tell their weights


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PublicSpace:
    """Points `(n, dim)` of length at most 1.

    Attributes:
        readers: embedders whose vectors stand side by side.
        directions: `(features, dim)`, main directions of the pool, scaled so that half of the pool is in length 1.
        middle: the mean of the pool in these directions, `(dim,)`.
        anchors: encoder vectors of some pool texts, `(n, encoder.dim)`. Vectors of words are left out: they are fitted
            on the pool, so that other texts are nearer to each other in them than pool texts are.
        least: the product with the nearest anchor that 90% of the other pool texts reach.
        compared: number of these other pool texts.
    """

    readers: tuple[Embedder, ...]
    directions: Floats
    middle: Floats
    anchors: Floats
    least: float
    compared: int

    @property
    def encoder(self) -> Embedder:
        """The encoder of texts, without the words that were fitted on the pool."""
        return self.readers[0]

    @property
    def dim(self) -> int:
        """The number of coordinates of a point."""
        return len(self.middle)

    @property
    def digest(self) -> str:
        """sha256 of everything that determines the point of a text."""
        found = hashlib.sha256("\n".join(reader.name for reader in self.readers).encode())
        found.update(self.directions.tobytes() + self.middle.tobytes())
        found.update(self.anchors.tobytes() + np.float64(self.least).tobytes())
        found.update("".join(each.digest for each in self.readers if isinstance(each, _FITTED)).encode())
        return found.hexdigest()

    @property
    def exact(self) -> bool:
        """Whether all numbers are whole steps, as `fit_space` makes them: products with others would be rounded."""
        with np.errstate(over="ignore", invalid="ignore"):  # a stored space may hold any numbers
            steps = (self.anchors / _GRID, self.directions / _STEP, self.middle / _STEP)
            largest = np.abs(self.directions).sum(axis=0).max(initial=0.0)
            return all(np.array_equal(each, np.rint(each)) for each in steps) and bool(largest < _LARGEST)

    def features(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts on a grid, `(n, features)`."""
        return features_of(self.readers, texts)

    def unlike(self, features: Floats) -> Floats:
        """Return 1 for each text whose product with its nearest anchor is below `least`, else 0; `(n,)`."""
        own, anchors = _comparable(features, self.anchors)
        left, read = np.arange(len(own)), 0
        while len(left) and read < len(anchors):  # most texts are near one of the first
            more = max(_FIRST, read)
            left = left[(own[left] @ anchors[read : read + more].T).max(axis=1) < self.least]
            read += more
        found = np.zeros(len(own))
        found[left] = 1.0
        return found

    def points(self, texts: Sequence[str]) -> Floats:
        """Return the points of texts, `(n, dim)`."""
        return self.placed(self.features(texts))

    def placed(self, features: Floats) -> Floats:
        """Return the points `(n, dim)` of texts with these features `(n, features)`."""
        found = features @ self.directions - self.middle
        lengths = np.sqrt(np.square(found).sum(axis=1, keepdims=True))
        return np.asarray(found / np.maximum(1.0, lengths * (1 + 2.0**-40)))


def features_of(readers: Sequence[Embedder], texts: Sequence[str]) -> Floats:
    """Return the vectors of all readers side by side, on a grid, `(n, features)`."""
    vectors = [reader.embed(list(texts)) for reader in readers]
    found, end = np.empty((len(texts), sum(each.shape[1] for each in vectors))), 0
    for each in vectors:
        own = found[:, end : (end := end + each.shape[1])]
        np.divide(each, _GRID, out=own)
        np.rint(own, out=own)
        own *= _GRID
    return found


def says_something(text: str) -> bool:
    """Return whether a text has a visible character. Other texts add nothing to a sum and are in no pool."""
    return any(unicodedata.category(each) not in _UNSEEN for each in text)


def nearest(features: Floats, anchors: Floats) -> Floats:
    """Return the product of each row with its nearest anchor, `(n,)`. It is exact, as features lie on a grid."""
    own, options = _comparable(features, anchors)
    return np.asarray((own @ options.T).max(axis=1), np.float64)


def _comparable(features: Floats, anchors: Floats) -> tuple[Floats | Singles, Floats | Singles]:
    """Return the features that anchors have, and the anchors, in single precision where it holds each sum of products.

    No sum is larger than the product of both lengths (Cauchy-Schwarz), which are rounded here by far less than a
    hundredth.
    """
    own = features[:, : anchors.shape[1]]
    with np.errstate(over="ignore"):  # an infinite length is too long, too
        singles = own.astype(np.float32), anchors.astype(np.float32)
        longest = math.prod(math.sqrt(np.einsum("ij,ij->i", each, each).max(initial=0.0)) for each in singles)
    return singles if longest < 0.99 * _EXACT * _GRID**2 else (own, anchors)


@dataclass(frozen=True, slots=True)
class _Telling:
    """An encoder that tells how many public texts it has read."""

    encoder: Encoder | OwnEncoder
    on_progress: OnProgress
    name: str
    dim: int

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return the vectors `(n_texts, dim)` of the encoder."""
        whole = len(set(texts))
        return self.encoder.embed(
            texts, on_progress=lambda done: self.on_progress(FitProgress(done, whole, "public texts read"))
        )


def _loaded(name: str, on_progress: OnProgress | None) -> tuple[Encoder | OwnEncoder, Embedder]:
    """Return an encoder, and the same encoder that tells how far it is."""
    found = load_encoder(name) if name in ENCODERS else OwnEncoder.of(name)
    return found, found if on_progress is None else _Telling(found, on_progress, found.name, found.dim)


def fit_space(
    texts: Sequence[str],
    drafts: Sequence[str] = (),
    *,
    encoder: str | Embedder,
    words: int,
    dim: int,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> tuple[PublicSpace, Floats]:
    """Return the space of public texts, and their features `(n, features)`, those of the encoder first.

    `drafts` are more public texts: directions follow them, but nobody is compared with them. `encoder` is an embedder
    or its name. ConfigError: too few texts, no words in common, or texts with equal vectors.
    MissingExtraError: a package of the encoder is absent. Checks that need an encoder come last.
    """
    if len(texts) < LEAST_TEXTS:
        wanted = f"a pool of at least {LEAST_TEXTS} different public texts that hold something"
        raise ConfigError(f"Expected {wanted}, found {len(texts)}: give more.")
    if encoder in ("distilled", "glove") and len({" ".join(sorted(words_of(text, _MOST_READ))) for text in texts}) == 1:
        raise ConfigError(f"{_ALIKE} Each has the same words, and encoder={encoder!r} reads no order of words.")
    also = (fit_tfidf_svd([*texts, *drafts], dim=words, seed=seed).rounded(),) if words else ()
    order, half = np.random.default_rng(seed).permutation(len(texts)), len(texts) // 2
    reading: Embedder
    telling: Embedder
    if encoder == "distilled":  # learns from half of the pool; that half cannot tell how far other texts are
        _, teacher = _loaded("sentence", on_progress)
        reading = telling = distil_with_words(teacher, [texts[i] for i in order[:half]], common=common_words())
    elif isinstance(encoder, str):
        reading, telling = _loaded(encoder, on_progress)
    else:
        reading = telling = encoder
    readers, told = (reading, *also), (telling, *also)
    features = features_of(told, texts)
    every = np.concatenate([features, features_of(told, drafts)]) if drafts else features
    mean = every.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov((every - mean).T))
    if not variances[-1] > _LEAST_VARIANCE:
        raise ConfigError(f"{_ALIKE} encoder={encoder!r} gives each the same vector.")
    kept = np.flatnonzero(variances > 1e-9 * variances[-1])[::-1][:dim]
    axes = axes[:, kept] * np.sign(axes[np.abs(axes[:, kept]).argmax(axis=0), kept])
    directions = axes * variances[kept] ** -_WHITENING
    radius = np.median(np.sqrt(np.square((every - mean) @ directions).sum(axis=1)))
    directions = np.rint(directions / radius / _STEP) * _STEP
    if not np.abs(directions).sum(axis=0).max() < _LARGEST:
        raise ConfigError(f"{_ALIKE} Almost all have the same vector.")
    near, n_anchors = features[order, : reading.dim], min(_ANCHORS, half)
    anchors, others = near[:n_anchors], near[half if encoder == "distilled" else n_anchors :]
    least = float(np.quantile(nearest(others, anchors), UNLIKE_SHARE))
    middle = np.rint(mean @ directions / _STEP) * _STEP
    return PublicSpace(readers, directions, middle, anchors, least, len(others)), features
