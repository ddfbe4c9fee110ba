"""Two sets of texts to tell apart: texts to train on and to attack, and attackers, functions from texts to scores."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.features import LEAST_SPREAD, distinct_texts, standardiser
from dptext.embeddings.embedder import TextVectors
from dptext.embeddings.tfidf import fit_quietly, has_word, load_sklearn, words_tfidf
from dptext.errors import ConfigError
from dptext.privacy.names import normal_form
from dptext.text.records import Record
from dptext.types import Booleans, Floats

#: Of the first set and of the second.
Sides = tuple[tuple[Record, ...], tuple[Record, ...]]


@dataclass(frozen=True, slots=True)
class SetSplit:
    """Texts of two sets: to train attackers on, and others to attack, as many of the first set as of the second.

    `duplicates` counts texts that were removed because an earlier one of the same set is the same, `shared` those that
    both sets had; each stayed in one of them, by the flip of a coin.
    """

    training: Sides = field(repr=False)
    attacked: Sides = field(repr=False)
    duplicates: int = 0
    shared: int = 0


def split_sets(
    first: Iterable[Record], second: Iterable[Record], *, training: int, attacked: int, seed: int
) -> SetSplit:
    """Remove duplicates, then draw `training` texts of each set to train on, and `attacked` others to attack.

    Two records are duplicates if their tokens are equal without regard to case. A text that both sets have says nothing
    of where it comes from. A coin decides in which it stays, so that two equal sets remain at chance.

    Records of one `author`, in either set, are all trained on or all attacked: an attacker that knows the neighbours of
    a sentence knows more of it than its set. An author may be a document, or whatever else texts share; names are
    compared in normal form. ConfigError where a set has too few texts.
    """
    _validate.count(training=training, attacked=attacked)
    rng = np.random.default_rng(seed)
    (ones, n_ones), (others, n_others) = distinct_texts(first), distinct_texts(second)
    sides = (ones, others)
    duplicates = n_ones + n_others - len(ones) - len(others)
    shared = [key for key in ones if key in others]
    for key, side in zip(shared, rng.integers(0, 2, len(shared)).tolist(), strict=True):
        del sides[side][key]
    groups: dict[Hashable, list[tuple[int, Record]]] = {}
    for side, own in enumerate(sides):
        for key, record in own.items():
            group: Hashable = (side, key) if record.author is None else normal_form(record.author)
            groups.setdefault(group, []).append((side, record))
    learned: tuple[list[Record], list[Record]] = ([], [])
    tried: tuple[list[Record], list[Record]] = ([], [])
    together = list(groups.values())
    for i in rng.permutation(len(together)).tolist():
        lacking = any(len(tried[side]) < attacked for side, _ in together[i])
        for side, record in together[i]:
            (tried if lacking else learned)[side].append(record)
    if min(map(len, learned)) < training or min(map(len, tried)) < attacked:
        few = min(len(own) + len(other) for own, other in zip(learned, tried, strict=True))
        raise ConfigError(
            f"Expected training={training} + attacked={attacked} distinct texts of each set, none of whose authors (or "
            f"documents) is on both sides, found {min(map(len, learned))} to train on and {min(map(len, tried))} to "
            f"attack, of {few} in the smaller set: ask for fewer."
        )
    chosen, apart = (
        [tuple(own[i] for i in rng.permutation(len(own))[:n].tolist()) for own in both]
        for both, n in ((learned, training), (tried, attacked))
    )
    return SetSplit((chosen[0], chosen[1]), (apart[0], apart[1]), duplicates, len(shared))


#: From texts to scores `(n_texts,)`, above 0 for the first set. This threshold is fixed beforehand.
Attacker = Callable[[Sequence[str]], Floats]

TFIDF: Final = "TF-IDF, linear"
LINEAR: Final = "sentence encoder, linear"
MLP: Final = "sentence encoder, MLP"

#: Probabilities count as this at least, so that scores stay finite.
_SMALLEST: Final = 1e-12


#: Makes an attacker of texts of both sets, booleans `(n_texts,)` that say which are of the first, vectors of all texts
#: that the audit knows, and a seed. MissingExtraError where scikit-learn is absent.
TrainAttacker = Callable[[Sequence[str], Booleans, TextVectors, int], Attacker]


def standard_attackers() -> dict[str, TrainAttacker]:
    """The attackers that come with dptext, by name. None needs torch of its own."""
    return {TFIDF: train_tfidf_attacker, LINEAR: train_linear_attacker, MLP: train_mlp_attacker}


def train_tfidf_attacker(texts: Sequence[str], is_first: Booleans, _: TextVectors, seed: int, /) -> Attacker:
    """Logistic regression on the TF-IDF of words, without regard to case.

    Pairs of words, or C = 0.3, made it worse on cancer sentences with 3,000 texts a set, at every level of redaction.
    """
    sklearn = load_sklearn()
    if not has_word(texts):  # nothing is learned
        return lambda found: np.zeros(len(found))
    counter = words_tfidf()
    model = sklearn.linear_model.LogisticRegression(C=1.0, max_iter=300, random_state=seed)
    fit_quietly(model, counter.fit_transform(texts), is_first)
    return lambda found: np.asarray(model.decision_function(counter.transform(found)), np.float64)


def train_linear_attacker(texts: Sequence[str], is_first: Booleans, vectors: TextVectors, seed: int, /) -> Attacker:
    """Logistic regression on standardised sentence vectors."""
    features = _standardised(vectors, texts)
    model = load_sklearn().linear_model.LogisticRegression(C=0.01, max_iter=300, random_state=seed)
    fit_quietly(model, features(texts), is_first)
    return lambda found: np.asarray(model.decision_function(features(found)), np.float64)


def train_mlp_attacker(texts: Sequence[str], is_first: Booleans, vectors: TextVectors, seed: int, /) -> Attacker:
    """A network with one hidden layer on standardised sentence vectors; scores are log odds.

    On cancer sentences (3,000 texts a set) its accuracy was .839 on originals and .679 where 70% of the words were
    masked. With a weight decay of 10 it was .834 and .665. `train_linear_attacker` had .842 and .674.
    """
    load_sklearn()
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415 (an extra)

    features = _standardised(vectors, texts)
    model = MLPClassifier((64,), alpha=1.0, batch_size=min(64, len(texts)), max_iter=20, random_state=seed)
    fit_quietly(model, features(texts), is_first)
    return lambda found: np.diff(np.log(np.maximum(model.predict_proba(features(found)), _SMALLEST)))[:, 0]


def _standardised(vectors: TextVectors, texts: Sequence[str]) -> Callable[[Sequence[str]], Floats]:
    scaled = standardiser(vectors.at(texts), constant=LEAST_SPREAD)
    return lambda found: scaled(vectors.at(found))
