"""Two sets of texts to tell apart: texts to train on and to attack, and the attackers that learn to tell them apart.

An attacker is a function from texts to scores `(n_texts,)`, above 0 where it takes a text for one of the first set,
fixed before it sees what it attacks. Whatever makes one from labelled texts is a `TrainAttacker`; a caller may add its
own, such as a fine-tuned transformer, to those of `standard_attackers`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from dptext import _validate
from dptext.audits.features import load_sklearn
from dptext.audits.inference.authors import embed_distinct
from dptext.embeddings.embedder import Embedder
from dptext.errors import ConfigError
from dptext.privacy.names import normal_form
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from dptext.types import Booleans, Floats

#: Of the first set and of the second.
Sides = tuple[tuple[Record, ...], tuple[Record, ...]]
#: From texts to scores `(n_texts,)`: above 0 for the first set, the threshold that is fixed beforehand.
Attacker = Callable[[Sequence[str]], Floats]

TFIDF: Final = "TF-IDF, linear"
LINEAR: Final = "sentence encoder, linear"
MLP: Final = "sentence encoder, MLP"

_WORDS: Final = r"(?u)\b\w+\b"
#: A coordinate that varies less than this is constant but for rounding.
_LEAST_SPREAD: Final = 1e-12
_HIDDEN: Final = 64
_DECAY: Final = 1.0
_EPOCHS: Final = 20
_BATCH: Final = 64
#: A probability below this is not told from it: scores stay finite.
_SMALLEST: Final = 1e-12


class TrainAttacker(Protocol):
    """Makes an attacker from texts of both sets."""

    def __call__(self, texts: Sequence[str], is_first: Booleans, vectors: TextVectors, seed: int, /) -> Attacker:
        """An attacker that learned from these texts, `is_first` `(n_texts,)` saying which are of the first set."""


# ------------------------------------------------------------------ the split


@dataclass(frozen=True, slots=True)
class SetSplit:
    """Texts of two sets, as many of each: to train attackers on, and to attack.

    Attributes:
        training: of the first set and of the second, the same number.
        attacked: others, of the first set and of the second, the same number.
        duplicates: texts removed because an earlier one of the same set is the same.
        shared: texts that both sets had; each stayed in one of them, by the flip of a coin.
    """

    training: Sides = field(repr=False)
    attacked: Sides = field(repr=False)
    duplicates: int = 0
    shared: int = 0


def split_sets(
    first: Iterable[Record], second: Iterable[Record], *, training: int, attacked: int, seed: int
) -> SetSplit:
    """Remove duplicates, then draw of each set texts to train on and texts to attack.

    Two records are duplicates if their tokens are equal without regard to case. A text that both sets have says
    nothing of where it comes from; it stays in one, chosen by a coin, so that two equal sets remain at chance. Records
    of one `author` (or document: whatever texts may share; compared in normal form) are all trained on or all attacked,
    in either set, since an attacker that knows the neighbours of a sentence knows more of it than the set.

    Args:
        first: of one set.
        second: of the other.
        training: texts of each set to train on.
        attacked: texts of each set to attack.
        seed: of the draws.

    Raises:
        ConfigError: a set has too few texts.
    """
    _validate.count(training=training, attacked=attacked)
    rng = np.random.default_rng(seed)
    seen: list[dict[Hashable, Record]] = [{}, {}]
    count = 0
    for own, records in zip(seen, (first, second), strict=True):
        for record in records:
            own.setdefault(_key(record), record)
            count += 1
    duplicates = count - len(seen[0]) - len(seen[1])
    shared = [key for key in seen[0] if key in seen[1]]
    for key, side in zip(shared, rng.integers(0, 2, len(shared)).tolist(), strict=True):
        del seen[side][key]
    groups: dict[Hashable, list[tuple[int, Record]]] = {}
    for side, own in enumerate(seen):
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
    chosen, apart = ([_drawn(own, n, rng) for own in both] for both, n in ((learned, training), (tried, attacked)))
    return SetSplit((chosen[0], chosen[1]), (apart[0], apart[1]), duplicates, len(shared))


def _drawn(records: Sequence[Record], n: int, rng: np.random.Generator) -> tuple[Record, ...]:
    return tuple(records[i] for i in rng.permutation(len(records))[:n].tolist())


def _key(record: Record) -> Hashable:
    return tuple(token.casefold() for line in tokenize(record.text) for token in line)


# ------------------------------------------------------------------ vectors


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextVectors:
    """Vectors of norm 1, or 0 where the embedder gave zero; each distinct text is embedded once, when first asked for.

    Holds the texts: it lives as long as an audit.

    Attributes:
        embedder: public.
    """

    embedder: Embedder
    _rows: dict[str, Floats] = field(default_factory=dict)

    def at(self, texts: Sequence[str]) -> Floats:
        """Vectors `(n_texts, dim)`.

        Raises:
            ConfigError: the embedder gave no finite vectors, or not one a text.
        """
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if missing:
            self._rows.update(zip(missing, embed_distinct(missing, self.embedder).vectors, strict=True))
        return np.stack([self._rows[text] for text in texts]) if texts else np.zeros((0, self.embedder.dim))


# ------------------------------------------------------------------ attackers


def standard_attackers() -> dict[str, TrainAttacker]:
    """The attackers that need no torch of their own, by name."""
    return {TFIDF: train_tfidf, LINEAR: train_linear, MLP: train_mlp}


def train_tfidf(
    texts: Sequence[str],
    is_first: Booleans,
    vectors: TextVectors,  # noqa: ARG001 (of the protocol)
    seed: int,
    /,
) -> Attacker:
    """Logistic regression on the TF-IDF of words, without regard to case.

    Pairs of words made it worse on cancer sentences with 3,000 texts a set at every level of redaction, C = 0.3 too.

    Args:
        texts: to learn from.
        is_first: which are of the first set, `(n_texts,)`.
        vectors: not looked at.
        seed: handed to scikit-learn.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    sklearn = load_sklearn()
    if not any(re.search(_WORDS, text) for text in texts):  # no word to count: nothing is learned
        return lambda found: np.zeros(len(found))
    counter = sklearn.feature_extraction.text.TfidfVectorizer(sublinear_tf=True, token_pattern=_WORDS)
    model = sklearn.linear_model.LogisticRegression(C=1.0, max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)  # a rough score is a score
        model.fit(counter.fit_transform(texts), is_first)
    return lambda found: np.asarray(model.decision_function(counter.transform(found)), np.float64)


