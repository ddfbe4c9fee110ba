"""The public space in which a corpus is summed up: vectors of texts, cut to the main directions of a public pool.

A point is a function of its text alone, bit for bit: all features are on a grid and all directions are whole steps, so
that every product is exact and no batch changes a sum.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from dptext.embeddings.distilled import DistilledEncoder, common_words, distil_with_words
from dptext.embeddings.embedder import Embedder
from dptext.embeddings.encoders import load_encoder
from dptext.embeddings.tfidf import fit_tfidf_svd, load_sklearn
from dptext.errors import ConfigError, needing
from dptext.text.batches import Batch
from dptext.text.labels import matched
from dptext.text.tokens import words_of
from dptext.types import Floats, Integers

_GRID: Final = 2.0**-10  # of a feature
_STEP: Final = 2.0**-20  # of a direction
_LARGEST: Final = 2.0**22  # sum of a direction's numbers: 53 bits then hold every sum of its products with features
_WHITENING: Final = 0.25  # directions are divided by the fourth root of their variance: half-way to equal variances
_LEAST_VARIANCE: Final = 2.0**-30  # of a direction: less is no step of the grid in any text
_MOST_READ: Final = 4096  # words of a text
_ALIKE: Final = "Expected public texts that differ: give a pool of other texts."
_ANCHORS: Final = 1000  # pool texts that others are compared with, at most
#: The share of a pool's own texts that count as unlike it.
UNLIKE: Final = 0.1
LEAST_TEXTS: Final = 20
MOST_WORDS: Final = 512

_UNSEEN: Final = ("Cc", "Cf", "Zl", "Zp", "Zs")  # categories of Unicode: controls, formats (zero-width), separators

#: Reads the private corpus from its beginning, in batches. It may be called more than once.
Corpus = Callable[[], Generator[Batch, None, None]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PublicSpace:
    """Points `(n, dim)` of length at most 1.

    Attributes:
        readers: embedders whose vectors stand side by side.
        directions: `(features, dim)`, main directions of the pool, scaled so that half of the pool is in length 1.
        middle: the mean of the pool in these directions, `(dim,)`.
        anchors: what the encoder finds in some pool texts, `(n, its features)`. Words were fitted on the pool, so that
            other texts are nearer to each other in them than the pool's own are; the encoder knows no pool.
        least: the product with the nearest anchor that nine in ten of the other pool texts reach.
        compared: how many others there were.
    """

    readers: tuple[Embedder, ...]
    directions: Floats
    middle: Floats
    anchors: Floats
    least: float
    compared: int

    @property
    def encoder(self) -> Embedder:
        """What reads texts, without the words that were fitted on the pool."""
        return self.readers[0]

    @property
    def dim(self) -> int:
        """Coordinates of a point."""
        return len(self.middle)

    @property
    def digest(self) -> str:
        """sha256 of what turns a text into a point."""
        found = hashlib.sha256("\n".join(reader.name for reader in self.readers).encode())
        found.update(self.directions.tobytes() + self.middle.tobytes())
        found.update(self.anchors.tobytes() + np.float64(self.least).tobytes())
        found.update("".join(each.digest for each in self.readers if isinstance(each, DistilledEncoder)).encode())
        return found.hexdigest()

    def features(self, texts: Sequence[str]) -> Floats:
        """Vectors `(n, features)` on a grid."""
        return features_of(self.readers, texts)

    def unlike(self, features: Floats) -> Floats:
        """1 for each text that is less like its nearest anchor than nine in ten of the pool are, else 0; `(n,)`."""
        return np.asarray(nearest(features, self.anchors) < self.least, np.float64)

    def points(self, texts: Sequence[str]) -> Floats:
        """The points of the texts, `(n, dim)`."""
        return self.placed(self.features(texts))

    def placed(self, features: Floats) -> Floats:
        """The points of the features of texts."""
        found = features @ self.directions - self.middle
        lengths = np.sqrt(np.square(found).sum(axis=1, keepdims=True))
        return np.asarray(found / np.maximum(1.0, lengths * (1 + 2.0**-40)))


def features_of(readers: Sequence[Embedder], texts: Sequence[str]) -> Floats:
    """Vectors `(n, features)` of texts, side by side, on a grid."""
    found = [np.asarray(reader.embed(list(texts)), np.float64) for reader in readers]
    return np.asarray(np.rint(np.concatenate(found, axis=1) / _GRID) * _GRID)


def says_something(text: str) -> bool:
    """Whether a text has a character that can be seen: others add nothing, and leave from no pool."""
    return any(unicodedata.category(each) not in _UNSEEN for each in text)


def nearest(features: Floats, anchors: Floats) -> Floats:
    """The product of each with its nearest anchor, `(n,)`: exact, as features are on a grid."""
    return np.asarray((features[:, : anchors.shape[1]] @ anchors.T).max(axis=1))


def extras_of(encoder: str | Embedder) -> tuple[str, str]:
    """The extras of a space that this encoder reads: one line installs both."""
    return "glove" if encoder == "glove" else "sbert", "audit"


def fit_space(
    texts: Sequence[str], *, encoder: str | Embedder, words: int, dim: int, seed: int = 0
) -> tuple[PublicSpace, Floats]:
    """The space of public texts, and their features `(n, features)`, those of the encoder, or of its name, first.

    ConfigError: too few texts, no words in common, or texts that do not differ in what is read. MissingExtraError: what
    reads is absent. What needs an encoder comes last.
    """
    if len(texts) < LEAST_TEXTS:
        wanted = f"a pool of at least {LEAST_TEXTS} different public texts that hold something"
        raise ConfigError(f"Expected {wanted}, found {len(texts)}: give more.")
    if encoder in ("distilled", "glove") and len({" ".join(sorted(words_of(text, _MOST_READ))) for text in texts}) == 1:
        raise ConfigError(f"{_ALIKE} Each has the same words, and encoder={encoder!r} reads no order of words.")
    with needing("A synthesis", *extras_of(encoder)):
        load_sklearn()
    also = (fit_tfidf_svd(texts, dim=words, seed=seed),) if words else ()
    order, half = np.random.default_rng(seed).permutation(len(texts)), len(texts) // 2
    reading: Embedder
    if encoder == "distilled":  # it learns from a half of the pool, which tells nothing of how far others are from it
        reading = distil_with_words(load_encoder(), [texts[i] for i in order[:half]], common=common_words())
    else:
        reading = load_encoder(encoder) if isinstance(encoder, str) else encoder
    readers = (reading, *also)
    features = features_of(readers, texts)
    mean = features.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov((features - mean).T))
    if not variances[-1] > _LEAST_VARIANCE:
        raise ConfigError(f"{_ALIKE} encoder={encoder!r} reads the same in each.")
    kept = np.flatnonzero(variances > 1e-9 * variances[-1])[::-1][:dim]
    axes = axes[:, kept] * np.sign(axes[np.abs(axes[:, kept]).argmax(axis=0), kept])
    directions = axes * variances[kept] ** -_WHITENING
    radius = np.median(np.sqrt(np.square((features - mean) @ directions).sum(axis=1)))
    directions = np.rint(directions / radius / _STEP) * _STEP
    if not np.abs(directions).sum(axis=0).max() < _LARGEST:
        raise ConfigError(f"{_ALIKE} Hardly any is read otherwise than the rest.")
    near, n_anchors = features[order, : reading.dim], min(_ANCHORS, half)
    anchors, others = near[:n_anchors], near[half if encoder == "distilled" else n_anchors :]
    least = float(np.quantile(nearest(others, anchors), UNLIKE))
    middle = np.rint(mean @ directions / _STEP) * _STEP
    return PublicSpace(readers, directions, middle, anchors, least, len(others)), features


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reading:
    """Private records that add something: place of the label (0 without labels), point, author, and 1 where unlike."""

    labels: Integers
    points: Floats
    unlike: Floats
    authors: list[str | None]


@runtime_checkable
class ReadsItself(Protocol):
    """A corpus whose records are read elsewhere."""

    def readings(self, space: PublicSpace, labels: Sequence[str]) -> Iterator[Reading]:
        """As the function of this name."""


def readings(corpus: Corpus, space: PublicSpace, labels: Sequence[str]) -> Iterator[Reading]:
    """The private records that add something, in batches; a corpus that `ReadsItself` gives them in any order."""
    if isinstance(corpus, ReadsItself):
        yield from corpus.readings(space, labels)
        return
    for known, texts, authors in units_of(corpus, labels):
        features = space.features(texts)
        yield Reading(known, space.placed(features), space.unlike(features), authors)


def units_of(corpus: Corpus, labels: Sequence[str]) -> Iterator[tuple[Integers, list[str], list[str | None]]]:
    """Place of the label (0 without labels), text and author of private records, in batches.

    A record without text, or without one of the labels, adds nothing and is left out.
    """
    number = {label: i for i, label in enumerate(labels)}
    with closing(corpus()) as batches:
        for batch in batches:
            known = [number.get(name or "", -1) if number else 0 for name in matched(batch.labels, labels)]
            rows = [i for i, text in enumerate(batch.texts) if known[i] >= 0 and says_something(text)]
            if rows:
                places = np.array([known[i] for i in rows], np.int64)
                yield places, [batch.texts[i] for i in rows], [batch.authors[i] for i in rows]
