"""Integer weights of options, and draws by weight: the common part of private choices.

Scores are `(rows, options)`. Weights e^w become integers of up to 119 bits. The rounding moves each w by at most 2^-39.
Each w is shrunk a little in advance (`ROUNDING_LOSS`), so that the stated epsilon holds exactly. Weights below e^-54
times a row's largest weight are lifted to this floor. The floor changes no sensitivity, because the largest weight is
as Lipschitz as each score.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptext.errors import ConfigError, PrivacyError
from dptext.sampling.discrete import LIMB_BITS, LIMBS, wide_choice
from dptext.sampling.randomness import Randomness
from dptext.types import Floats, Int16s, Int32s, Integers, Singles, UInt64s

Scores = Floats | Singles
Rankable = Scores | Int16s | Int32s | Integers
_FLOOR = -54.0
_TOP_BITS = 119
#: Bound on the log ratio that rounding weights to integers can add between two outputs (four roundings of 2^-40 each).
ROUNDING_LOSS = 2.0**-37
OPTIONS_AT_ONCE = 1 << 17  # bounds the memory of the wide integers, about 900 bytes per option


def checked(scores: Rankable, size: int | None = None) -> Floats:
    """Scores `(rows, options)` in float64. ConfigError: not `size` options. PrivacyError: NaN or infinity."""
    if scores.ndim != 2 or scores.shape[1] < 1:
        raise ConfigError(f"Expected scores of shape (rows, options), found {scores.shape}.")
    if size is not None and scores.shape[1] != size:
        raise ConfigError(f"Expected scores for {size} options, found {scores.shape[1]}.")
    values = np.asarray(scores, np.float64)
    require_finite(values)
    return np.clip(values, -1e150, 1e150)


def require_finite(values: NDArray[np.floating[Any]]) -> None:
    """Raise PrivacyError for NaN or infinity: they have no place in the order, and no bound covers them."""
    if not np.isfinite(values).all():
        raise PrivacyError("Expected finite scores, found NaN or infinity: nothing is chosen.")


def relative(log_weights: Floats) -> Floats:
    """Log weights relative to the row's largest log weight, at least -54."""
    return np.asarray(np.maximum(log_weights - log_weights.max(axis=1, keepdims=True), _FLOOR))


def integer_weights(log_weights: Floats) -> UInt64s:
    """e^w as integers relative to the row's largest weight, which becomes exactly 2^119; limbs first."""
    return powers(relative(log_weights) / math.log(2))


def powers(exponents: Floats) -> UInt64s:
    """2^(119 + e) as integers for exponents e in [-78, 0], exactly 2^119 for 0; limbs first."""
    whole = np.floor(exponents)
    mantissa = np.rint(np.exp2(exponents - whole) * 2.0**52).astype(np.uint64)
    return shifted(mantissa, (whole + (_TOP_BITS - 52)).astype(np.int64))


def shifted(numbers: UInt64s, by: Integers) -> UInt64s:
    """floor(number * 2^by) for whole numbers below 2^54 and results below 2^120; limbs first."""
    limbs = np.empty((LIMBS, *numbers.shape), np.uint64)
    mask = np.uint64((1 << LIMB_BITS) - 1)
    for i in range(LIMBS):
        lifted = by - LIMB_BITS * i
        to_left, to_right = (np.minimum(np.maximum(by, 0), 63).astype(np.uint64) for by in (lifted, -lifted))
        left = np.where(lifted >= LIMB_BITS, np.uint64(0), numbers << to_left)
        right = numbers >> to_right
        limbs[i] = np.where(lifted >= 0, left, right) & mask
    return limbs


def blocks_of(rows: int, options: int) -> list[slice]:
    """Split the rows into blocks that fit into memory."""
    step = max(1, OPTIONS_AT_ONCE // options)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def scaled(scores: Floats, scale: float) -> Floats:
    """Log weights scale * (score - row's largest score). The difference comes first, so that no digits are lost."""
    return np.asarray(scale * (scores - scores.max(axis=1, keepdims=True)))


def normalized(values: Floats) -> Floats:
    """Rows `(rows, options)` of values >= 0 divided by their sum; uniform if the sum is 0."""
    total = values.sum(axis=1, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1.0), 1.0 / values.shape[1])


def softmax(log_weights: Floats) -> Floats:
    """Probabilities `(rows, options)` in proportion to the weights."""
    weights = np.exp(relative(log_weights))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def draw_by_weight(log_weights: Floats, source: Randomness) -> Integers:
    """One option per row `(rows,)`, with probability in proportion to its weight."""
    rows, options = log_weights.shape
    result = np.empty(rows, np.int64)
    for block in blocks_of(rows, options):
        result[block] = wide_choice(integer_weights(log_weights[block]), source)
    return result
