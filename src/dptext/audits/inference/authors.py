"""Texts of known authors to train on and to attack, and the attackers that learn who wrote a text.

An attacker is a function from texts to scores `(n_texts, n_authors)`, fixed before it sees what it attacks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.features import load_sklearn
from dptext.embeddings.embedder import Embedder
from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from dptext.types import Floats, Integers

#: From texts to scores `(n_texts, n_authors)`, higher where the author is likelier.
Attacker = Callable[[Sequence[str]], Floats]

NGRAMS: Final = "character n-grams"
ENCODER: Final = "sentence encoder"

_MOST_FEATURES = 100_000
#: A coordinate that varies less than this is constant but for rounding.
_LEAST_SPREAD = 1e-12


@dataclass(frozen=True, slots=True)
class AuthorSplit:
    """Texts of known authors, as many of each: to train attackers on, and to attack.

    Attributes:
        training: the same number of texts of each author.
        attacked: others, the same number of each author.
        duplicates: records removed because an earlier one has the same text.
    """

    training: tuple[Record, ...] = field(repr=False)
    attacked: tuple[Record, ...] = field(repr=False)
    duplicates: int


def split_authors(records: Iterable[Record], *, training: int, attacked: int, seed: int) -> AuthorSplit:
    """Remove duplicates, then draw for each author texts to train on and texts to attack.

    Two records are duplicates if their tokens are equal without regard to case, whoever wrote them.

    Args:
        records: with authors, at least two different ones.
        training: texts of each author to train on.
        attacked: texts of each author to attack.
        seed: of the draws.

    Raises:
        ConfigError: a record has no author, there are fewer than two, or an author has too few texts.
    """
    _validate.count(training=training, attacked=attacked)
    distinct: dict[tuple[str, ...], Record] = {}
    count = 0
    for record in records:
        distinct.setdefault(tuple(token.casefold() for line in tokenize(record.text) for token in line), record)
        count += 1
    own: dict[str, list[Record]] = {}
    for record in distinct.values():
        own.setdefault(author_of(record), []).append(record)
    if len(own) < 2:
        raise ConfigError(f"Expected records of at least 2 authors, found {len(own)}.")
    needed = training + attacked
    few = sum(len(found) < needed for found in own.values())
    if few:
        raise ConfigError(
            f"Expected training={training} + attacked={attacked} distinct texts of every author, found fewer for {few} "
            f"of {len(own)} authors, {min(map(len, own.values()))} at the least: ask for fewer texts, or leave these "
            "authors out."
        )
    rng = np.random.default_rng(seed)
    learned: list[Record] = []
    tried: list[Record] = []
    for author in sorted(own):
        order = rng.permutation(len(own[author])).tolist()
        learned += [own[author][i] for i in order[:training]]
        tried += [own[author][i] for i in order[training:needed]]
    return AuthorSplit(tuple(learned), tuple(tried), count - len(distinct))


def author_of(record: Record) -> str:
    """The author.

    Raises:
        ConfigError: the record names none.
    """
    if record.author is None:
        raise ConfigError("Expected an author of every record, found one without: name the field of the author.")
    return record.author


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Space:
    """Vectors of norm 1, or 0 where the embedder gave zero, one for each distinct text."""

    rows: dict[str, int]
    vectors: Floats

    def at(self, texts: Sequence[str]) -> Floats:
        """Vectors `(n_texts, dim)`."""
        return np.asarray(self.vectors[[self.rows[text] for text in texts]], np.float64)


def embed_distinct(texts: Iterable[str], embedder: Embedder) -> Space:
    """Each distinct text as a vector of norm 1.

    Raises:
        ConfigError: the embedder gave no finite vectors, or not one a text.
    """
    rows = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    vectors = np.asarray(embedder.embed(list(rows)), np.float64)
    if vectors.ndim != 2 or len(vectors) != len(rows) or not np.isfinite(vectors).all():
        raise ConfigError(f"Expected embedder={embedder.name!r} to give one finite vector for each text.")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return Space(rows, vectors / np.where(norms > 0, norms, 1.0))


def train_ngrams(texts: Sequence[str], codes: Integers, seed: int) -> Attacker:
    """A linear support vector machine on TF-IDF of 2 to 4 characters within words.

    Case is style: without it .255 of 200 blog posts of 20 authors were attributed, with it .305 (40 words a post, 20
    training posts each; C from 0.1 to 10 changed no more than .015).

    Args:
        texts: to learn from.
        codes: the author of each, `(n_texts,)`, from 0 without gaps.
        seed: handed to scikit-learn.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    sklearn = load_sklearn()
    from sklearn.svm import LinearSVC  # noqa: PLC0415 (an extra)

    if not any(map(str.split, texts)):  # no character to count: nothing is learned
        authors = int(codes.max()) + 1
        return lambda found: np.zeros((len(found), authors))
    counter = sklearn.feature_extraction.text.TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, lowercase=False, max_features=_MOST_FEATURES
    )
    model = LinearSVC(C=1.0, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)  # a rough score is a score
        model.fit(counter.fit_transform(texts), codes)
    return lambda found: _columns(model.decision_function(counter.transform(found)))


def _columns(margins: Floats) -> Floats:
    """One column an author, also where there are two and scikit-learn gives the second's only."""
    found = np.asarray(margins, np.float64)
    return np.stack([-found, found], axis=1) if found.ndim == 1 else found


def train_encoder(texts: Sequence[str], codes: Integers, space: Space, seed: int) -> Attacker:
    """Log probabilities of a logistic regression on standardised sentence vectors.

    On the posts named at `train_ngrams` C = 0.01 attributed .315, 1 .270.

    Args:
        texts: to learn from, in the space as all that is attacked.
        codes: the author of each, `(n_texts,)`, from 0 without gaps.
        space: the vectors.
        seed: handed to scikit-learn.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    sklearn = load_sklearn()
    vectors = space.at(texts)
    centre, spread = vectors.mean(axis=0), vectors.std(axis=0)
    spread[spread < _LEAST_SPREAD] = 1.0
    model = sklearn.linear_model.LogisticRegression(C=0.01, max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        model.fit((vectors - centre) / spread, codes)
    return lambda found: np.asarray(model.predict_log_proba((space.at(found) - centre) / spread), np.float64)