def train_linear(texts: Sequence[str], is_first: Booleans, vectors: TextVectors, seed: int, /) -> Attacker:
    """Logistic regression on standardised sentence vectors.

    Args:
        texts: to learn from.
        is_first: which are of the first set, `(n_texts,)`.
        vectors: of the sentences.
        seed: handed to scikit-learn.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    sklearn = load_sklearn()
    features = _standardised(vectors, texts)
    model = sklearn.linear_model.LogisticRegression(C=0.01, max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        model.fit(features(texts), is_first)
    return lambda found: np.asarray(model.decision_function(features(found)), np.float64)


def train_mlp(texts: Sequence[str], is_first: Booleans, vectors: TextVectors, seed: int, /) -> Attacker:
    """A network with one hidden layer on standardised sentence vectors; scores are log odds.

    With alpha = 1 its accuracy on cancer sentences (3,000 texts a set) was .839 on originals and .679 where 70% of the
    words were masked; with 10 it was .834 and .665. `train_linear` had .842 and .674.

    Args:
        texts: to learn from.
        is_first: which are of the first set, `(n_texts,)`.
        vectors: of the sentences.
        seed: of its weights and of the order.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    sklearn = load_sklearn()
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415 (an extra)

    features = _standardised(vectors, texts)
    model = MLPClassifier(
        (_HIDDEN,), alpha=_DECAY, batch_size=min(_BATCH, len(texts)), max_iter=_EPOCHS, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        model.fit(features(texts), is_first)

    def scores(found: Sequence[str]) -> Floats:
        second, first = np.maximum(model.predict_proba(features(found)), _SMALLEST).T
        return np.asarray(np.log(first) - np.log(second), np.float64)

    return scores


def _standardised(vectors: TextVectors, texts: Sequence[str]) -> Callable[[Sequence[str]], Floats]:
    """Vectors by the mean and the spread of those of the training texts."""
    known = vectors.at(texts)
    centre, spread = known.mean(axis=0), known.std(axis=0)
    spread[spread < _LEAST_SPREAD] = 1.0
    return lambda found: np.asarray((vectors.at(found) - centre) / spread, np.float64)
