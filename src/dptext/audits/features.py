"""Scores that attackers learn from outputs: higher for the first of two inputs.

Each `learn_*` takes outputs of both inputs and returns a function from outputs to scores `(n,)`. The functions at the
end serve several attacks: which texts are equal, who wrote them, and whether releases belong to them.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from dptext.audits.subjects import Outputs
from dptext.embeddings.tfidf import fit_quietly, load_sklearn
from dptext.errors import ConfigError
from dptext.text.records import Record, Release
from dptext.text.tokens import composed, tokenize
from dptext.types import Floats

#: A function from outputs to scores `(n,)`.
Score = Callable[[Outputs], Floats]

_MOST_FEATURES = 4096
_POSITIONS = 50
#: Standardised coordinates are cut at this size, so that squares stay finite.
_WIDEST = 30.0
#: A coordinate of sentence vectors with a standard deviation of at most this is constant up to rounding.
LEAST_SPREAD = 1e-12


def standardiser(rows: Floats, *, constant: float = 0.0) -> Callable[[Floats], Floats]:
    """Return a scaling by mean and standard deviation of rows `(n, dim)`; deviations up to `constant` do not scale."""
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread <= constant] = 1.0
    return lambda found: np.asarray((found - centre) / spread, np.float64)


def spread_thresholds(scores: Floats, most: int = 150) -> Floats:
    """Return distinct scores as thresholds, rising: all, or `most` evenly spaced by rank, dense at both ends."""
    values = np.unique(scores)
    if len(values) > most:
        ends = np.geomspace(1, len(values) / 2, most // 2).astype(np.int64)
        values = values[np.unique(np.concatenate([ends - 1, len(values) - ends]))]
    return values


def learned_scores(first: Outputs, second: Outputs) -> dict[str, Score]:
    """Learn scores from outputs of the two inputs, by name."""
    scores = {"exact outputs": learn_exact(first, second)}
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return {**scores, "coordinates": learn_coordinates(first, second)}
    return {**scores, "n-grams": learn_ngrams([str(text) for text in first], [str(text) for text in second])}


def _keys(outputs: Outputs) -> list[str] | list[bytes]:
    return [row.tobytes() for row in outputs] if isinstance(outputs, np.ndarray) else outputs


def learn_exact(first: Outputs, second: Outputs) -> Score:
    """Learn the log ratio of the counts of each output. Repeated outputs, as with a fixed seed, show here."""
    counts, others = Counter[str | bytes](_keys(first)), Counter[str | bytes](_keys(second))
    table = {key: math.log((counts[key] + 0.5) / (others[key] + 0.5)) for key in counts.keys() | others.keys()}
    return lambda outputs: np.array([table.get(key, 0.0) for key in _keys(outputs)])


def learn_coordinates(first: Floats, second: Floats) -> Score:
    """Learn logistic regression on standardised coordinates and their squares: noise may differ in size, too."""
    stacked = np.concatenate([first, second])
    scaled = standardiser(stacked)

    def features(outputs: Outputs) -> Floats:
        near = np.clip(scaled(np.asarray(outputs, np.float64)), -_WIDEST, _WIDEST)
        return np.hstack([near, np.square(near)])

    decide = _decision(features(stacked), len(first))
    return lambda outputs: np.asarray(decide(features(outputs)))


def learn_ngrams(first: list[str], second: list[str]) -> Score:
    """Learn logistic regression on frequent words, pairs of words, words at their place, and the shape of the text."""
    counter = load_sklearn().feature_extraction.text.CountVectorizer(
        analyzer=_features_of_text, max_features=_MOST_FEATURES, binary=True
    )
    decide = _decision(counter.fit_transform([*first, *second]), len(first))

    def score(outputs: Outputs) -> Floats:
        places = {text: i for i, text in enumerate(dict.fromkeys(outputs))}  # repeated texts are read once
        return np.asarray(decide(counter.transform(list(places))))[[places[text] for text in outputs]]

    return score


def _features_of_text(text: str) -> list[str]:
    words = text.split()
    found = [f"w {word}" for word in words] + [f"b {a} {b}" for a, b in pairwise(words)]
    found += [f"{i} {word}" for i, word in enumerate(words[:_POSITIONS])]
    found += [f"words {len(words)}", f"different words {len(set(words))}"]
    return [*found, f"lines {text.count(chr(10))}", f"characters {len(text).bit_length()}"]


def _decision(features: object, n_first: int) -> Callable[[object], Floats]:
    rows = features.shape[0]  # type: ignore[attr-defined]  # an array or a sparse matrix
    model = load_sklearn().linear_model.LogisticRegression(C=1.0, max_iter=200)
    decide: Callable[[object], Floats] = fit_quietly(model, features, np.arange(rows) < n_first).decision_function
    return decide


def text_key(record: Record) -> Hashable:
    """Key that is equal for records with the same text: their tokens in NFC, without regard to case."""
    return tuple(token.casefold() for line in tokenize(composed(record.text)) for token in line)


def distinct_texts(records: Iterable[Record]) -> tuple[dict[Hashable, Record], int]:
    """Return the first record of each text by its `text_key`, and the number of all records."""
    distinct: dict[Hashable, Record] = {}
    count = 0
    for record in records:
        distinct.setdefault(text_key(record), record)
        count += 1
    return distinct, count


def shared_texts(first: Sequence[Record], second: Sequence[Record]) -> int:
    """Count the records of the second set with a text that the first set has, too."""
    known = {text_key(record) for record in first}
    return sum(text_key(record) in known for record in second)


def author_of(record: Record) -> str:
    """Return the author; ConfigError where the record names none."""
    if record.author is None:
        raise ConfigError("Expected an author of every record, found one without: name the field of the author.")
    return record.author


def check_releases(name: str, records: Sequence[Record], releases: Sequence[Release[str]]) -> None:
    """Raise ConfigError unless there is one release for each record, in the same order."""
    if [record.id for record in records] != [release.id for release in releases]:
        raise ConfigError(
            f"Expected {name} to be one release for each of {len(records)} originals, in the same order and with the "
            f"same ids, found {len(releases)}."
        )
