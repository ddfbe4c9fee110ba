"""The class balance of private records, recovered from the labels of private outputs.

`shifted_split` makes the task. If private records look like public records, a mechanism that regenerates public
knowledge seems to be perfect. In this task the private part has another class balance, and one class has few public
texts. The task must show that public data alone fail.

    >>> import numpy as np
    >>> counts = np.array([600, 250, 150])  # labels after 3-ary randomized response at epsilon 1
    >>> debiased_balance(counts, epsilon=1.0).round(3).tolist()
    [0.981, 0.019, 0.0]
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.bootstrap import bootstrap
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from dptext.types import Floats, Integers

_ROUNDING = 1e-6


def shifted_split(
    records: Sequence[Record],
    *,
    shares: Mapping[str, float],
    scarce: str,
    scarce_public: int,
    private_size: int | None = None,
    seed: int = 0,
) -> tuple[list[Record], list[Record]]:
    """Split records into a public and a private part, disjoint, both in random order. Other records are left out.

    The private part has the balance `shares`, the private share of each label. The shares sum to 1 and are rounded to
    whole records by largest remainders. The public part has all remaining records, but no more than `scarce_public`
    texts, at least 1, of the label `scarce`. Records whose label is not a key of `shares` are left out. There are
    `private_size` private records: by default as many as possible, but no more than half of the records. One public
    text of every other label must remain. `seed` seeds the drawing.

    The public part is returned first. ConfigError: shares that are no balance, a scarce label that is not among them,
    or too few records of a label.
    """
    _validate.count(scarce_public=scarce_public)
    _validate.probability(**{f"shares[{label!r}]": share for label, share in shares.items()})
    if not math.isclose(math.fsum(shares.values()), 1.0, abs_tol=_ROUNDING):
        raise ConfigError(f"Expected shares={dict(shares)!r} to sum to 1.")
    if scarce not in shares:
        raise ConfigError(f"Expected scarce={scarce!r} to be one of the labels in shares.")
    by_label: dict[str, list[Record]] = {label: [] for label in shares}
    rng = np.random.default_rng(seed)
    for i in rng.permutation(len(records)).tolist():
        if records[i].label in by_label:
            by_label[str(records[i].label)].append(records[i])
    spare = {label: len(found) - (scarce_public if label == scarce else 1) for label, found in by_label.items()}
    if private_size is None:
        private_size = sum(map(len, by_label.values())) // 2
        while private_size > 0 and _too_many(_whole(shares, private_size), spare):
            private_size -= 1
    _validate.count(private_size=private_size)
    counts = _whole(shares, private_size)
    if lacking := _too_many(counts, spare):
        raise ConfigError(
            f"Expected at least {counts[lacking]} private and {len(by_label[lacking]) - spare[lacking]} public records "
            f"of label {lacking!r}, found {len(by_label[lacking])}. Choose a smaller private_size or share."
        )
    private = [record for label, found in by_label.items() for record in found[: counts[label]]]
    rest = {label: found[counts[label] :] for label, found in by_label.items()}
    rest[scarce] = rest[scarce][:scarce_public]
    public = [record for found in rest.values() for record in found]
    return [public[i] for i in rng.permutation(len(public))], [private[i] for i in rng.permutation(len(private))]


def _whole(shares: Mapping[str, float], size: int) -> dict[str, int]:
    exact = {label: share * size for label, share in shares.items()}
    counts = {label: math.floor(value) for label, value in exact.items()}
    order = sorted(shares, key=lambda label: counts[label] - exact[label])
    for label in order[: size - sum(counts.values())]:
        counts[label] += 1
    return counts


def _too_many(counts: Mapping[str, int], spare: Mapping[str, int]) -> str | None:
    return next((label for label, count in counts.items() if count > spare[label]), None)


def observed_balance(given: Sequence[str | None], labels: Sequence[str]) -> Floats:
    """The share of each label in `given`, other values left out, `(n_labels,)`; ConfigError if no label occurs."""
    return _shares(np.bincount(_positions(given, labels), minlength=len(labels) + 1)[: len(labels)])


def debiased_balance(counts: Integers | Floats, epsilon: float) -> Floats:
    """Return the class balance `(n_labels,)` behind labels that went through k-ary randomized response.

    A label is kept with probability p = e^epsilon / (e^epsilon + L - 1), and becomes each other label with q = 1 /
    (e^epsilon + L - 1). So (share - q) / (p - q) is unbiased for the true share (Kairouz, Bonawitz and Ramage 2016).
    These numbers sum to 1 but may be negative, so the function returns the nearest point of the simplex in Euclidean
    distance. That point is never farther from the true balance in that distance, but no longer unbiased.

    `counts` `(n_labels,)` says how often each label was given, zeros included; `epsilon` is of the response.
    ConfigError: fewer than two labels, no counts, or an epsilon that is not positive.
    """
    _validate.positive(epsilon=epsilon)
    shares = _shares(np.asarray(counts, np.float64))
    if len(shares) < 2:
        raise ConfigError(f"Expected counts of at least two labels, found {len(shares)}.")
    shrink = math.exp(-epsilon)  # all terms are divided by e^epsilon, which may overflow
    total = 1 + (len(shares) - 1) * shrink
    return simplex_projection((shares - shrink / total) * total / -math.expm1(-epsilon))


def balance_behind(counts: Integers | Floats, matrix: Floats) -> Floats:
    """The class balance `(n_labels,)` behind labels that went through any mechanism, by non-negative least squares.

    The balance is the x >= 0 with the smallest |matrix^T x - given shares|, scaled to sum 1. All shares are equal if no
    x fits better than zero. `counts` `(n_given,)` says how often each label was given, `matrix` `(n_labels, n_given)`
    the probability of each given label by true label: measured on public texts (`confusion_matrix`), or known.
    ConfigError: no counts, a matrix of another size, or rows of the matrix that are no distributions.
    """
    shares = _shares(np.asarray(counts, np.float64))
    known = np.asarray(matrix, np.float64)
    if known.ndim != 2 or known.shape[1] != len(shares) or not len(known):
        raise ConfigError(f"Expected a matrix of {len(shares)} columns, one a given label, found {known.shape}.")
    if not np.isfinite(known).all() or known.min() < 0 or np.abs(known.sum(axis=1) - 1).max() > _ROUNDING:
        raise ConfigError("Expected each row of the matrix to be probabilities that sum to 1.")
    return _behind(shares, known)


def _behind(shares: Floats, matrix: Floats) -> Floats:
    from scipy.optimize import nnls  # noqa: PLC0415 (slow to load)

    found = np.asarray(nnls(matrix.T, shares)[0], np.float64)
    total = float(found.sum())
    return found / total if total > 0 else np.full(len(found), 1 / len(found))


def simplex_projection(values: Floats) -> Floats:
    """Return the nearest point with entries >= 0 of sum 1, in Euclidean distance (Held, Wolfe and Crowder 1974)."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0.0))


