"""Renyi divergence from learned density ratios, and a lower bound that holds with a stated confidence.

A classifier that tells two sets apart estimates ln(p/q). `cross_fit` learns it on some rows and reads it on others, so
each row has a value from a model that never saw it; `LogRatios.divergence` averages powers of them. `certify` spends a
third of the rows on learning, a third on choosing an event and a third on counting it, and is right with probability
`confidence` whatever was learned::

    >>> import numpy as np
    >>> from dptext.audits.divergence.density_ratio import Model, certify, cross_fit
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.standard_normal((3000, 2)) + [1.0, 0.0], rng.standard_normal((3000, 2))
    >>> learned = cross_fit(first, second, model=Model.LOGISTIC, folds=5, seed=0)
    >>> bound = certify(first, second, (2.0,), models=(Model.LOGISTIC,), delta=1e-5, confidence=0.95, seed=0)
    >>> bool(0.8 < learned.divergence((2.0,))[0] < 1.2), bool(0 < bound.forward[0] < 1)  # true: 1
    (True, True)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import beta

from dptext import _validate
from dptext.audits.bounds import epsilon_from_rates, renyi_from_rates
from dptext.audits.divergence.renyi import check_alphas, check_samples
from dptext.audits.features import load_sklearn
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.types import Booleans, Floats, Integers, Json, Positions, Singles

Scorer = Callable[[Floats], Floats]

#: Fewest rows of a set to learn from: a third of them must be able to show something.
LEAST_ROWS: Final = 30

_HIDDEN: Final = (64, 64)
_BATCH: Final = 128
_MOST_EPOCHS, _PATIENCE, _LEAST_GAIN = 80, 8, 1e-4
#: Share of the training rows that stop the training and temper the result.
_HELD: Final = 0.2
_THRESHOLDS: Final = 200
#: Events that are counted: one chosen for each direction.
_EVENTS: Final = 2


class Model(StrEnum):
    """What learns to tell the sets apart."""

    LOGISTIC = "logistic"
    MLP = "mlp"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogRatios:
    """ln(p/q) at rows of both sets, each from a model that did not see the row.

    Attributes:
        first: at rows of P, `(n,)`.
        second: at rows of Q, `(m,)`.
    """

    first: Floats
    second: Floats

    @property
    def is_separated(self) -> bool:
        """Whether every row of P is above every row of Q: then nothing here bounds the truth from above."""
        return float(self.first.min()) > float(self.second.max())

    @property
    def reversed(self) -> LogRatios:
        """ln(q/p), for the other direction."""
        return LogRatios(-self.second, -self.first)

    def at(self, first: Positions, second: Positions) -> LogRatios:
        """Some of the rows."""
        return LogRatios(self.first[first], self.second[second])

    def divergence(self, alphas: Sequence[float]) -> Floats:
        """D_alpha(P || Q) = ln mean_P[(p/q)^(alpha - 1)] / (alpha - 1) for each order, `(n_alphas,)`.

        At large orders the mean is that of the few largest values, and too small: rows that would dominate it are too
        rare to be seen. Where the rows are fully separated at least ln m, which is what m rows of Q without one on the
        side of P show: a lower value, as the true one may be infinite.
        """
        orders = check_alphas(alphas)
        found = [(float(logsumexp((a - 1) * self.first)) - math.log(len(self.first))) / (a - 1) for a in orders]
        least = math.log(len(self.second)) if self.is_separated else -math.inf
        return np.maximum(found, least)

    def accuracy(self, confidence: float) -> Estimate:
        """How often p > q tells the sets right, both equally likely; from unseen rows. Ties count one half.

        The interval is the mean of two exact ones, half of the error each.
        """
        each = 1 - bonferroni(confidence, 2)
        parts = [_share(self.first, each), _share(-self.second, each)]
        value, low, high = (sum(getattr(part, name) for part in parts) / 2 for name in ("value", "low", "high"))
        return Estimate(value, low, high, confidence)


def _share(values: Floats, confidence: float) -> Estimate:
    right, ties = int((values > 0).sum()), int((values == 0).sum())
    return clopper_pearson(right + ties // 2, len(values), confidence=confidence)


# ------------------------------------------------------------------ learning


def cross_fit(first: Floats, second: Floats, *, model: Model, folds: int, seed: int) -> LogRatios:
    """Log density ratios of all rows, each by a model that was trained on the other folds.

    Args:
        first: rows of P, `(n, d)`.
        second: rows of Q, `(m, d)`.
        model: what learns.
        folds: at least 2; so many models are trained.
        seed: of folds and training.

    Raises:
        ConfigError: samples that cannot be used or are too small, or fewer than 2 folds.
        MissingExtraError: scikit-learn is absent.
    """
    _validate.within(2, 100, folds=folds)
    check_samples(first, second, least=max(LEAST_ROWS, 2 * folds))
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(len(rows)) % folds for rows in (first, second)]
    found = [np.empty(len(first)), np.empty(len(second))]
    for fold in range(folds):
        held = [part == fold for part in parts]
        score = train(first[~held[0]], second[~held[1]], model=model, seed=int(rng.integers(2**31)))
        for values, rows, out in zip(found, (first, second), held, strict=True):
            values[out] = score(rows[out])
    return LogRatios(found[0], found[1])


def train(first: Floats, second: Floats, *, model: Model, seed: int) -> Scorer:
    """A function that estimates ln(p/q) at rows `(n, d)`, learned from rows of both.

    Logits of a classifier, less those of the sizes of the sets, times a temperature in [0, 1] that is fitted on a fifth
    of the rows: an overconfident model would make powers of the ratio explode, and where nothing can be learned the
    temperature goes to 0, so the divergence does, too.

    Args:
        first: rows of P.
        second: rows of Q.
        model: what learns.
        seed: of split, weights and order.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    rng = np.random.default_rng(seed)
    rows = np.concatenate([first, second])
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    rows = (rows - centre) / spread
    classes = np.repeat([1, 0], [len(first), len(second)])
    held = np.zeros(len(rows), np.bool_)
    for members in (np.flatnonzero(classes == 1), np.flatnonzero(classes == 0)):
        held[rng.permutation(members)[: max(1, int(_HELD * len(members)))]] = True
    prior = math.log((classes[~held] == 1).sum() / (classes[~held] == 0).sum())
    match model:
        case Model.LOGISTIC:
            logits = _logistic(rows[~held], classes[~held], seed)
        case Model.MLP:
            logits = _network(rows, classes, held, rng)
        case _:
            assert_never(model)
    signs, values = 2.0 * classes[held] - 1, logits(rows[held]) - prior
    temperature = float(
        minimize_scalar(
            lambda t: _log_loss(t * values + prior, signs), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-4}
        ).x
    )
    return lambda found: temperature * (logits((found - centre) / spread) - prior)


