"""The pool of public texts and its topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from dptext.embeddings.tfidf import has_word, load_sklearn, words_tfidf
from dptext.errors import ConfigError
from dptext.mechanism import OnProgress
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.synthesis.lexicon import untelling_words
from dptext.synthesis.space import PublicSpace, fit_space, says_something
from dptext.synthesis.spec import CorpusSpec
from dptext.text.function_words import ENGLISH
from dptext.text.reading import as_records
from dptext.text.records import Record, records_digest
from dptext.types import Booleans, Floats, Integers

_WORDS: Final = 6  # that describe a topic
#: More stop words: pieces of contractions such as didn't and we'll, and forms of their verbs.
_PIECES: Final = frozenset({
    "ain", "aren", "couldn", "did", "didn", "does", "doesn", "doing", "don", "hadn", "hasn", "haven", "isn", "ll",
    "mustn", "needn", "re", "shan", "shouldn", "ve", "wasn", "weren", "won", "wouldn",
})  # fmt: skip
_MORE: Final = 0.25  # a word describes a topic if its weight exceeds that in the whole pool by this part
_EXAMPLES: Final = 3
#: Far above what rounding does to a distance by products.
_ROUNDING: Final = 1e-9
_SHOWN: Final = 160  # characters of a public text in a report
_FEWEST: Final = 8.0  # a topic weighs at least 1/8 of its share of the pool


def nearest_of(points: Floats, options: Floats) -> Integers:
    """Return the nearest option of each point, `(n,)`, of length at most 1; the first of several that are as near.

    Products, whose last bits follow the batch, leave the options that may be nearest. A point with more than one gets
    its distances as sums over it alone, so no batch changes an option.
    """
    roughly = np.square(options).sum(axis=1) - 2 * (points @ options.T)
    found = np.argmin(roughly, axis=1)
    margin = _ROUNDING * (1 + np.abs(roughly).max(axis=1))
    unsure = (roughly <= (roughly.min(axis=1) + margin)[:, None]).sum(axis=1) > 1
    if unsure.any():
        near = [np.square(points[unsure] - option).sum(axis=1) for option in options]
        found[unsure] = np.argmin(np.stack(near), axis=0)
    return np.asarray(found, np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopicMap:
    """Clusters of a public pool: `centres` `(topics, dim)`, public words and texts of each, the topic of each text."""

    centres: Floats
    described: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    of_pool: Integers

    def nearest(self, points: Floats) -> Integers:
        """Return the topic of each point, `(n,)`, of length at most 1; the first of several that are as near."""
        return nearest_of(points, self.centres)

    def without_texts(self) -> TopicMap:
        """Return the topics without any text of the pool."""
        return TopicMap(self.centres, tuple((words, ()) for words, _ in self.described), self.of_pool[:0])

    def with_texts(self, texts: Sequence[str], points: Floats) -> TopicMap:
        """Return the topics of pool texts with these points, each described by the texts nearest to its centre."""
        of_pool = self.nearest(points)
        shown = (_nearest_texts(texts, points, centre, of_pool == i) for i, centre in enumerate(self.centres))
        described = tuple((words, near) for (words, _), near in zip(self.described, shown, strict=True))
        return TopicMap(self.centres, described, of_pool)

    def weights(self, counts: Floats, deviation: float) -> Floats:
        """Return ln(share of a pool text's topic in the corpus / in the pool), `(n,)`; noise counts as 0."""
        there = np.bincount(self.of_pool, minlength=len(counts)) / len(self.of_pool)
        kept = np.where(counts > 2 * deviation, counts, 0.0)
        if not kept.sum():
            return np.zeros(len(self.of_pool))
        ratio = kept / kept.sum() / np.maximum(there, 1e-12)
        return np.asarray(np.log(np.maximum(ratio, 1 / _FEWEST))[self.of_pool])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PublicPool:
    """Distinct public texts with a visible character, and what is fitted on them.

    Attributes:
        texts: the texts.
        space: the space of points; None if nothing reads points.
        points: points of the texts, `(n, dim)`; dim is 0 without a space.
        topics: clusters of the points; None without topics.
    """

    texts: tuple[str, ...]
    space: PublicSpace | None
    points: Floats
    topics: TopicMap | None

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the texts, and of the space if there is one."""
        texts = {"public": records_digest(Record("", text) for text in self.texts)}
        return texts if self.space is None else {**texts, "space": self.space.digest}


@runtime_checkable
class OnPool(Protocol):
    """A fitted synthesis with a pool."""

    @property
    def pool(self) -> PublicPool:
        """The pool."""
        ...


def pool_texts(public: Iterable[Record]) -> tuple[str, ...]:
    """Return the distinct texts of public records that have a visible character."""
    return tuple(dict.fromkeys(record.text for record in as_records(public) if says_something(record.text)))


def fit_pool(
    texts: tuple[str, ...],
    spec: CorpusSpec,
    *,
    dim: int,
    drafts: Sequence[str] = (),
    seed: int | None = None,
    language: str = ENGLISH,
    on_progress: OnProgress | None = None,
) -> tuple[PublicPool, Floats]:
    """Return the pool in `dim` directions, and features of its texts. Errors: see `fit_space` and `fit_topics`.

    `drafts` are more public texts that the directions follow. `language` says which words say nothing of a topic.
    """
    if spec.topics:
        require_topics(texts, spec.topics, language)  # before an encoder reads the pool
    space, features = fit_space(
        texts, drafts, encoder=spec.encoder, words=spec.words, dim=dim, seed=seed or 0, on_progress=on_progress
    )
    points = space.placed(features).astype(np.float32).astype(np.float64)  # as a summary stores them
    topics = fit_topics(texts, points, spec.topics, seed=seed or 0, language=language) if spec.topics else None
    return PublicPool(texts, space, points, topics), features


def shuffled(n: int, randomness: Randomness) -> Integers:
    """Return a random permutation of 0 to n - 1."""
    return np.argsort(uniform_below(1 << 63, n, randomness), kind="stable")


def apportioned(weights: Floats, size: int) -> Integers:
    """Return whole numbers in proportion to weights `(n,)`, which add up to `size` (largest remainders)."""
    exact: Floats = weights / weights.sum() * size
    found: Integers = np.floor(exact).astype(np.int64)
    more = np.argsort(-(exact - found), kind="stable")[: size - int(found.sum())]
    found[more] += 1
    return found


def require_topics(texts: Sequence[str], topics: int, language: str = ENGLISH) -> None:
    """Raise ConfigError if the pool is too small for this number of topics, or has no words that describe topics."""
    if len(texts) < 2 * topics:
        raise ConfigError(
            f"Expected a pool of at least {2 * topics} different texts for topics={topics}, found {len(texts)}: give "
            "more, or set fewer topics."
        )
    if not has_word(texts, but=stop_words(language)):
        wanted = "words that say what a topic is about"
        raise ConfigError(f"Expected a pool with {wanted}, found none but stop words: give other public texts.")


def stop_words(language: str = ENGLISH) -> frozenset[str]:
    """Return the stop words of a language: of English also pieces of contractions, of others their function words."""
    if language != ENGLISH:
        return untelling_words(language)
    return frozenset(load_sklearn().feature_extraction.text.ENGLISH_STOP_WORDS) | _PIECES


def fit_topics(texts: Sequence[str], points: Floats, topics: int, *, seed: int, language: str = ENGLISH) -> TopicMap:
    """Return k-means clusters of the pool. ConfigError: see `require_topics`, or too few distinct points."""
    require_topics(texts, topics, language)
    if (different := len(np.unique(points, axis=0))) < topics:
        wanted = f"a pool of at least {topics} texts with different vectors for topics={topics}"
        raise ConfigError(f"Expected {wanted}, found {different}: give other texts, or set fewer topics.")
    from sklearn.cluster import KMeans  # noqa: PLC0415 (slow to load)

    centres = np.asarray(KMeans(topics, n_init=1, random_state=seed).fit(points).cluster_centers_, np.float64)
    mapped = TopicMap(centres, (), np.zeros(0, np.int64))
    of_pool = mapped.nearest(points)
    counter = words_tfidf(stop_words=sorted(stop_words(language)), max_features=20_000)
    weights = counter.fit_transform(texts)
    names = [str(name) for name in counter.get_feature_names_out()]
    weak = np.array([not _is_telling(name) or name in untelling_words(language) for name in names])
    usual = np.asarray(weights.mean(axis=0)).ravel()
    described = []
    for topic in range(topics):
        rows = np.flatnonzero(of_pool == topic)
        more = (np.asarray(weights[rows].mean(axis=0)).ravel() if rows.size else usual) - usual
        best = np.argsort(-np.where(weak | (more <= _MORE * usual), -1.0, more), kind="stable")[:_WORDS]
        kept = [i for i in best if more[i] > _MORE * usual[i] and not weak[i]] or best[:1]
        near = _nearest_texts(texts, points, centres[topic], of_pool == topic)
        described.append((tuple(names[i] for i in kept), near))
    return TopicMap(centres, tuple(described), of_pool)


def _nearest_texts(texts: Sequence[str], points: Floats, centre: Floats, own: Booleans) -> tuple[str, ...]:
    """Return the beginnings of the texts nearest to a centre, among those that are its `own` `(n,)`."""
    rows = np.flatnonzero(own)
    apart = np.square(points[rows] - centre).sum(axis=1)
    near = rows[np.argsort(apart, kind="stable")[:_EXAMPLES]]
    return tuple(" ".join(texts[i].split())[:_SHOWN] for i in near)


def _is_telling(word: str) -> bool:
    """Return whether a word can describe a topic: a number cannot, nor can a single ASCII letter, as the s of it's."""
    return any(map(str.isalpha, word)) and (len(word) > 1 or not word.isascii())