def confusion_matrix(true_labels: Sequence[str | None], given: Sequence[str | None], labels: Sequence[str]) -> Floats:
    """Shares of the given labels by true label, `(n_labels, n_labels)`, for `balance_behind`. Rows sum to 1.

    Measure it on public texts that the mechanism was not fitted on. Run the mechanism many times on these texts: noise
    on public texts costs no privacy. A pair is left out if one of the two is not among the labels. ConfigError: two
    sequences of different length, or a label for which nothing was measured.
    """
    if len(true_labels) != len(given):
        raise ConfigError(f"Expected one given label for each of {len(true_labels)} true ones, found {len(given)}.")
    size = len(labels) + 1
    codes = _positions(true_labels, labels) * size + _positions(given, labels)
    counts = np.bincount(codes, minlength=size * size).reshape(size, size)[:-1, :-1]
    for label, row in zip(labels, counts, strict=True):
        if not row.any():
            raise ConfigError(f"Expected public texts of label {label!r} to measure what becomes of it, found none.")
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def balance_error(
    true_labels: Sequence[str | None],
    given: Sequence[str | None],
    labels: Sequence[str],
    *,
    epsilon: float | None = None,
    matrix: Floats | None = None,
    seed: int = 0,
) -> Estimate:
    """Return the L1 distance, in [0, 2], of the true class balance and the recovered balance, at 95%.

    With `epsilon` the given labels come from randomized response. With `matrix` they come from a mechanism with this
    confusion matrix. With neither they are used unchanged, as for public-only outputs. The interval is by bootstrap
    over records. Resampling adds noise of its own, so the interval leans upwards if the error is small.

    `true_labels` are of the private records, `given` of their outputs. Given values that are not among `labels` are
    left out of the recovery. For `epsilon` see `debiased_balance`, for `matrix` `balance_behind`. `seed` is of the
    bootstrap. ConfigError: a true label that is not among the labels, no records, different numbers of records, no
    usable output, or both an epsilon and a matrix.
    """
    if len(set(labels)) < len(labels):
        raise ConfigError(f"Expected labels={tuple(labels)!r} to be named once each.")
    if len(true_labels) != len(given) or not len(given):
        raise ConfigError(f"Expected one given label for each of {len(true_labels)} true ones, found {len(given)}.")
    rows = np.stack([_positions(true_labels, labels), _positions(given, labels)], axis=1)
    n = len(labels)
    if rows[:, 0].max() == n:
        raise ConfigError("Expected every private record to have one of the labels.")
    recover = _recovery(np.bincount(rows[:, 1], minlength=n + 1)[:n], epsilon, matrix)

    def error(drawn: Integers) -> float:
        true, found = (np.bincount(column, minlength=n + 1)[:n] for column in drawn.T)
        # A resample of few records may hold no usable output: in that case all shares are equal.
        recovered = recover(found) if found.any() else np.full(n, 1 / n)
        return float(np.abs(recovered - true / len(drawn)).sum())

    return bootstrap(rows, error, source=seeded(seed), bounds=(0.0, 2.0))


def _recovery(counts: Integers, epsilon: float | None, matrix: Floats | None) -> Callable[[Integers], Floats]:
    """Return the function from counts to shares, tried on these counts `(n_labels,)`, so that faults show early."""
    if epsilon is not None and matrix is not None:
        raise ConfigError("Expected an epsilon or a matrix, not both.")
    if epsilon is not None:
        debiased_balance(counts, epsilon)
        return lambda found: debiased_balance(found, epsilon)
    if matrix is not None:
        if len(balance_behind(counts, matrix)) != len(counts):
            raise ConfigError(f"Expected a matrix of {len(counts)} rows, one a label, found {matrix.shape}.")
        return lambda found: _behind(_shares(found), np.asarray(matrix, np.float64))
    _shares(counts)
    return _shares


def _positions(given: Sequence[str | None], labels: Sequence[str]) -> Integers:
    place = {label: i for i, label in enumerate(labels)}
    return np.array([len(labels) if label is None else place.get(label, len(labels)) for label in given], np.int64)


def _shares(counts: Integers | Floats) -> Floats:
    values = np.asarray(counts, np.float64)
    total = values.sum()
    if values.ndim != 1 or not np.isfinite(total) or total <= 0 or values.min() < 0:
        raise ConfigError("Expected counts of at least 0, and one above 0: no output has one of the labels.")
    return np.asarray(values / total)