def _log_loss(logits: Floats, signs: NDArray[np.floating]) -> float:
    return float(np.logaddexp(0.0, -signs * logits).mean())


def _logistic(rows: Floats, classes: Integers, seed: int) -> Scorer:
    sklearn = load_sklearn()
    model = sklearn.linear_model.LogisticRegression(C=1.0, max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)  # a rough score is a score
        model.fit(rows, classes)
    return lambda found: np.asarray(model.decision_function(found), np.float64)


def _network(rows: Floats, classes: Integers, held: Booleans, rng: np.random.Generator) -> Scorer:
    """Two hidden layers, stopped where the log loss of held rows is least: scikit-learn itself stops by accuracy."""
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


# ------------------------------------------------------------------ the bound that is certified


@dataclass(frozen=True, slots=True)
class CertifiedBound:
    """Lower bounds that all hold together with probability `confidence`, if the rows were drawn independently.

    Attributes:
        alphas: the orders.
        forward: of D_alpha(P || Q), for each order; 0 says nothing.
        backward: of D_alpha(Q || P).
        epsilon: no smaller epsilon is true at `delta` between the two distributions of vectors.
        delta: of that epsilon.
        confidence: of all of them.
        rows: of the first and of the second set, on which the events were counted.
    """

    alphas: tuple[float, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    epsilon: float
    delta: float
    confidence: float
    rows: tuple[int, int]

    @property
    def divergences(self) -> tuple[float, ...]:
        """Of the larger direction."""
        return tuple(max(pair) for pair in zip(self.forward, self.backward, strict=True))

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "alphas": list(self.alphas),
            "forward": list(self.forward),
            "backward": list(self.backward),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "rows": list(self.rows),
        }


