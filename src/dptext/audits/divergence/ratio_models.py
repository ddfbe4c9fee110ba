"""Classifiers that learn the log density ratio of two samples of vectors. They need scikit-learn."""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dptext.audits.features import standardiser
from dptext.embeddings.tfidf import fit_quietly, load_sklearn
from dptext.types import Booleans, Floats, Integers, Singles

#: From rows `(n, d)` to ln(p/q), `(n,)`.
LogRatio = Callable[[Floats], Floats]

_HIDDEN: Final = (64, 64)
_BATCH: Final = 128
_MOST_EPOCHS, _PATIENCE, _LEAST_GAIN = 80, 8, 1e-4
#: Share of the training rows that stop the training and temper the result.
_HELD: Final = 0.2


class RatioModel(StrEnum):
    """What learns to tell the sets apart."""

    LOGISTIC = "logistic"
    MLP = "mlp"


def train_log_ratio(first: Floats, second: Floats, *, model: RatioModel, seed: int) -> LogRatio:
    """A function that estimates ln(p/q) at rows `(n, d)`, learned from rows of both samples.

    It gives the logits of a classifier, less those of the sizes of the samples, times a temperature in [0, 1]. The
    temperature is fitted on a fifth of the rows. Without it an overconfident model would make powers of the ratio
    explode. Where nothing can be learned the temperature goes to 0, and so does the divergence.
    """
    rng = np.random.default_rng(seed)
    rows = np.concatenate([first, second])
    scaled = standardiser(rows)
    rows = scaled(rows)
    classes = np.repeat([1, 0], [len(first), len(second)])
    held = np.zeros(len(rows), np.bool_)
    for members in (np.flatnonzero(classes == 1), np.flatnonzero(classes == 0)):
        held[rng.permutation(members)[: max(1, int(_HELD * len(members)))]] = True
    prior = math.log((classes[~held] == 1).sum() / (classes[~held] == 0).sum())
    match model:
        case RatioModel.LOGISTIC:
            logits = _logistic(rows[~held], classes[~held], seed)
        case RatioModel.MLP:
            logits = _network(rows, classes, held, rng)
        case _:
            assert_never(model)
    signs, values = 2.0 * classes[held] - 1, logits(rows[held]) - prior
    temperature = float(
        minimize_scalar(
            lambda t: _log_loss(t * values + prior, signs), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-4}
        ).x
    )
    return lambda found: temperature * (logits(scaled(found)) - prior)


def _log_loss(logits: Floats, signs: NDArray[np.floating]) -> float:
    return float(np.logaddexp(0.0, -signs * logits).mean())


def _logistic(rows: Floats, classes: Integers, seed: int) -> LogRatio:
    model = load_sklearn().linear_model.LogisticRegression(C=1.0, max_iter=300, random_state=seed)
    fit_quietly(model, rows, classes)
    return lambda found: np.asarray(model.decision_function(found), np.float64)


def _network(rows: Floats, classes: Integers, held: Booleans, rng: np.random.Generator) -> LogRatio:
    """A network of two hidden layers, stopped where the log loss of held rows is least (scikit-learn: the accuracy)."""
    load_sklearn()
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415 (an extra)

    small = rows.astype(np.float32)
    learned = np.flatnonzero(~held)
    model = MLPClassifier(
        _HIDDEN,
        alpha=1e-3,
        batch_size=max(8, min(_BATCH, len(learned) // 8)),  # eight steps an epoch even of small sets
        shuffle=False,
        random_state=int(rng.integers(2**31)),
    )
    signs = 2.0 * classes[held] - 1
    least, waited = math.inf, 0
    best: list[tuple[Singles, Singles]] = []
    for _ in range(_MOST_EPOCHS):
        order = rng.permutation(learned)
        model.partial_fit(small[order], classes[order], classes=[0, 1])
        weights = [(w.copy(), b.copy()) for w, b in zip(model.coefs_, model.intercepts_, strict=True)]
        loss = _log_loss(_forward(weights, small[held]), signs)
        if loss < least - _LEAST_GAIN:
            least, best, waited = loss, weights, 0
        else:
            waited += 1
        if waited >= _PATIENCE:
            break
    return lambda found: _forward(best, found.astype(np.float32))


def _forward(weights: Sequence[tuple[Singles, Singles]], rows: Singles) -> Floats:
    for matrix, shift in weights[:-1]:
        rows = np.maximum(rows @ matrix + shift, 0)
    matrix, shift = weights[-1]
    return np.asarray((rows @ matrix + shift)[:, 0], np.float64)
