"""What an attacker looks at in outputs: scores that are higher for the first of two inputs.

Each `learn_*` takes outputs of both inputs and gives a function from outputs to scores `(n,)`.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

import numpy as np

from dptext.audits.subjects import Outputs
from dptext.errors import MissingExtraError
from dptext.types import Floats

Score = Callable[[Outputs], Floats]

_MOST_FEATURES = 4096
_POSITIONS = 50
#: A coordinate beyond this many standard deviations is not told from one at it: squares stay finite.
_WIDEST = 30.0


def load_sklearn() -> ModuleType:
    """scikit-learn, loaded when first needed."""
    try:
        import sklearn.feature_extraction.text  # noqa: PLC0415
        import sklearn.linear_model  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Audits need scikit-learn. Install it: pip install 'dptext[audit]'") from error
    module: ModuleType = sklearn
    return module


def learned_scores(first: Outputs, second: Outputs) -> dict[str, Score]:
    """Scores learned from outputs of the two inputs, by name."""
    scores = {"exact outputs": learn_exact(first, second)}
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return {**scores, "coordinates": learn_coordinates(first, second)}
    return {**scores, "n-grams": learn_ngrams([str(text) for text in first], [str(text) for text in second])}


def _keys(outputs: Outputs) -> list[str] | list[bytes]:
    return [row.tobytes() for row in outputs] if isinstance(outputs, np.ndarray) else outputs


def learn_exact(first: Outputs, second: Outputs) -> Score:
    """Log ratio of how often this very output was seen; decides alone where there are few outputs.

    It also sees outputs that repeat although they should not, as those of a fixed seed do.
    """
    counts, others = Counter[str | bytes](_keys(first)), Counter[str | bytes](_keys(second))
    table = {key: math.log((counts[key] + 0.5) / (others[key] + 0.5)) for key in counts.keys() | others.keys()}
    return lambda outputs: np.array([table.get(key, 0.0) for key in _keys(outputs)])


def learn_coordinates(first: Floats, second: Floats) -> Score:
    """Logistic regression on standardised coordinates and their squares (noise may differ in size, too)."""
    stacked = np.concatenate([first, second])
    centre, spread = stacked.mean(axis=0), stacked.std(axis=0)
    spread[spread == 0] = 1.0

    def features(outputs: Outputs) -> Floats:
        scaled = np.clip((np.asarray(outputs, np.float64) - centre) / spread, -_WIDEST, _WIDEST)
        return np.hstack([scaled, np.square(scaled)])

    model = _fitted(features(stacked), len(first))
    return lambda outputs: np.asarray(model(features(outputs)))


def learn_ngrams(first: list[str], second: list[str]) -> Score:
    """Logistic regression on frequent words, pairs of words, words at their place, and the shape of the text."""
    counter = load_sklearn().feature_extraction.text.CountVectorizer(
        analyzer=_features_of_text, max_features=_MOST_FEATURES, binary=True
    )
    model = _fitted(counter.fit_transform([*first, *second]), len(first))
    return lambda outputs: np.asarray(model(counter.transform(outputs)))


def _features_of_text(text: str) -> list[str]:
    words = text.split()
    return [
        *(f"w {word}" for word in words),
        *(f"b {a} {b}" for a, b in pairwise(words)),
        *(f"{i} {word}" for i, word in enumerate(words[:_POSITIONS])),
        f"words {len(words)}",
        f"different words {len(set(words))}",
        f"lines {text.count(chr(10))}",
        f"characters {len(text).bit_length()}",
    ]


def _fitted(features: object, n_first: int) -> Callable[[object], Floats]:
    sklearn = load_sklearn()
    rows = features.shape[0]  # type: ignore[attr-defined]  # an array or a sparse matrix
    labels = np.arange(rows) < n_first
    model = sklearn.linear_model.LogisticRegression(C=1.0, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)  # a rough score is a score
        model.fit(features, labels)
    decide: Callable[[object], Floats] = model.decision_function
    return decide