def certify(
    first: Floats,
    second: Floats,
    alphas: Sequence[float],
    *,
    models: Sequence[Model],
    delta: float,
    confidence: float,
    seed: int,
) -> CertifiedBound:
    """Lower bounds on both divergences and on epsilon, by counting two events on rows that chose nothing.

    Each set is cut into three: to train scores, to choose from them an event for each direction (a score and a
    threshold: what bounds D_2 best there), to count. An event turns the vectors into one bit, which no divergence
    survives undiminished, and Clopper-Pearson bounds its two rates (MATHS 3.4, 7). Two events are looked at, so the
    error is halved; the bounds of all orders and of both directions follow from the same two rates of an event.

    Args:
        first: rows of P, `(n, d)`, drawn independently.
        second: rows of Q, `(m, d)`, drawn independently.
        alphas: rising orders above 1.
        models: whose scores are tried.
        delta: of the bound on epsilon.
        confidence: in (0, 1).
        seed: of the split and the training.

    Raises:
        ConfigError: samples or orders that cannot be used, or no models.
        MissingExtraError: scikit-learn is absent.
    """
    orders = check_alphas(alphas)
    check_samples(first, second, least=LEAST_ROWS)
    if not models:
        raise ConfigError("Expected models, one at least.")
    rng = np.random.default_rng(seed)
    cut = [np.array_split(rng.permutation(len(rows)), 3) for rows in (first, second)]
    learned, chosen, counted = ((first[a], second[b]) for a, b in zip(*cut, strict=True))
    scorers = [train(*learned, model=model, seed=int(rng.integers(2**31))) for model in models]
    alpha = bonferroni(confidence, 2 * _EVENTS)  # two rates each
    values = [tuple(score(rows) for rows in chosen) for score in scorers]
    events = [
        _choose([(up, down) for up, down in values], scorers, alpha=alpha, sign=1.0),
        _choose([(-down, -up) for up, down in values], scorers, alpha=alpha, sign=-1.0),
    ]
    n, m = len(counted[0]), len(counted[1])
    forward, backward, epsilon = np.zeros(len(orders)), np.zeros(len(orders)), 0.0
    for event in events:
        # Whichever set the event was chosen for: it speaks of P against Q, its complement of Q against P.
        hits = int(event(counted[0]).sum()), int(event(counted[1]).sum())
        there = [_binary(hits[0], n, hits[1], m, float(order), confidence) for order in orders]
        back = [_binary(m - hits[1], m, n - hits[0], n, float(order), confidence) for order in orders]
        forward, backward = np.maximum(forward, there), np.maximum(backward, back)
        bound = epsilon_from_rates(
            hits[0], n, false_positives=hits[1], negatives=m, delta=delta, confidence=confidence, tests=_EVENTS
        )
        epsilon = max(epsilon, bound.epsilon)
    return CertifiedBound(
        tuple(orders.tolist()),
        tuple(forward.tolist()),
        tuple(backward.tolist()),
        epsilon,
        delta,
        confidence,
        (n, m),
    )


def _binary(
    true_positives: int, positives: int, false_positives: int, negatives: int, alpha: float, confidence: float
) -> float:
    return renyi_from_rates(
        true_positives,
        positives,
        false_positives=false_positives,
        negatives=negatives,
        alpha=alpha,
        confidence=confidence,
        tests=_EVENTS,
    )


def _choose(
    values: Sequence[tuple[Floats, Floats]], scorers: Sequence[Scorer], *, alpha: float, sign: float
) -> Callable[[Floats], Booleans]:
    """The event, as one more frequent in P, with the best bound on D_2(P || Q) (sign 1) or D_2(Q || P) (sign -1)."""
    best, which, threshold = -math.inf, 0, 0.0
    for i, (high, low) in enumerate(values):
        tried = np.unique(np.quantile(np.concatenate([high, low]), np.linspace(0, 1, _THRESHOLDS), method="lower"))
        above = [len(rows) - np.searchsorted(np.sort(rows), tried, side="right") for rows in (high, low)]
        p = beta.ppf(alpha, above[0], len(high) - above[0] + 1)
        q = beta.ppf(1 - alpha, above[1] + 1, len(low) - above[1])
        p, q = np.nan_to_num(p, nan=0.0), np.nan_to_num(q, nan=1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = np.where(p > q, (p - q) ** 2 / (q * (1 - q)), 0.0)  # exp(D_2) - 1 of the two rates
        at = int(bounds.argmax())
        if bounds[at] > best:
            best, which, threshold = float(bounds[at]), i, float(tried[at])
    score = scorers[which]
    if sign > 0:
        return lambda rows: score(rows) > threshold
    return lambda rows: ~(-score(rows) > threshold)
