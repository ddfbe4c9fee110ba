"""Renyi divergence from learned density ratios.

A classifier that tells two sets apart estimates ln(p/q). `cross_fit` trains it on some rows and scores others, so that
each row has a value from a model that never saw the row. `LogRatios.divergence` averages powers of the ratios.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dptext import _validate
from dptext.audits.features import standardiser
from dptext.embeddings.tfidf import fit_quietly, load_sklearn
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.types import Booleans, Floats, Integers, Positions, Singles
from dptext_lab.redaction.divergence.renyi import check_alphas, check_samples

#: A function from rows `(n, d)` to ln(p/q), `(n,)`.
LogRatio = Callable[[Floats], Floats]

_HIDDEN: Final = (64, 64)
_BATCH: Final = 128
MOST_EPOCHS: Final = 80  # of a training, which stops early if
_PATIENCE, _LEAST_GAIN = 8, 1e-4  # so many epochs in a row gain less than this
#: Share of the training rows that stop the training and temper the result.
_HELD: Final = 0.2


class RatioModel(StrEnum):
    """The model that learns to tell the sets apart."""

    LOGISTIC = "logistic"
    MLP = "mlp"


def train_log_ratio(first: Floats, second: Floats, *, model: RatioModel, seed: int) -> LogRatio:
    """Train a function that estimates ln(p/q) at rows `(n, d)`, on rows of both samples.

    The estimate is the logit of a classifier, less the logit of the samples' sizes, times a temperature in [0, 1]. The
    temperature is fitted on a fifth of the rows. Without it an overconfident model would make powers of the ratio
    explode. If nothing can be learned the temperature goes to 0, and so does the divergence.
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

    def loss(t: float) -> float:
        return _log_loss(t * values + prior, signs)

    temperature = float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-4}).x)
    return lambda found: temperature * (logits(scaled(found)) - prior)


def _log_loss(logits: Floats, signs: NDArray[np.floating]) -> float:
    return float(np.logaddexp(0.0, -signs * logits).mean())


def _logistic(rows: Floats, classes: Integers, seed: int) -> LogRatio:
    model = load_sklearn().linear_model.LogisticRegression(C=1.0, max_iter=300, random_state=seed)
    fit_quietly(model, rows, classes)
    return lambda found: np.asarray(model.decision_function(found), np.float64)


def _network(rows: Floats, classes: Integers, held: Booleans, rng: np.random.Generator) -> LogRatio:
    """Train until the log loss of held rows is least (scikit-learn would use their accuracy)."""
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415 (slow to load)

    small = rows.astype(np.float32)
    learned = np.flatnonzero(~held)
    model = MLPClassifier(
        _HIDDEN,
        alpha=1e-3,
        batch_size=max(8, min(_BATCH, len(learned) // 8)),  # eight steps an epoch, even with small sets
        shuffle=False,
        random_state=int(rng.integers(2**31)),
    )
    signs = 2.0 * classes[held] - 1
    least, waited = math.inf, 0
    best: list[tuple[Singles, Singles]] = []
    for _ in range(MOST_EPOCHS):
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


#: The fewest rows of a set to learn from: a third of them must be able to show something.
LEAST_ROWS: Final = 30


def to_trim(share: float, records: int) -> int:
    """Return this share of the records as a number, rounded up: even of a small set one record is trimmed."""
    return math.ceil(share * records - 1e-9)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogRatios:
    """ln(p/q) at rows of P, `(n,)`, and of Q, `(m,)`, each from a model that did not see the row."""

    first: Floats
    second: Floats

    @property
    def is_separated(self) -> bool:
        """Return whether every row of P is above every row of Q. Then nothing here bounds the divergence from above."""
        return float(self.first.min()) > float(self.second.max())

    @property
    def reversed(self) -> "LogRatios":
        """ln(q/p), for the other direction."""
        return LogRatios(-self.second, -self.first)

    def at(self, first: Positions, second: Positions) -> "LogRatios":
        """Select some of the rows."""
        return LogRatios(self.first[first], self.second[second])

    def trimmed(self, share: float) -> "LogRatios":
        """Drop this share of the rows of P, rounded up: the rows with the largest ratios.

        Let t be the dropped share. If P without these rows is (epsilon, delta)-close to Q, P is (epsilon, delta +
        t)-close.
        """
        kept = len(self.first) - to_trim(share, len(self.first))
        return LogRatios(np.sort(self.first)[:kept], self.second)

    def largest_shares(self, alphas: Sequence[float]) -> Floats:
        """The largest share of a single row in the sum behind each divergence, `(n_alphas,)`."""
        powers = [(a - 1) * self.first for a in check_alphas(alphas)]
        return np.array([math.exp(float(each.max() - np.logaddexp.reduce(each))) for each in powers])

    def divergence(self, alphas: Sequence[float]) -> Floats:
        """D_alpha(P || Q) = ln mean_P[(p/q)^(alpha - 1)] / (alpha - 1) for each order, `(n_alphas,)`.

        At large orders the few largest values decide the mean, and the estimate is too small: rows that would dominate
        the mean are too rare to be seen. If the rows are fully separated the divergence is at least ln m, as m rows of
        Q that all lie on one side show. This is a lower value, because the true divergence may be infinite.
        """
        orders = check_alphas(alphas)
        found = [(np.logaddexp.reduce((a - 1) * self.first) - math.log(len(self.first))) / (a - 1) for a in orders]
        least = math.log(len(self.second)) if self.is_separated else -math.inf
        return np.maximum(found, least)

    def accuracy(self, confidence: float) -> Estimate:
        """Share of unseen rows whose set p > q names correctly, both sets equally likely. Ties count one half.

        The interval is the mean of two exact intervals with half of the error each.
        """
        each = 1 - bonferroni(confidence, 2)
        parts = [_share(self.first, each), _share(-self.second, each)]
        value, low, high = np.mean([(part.value, part.low, part.high) for part in parts], axis=0).tolist()
        return Estimate(value, low, high, confidence)


def _share(values: Floats, confidence: float) -> Estimate:
    right, ties = int((values > 0).sum()), int((values == 0).sum())
    return clopper_pearson(right + ties // 2, len(values), confidence=confidence)


def cross_fit(first: Floats, second: Floats, *, model: RatioModel, folds: int, seed: int) -> LogRatios:
    """Return log density ratios of all rows, `(n, d)` of P and `(m, d)` of Q, each by a model of the other folds.

    Samples that cannot be used or are too small, or fewer than 2 folds, raise ConfigError.
    """
    _validate.within(2, 100, folds=folds)
    check_samples(first, second, least=max(LEAST_ROWS, 2 * folds))
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(len(rows)) % folds for rows in (first, second)]
    found = [np.empty(len(first)), np.empty(len(second))]
    for fold in range(folds):
        held = [part == fold for part in parts]
        score = train_log_ratio(first[~held[0]], second[~held[1]], model=model, seed=int(rng.integers(2**31)))
        for values, rows, out in zip(found, (first, second), held, strict=True):
            values[out] = score(rows[out])
    return LogRatios(found[0], found[1])
