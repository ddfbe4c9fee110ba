"""Texts of known authors to train on and to attack, and the attackers that learn who wrote a text.

An attacker is a function from texts to scores `(n_texts, n_authors)`. It is fixed before it sees what it attacks.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.features import LEAST_SPREAD, standardiser
from dptext.audits.texts import author_of, distinct_texts
from dptext.embeddings.distinct import EmbeddedTexts
from dptext.embeddings.tfidf import fit_quietly, load_sklearn
from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.types import Floats, Integers

#: From texts to scores `(n_texts, n_authors)`, higher where the author is likelier.
AuthorAttacker = Callable[[Sequence[str]], Floats]

NGRAMS: Final = "character n-grams"
ENCODER: Final = "sentence encoder"

_MOST_FEATURES = 100_000


@dataclass(frozen=True, slots=True)
class AuthorSplit:
    """Texts of known authors: to train attackers on, and others to attack, the same number of each author.

    `duplicates` counts the records that were removed because an earlier one has the same text.
    """

    training: tuple[Record, ...] = field(repr=False)
    attacked: tuple[Record, ...] = field(repr=False)
    duplicates: int


def split_authors(records: Iterable[Record], *, training: int, attacked: int, seed: int) -> AuthorSplit:
    """Remove duplicates, then draw `training` texts of each author to train on, and `attacked` others to attack.

    Two records are duplicates if their tokens are equal without regard to case, whoever wrote them; the first stays.
    ConfigError where a record has no author, there are fewer than two, or an author has too few texts.
    """
    _validate.count(training=training, attacked=attacked)
    distinct, count = distinct_texts(records)
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


def train_ngrams(texts: Sequence[str], codes: Integers, seed: int) -> AuthorAttacker:
    """A linear support vector machine on TF-IDF of 2 to 4 characters within words.

    Case is kept, as it is style. With it .305 of 200 blog posts of 20 authors were attributed, without it .255 (40
    words a post, 20 training posts of each author; C from 0.1 to 10 changed no more than .015). The `codes`
    `(n_texts,)` are the authors of the texts, from 0 without gaps.
    """
    sklearn = load_sklearn()
    from sklearn.svm import LinearSVC  # noqa: PLC0415 (an extra)

    if not any(map(str.split, texts)):  # no character to count: nothing is learned
        authors = int(codes.max()) + 1
        return lambda found: np.zeros((len(found), authors))
    counter = sklearn.feature_extraction.text.TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, lowercase=False, max_features=_MOST_FEATURES
    )
    model = fit_quietly(LinearSVC(C=1.0, random_state=seed), counter.fit_transform(texts), codes)
    return lambda found: _columns(model.decision_function(counter.transform(found)))


def _columns(margins: Floats) -> Floats:
    """Scores with a column for each author: of two authors scikit-learn gives the scores of the second only."""
    found = np.asarray(margins, np.float64)
    return np.stack([-found, found], axis=1) if found.ndim == 1 else found


def train_encoder(texts: Sequence[str], codes: Integers, vectors: EmbeddedTexts, seed: int) -> AuthorAttacker:
    """Log probabilities of a logistic regression on standardised vectors of these texts and of all that are attacked.

    Of the posts named at `train_ngrams` it attributed .315 with C = 0.01, and .270 with C = 1.
    """
    known = vectors.at(texts)
    scaled = standardiser(known, constant=LEAST_SPREAD)
    model = load_sklearn().linear_model.LogisticRegression(C=0.01, max_iter=300, random_state=seed)
    fit_quietly(model, scaled(known), codes)
    return lambda found: np.asarray(model.predict_log_proba(scaled(vectors.at(found))), np.float64)
