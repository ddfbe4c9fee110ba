"""A measured number with its interval, and the exact interval of a proportion (Clopper-Pearson).

Every number that dptext measures is an `Estimate`::

    >>> from dptext.estimates import clopper_pearson
    >>> print(clopper_pearson(610, 1000))
    0.61 [0.58, 0.64] (95%)

Clopper and Pearson 1934: the interval of k successes in n independent trials holds every success probability that an
exact binomial test does not reject. Its coverage is at least the stated confidence for every n and every probability.
The bounds are rounded outwards, so that the coverage holds in floats, too.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from dptext import _validate
from dptext.errors import ConfigError

# scipy 1.17.1's inverse of the incomplete beta function is wrong by factors of two and more if one parameter is exactly
# 1000 and the other above about 1e6, and is NaN at alpha = 1e-290. So the tail itself is bisected. On 40,000 random
# cases in this range the result agreed with 40-digit arithmetic within the tolerance.
MAX_TRIALS = 10**9
_MIN_ALPHA, _MAX_ALPHA = 1e-100, 0.5
_TOLERANCE = 1e-10
_TAIL_SLACK = 1e-9  # each bound moves outwards by ten times the tolerance, too, for the rounding of the tail
_FLOAT_SLACK = 1e-15  # some ulps, for the closed forms at 0 and n


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured number and an interval that covers the true number with the stated confidence, in (0, 1).

    The ends of the interval may be infinite. ConfigError: not low <= value <= high, a NaN, or a confidence outside
    (0, 1).
    """

    value: float
    low: float
    high: float
    confidence: float

    def __post_init__(self) -> None:
        for name, number in (("value", self.value), ("low", self.low), ("high", self.high)):
            _check_number(name, number)
        if not self.low <= self.value <= self.high:
            raise ConfigError(f"Expected value={self.value!r} in [low, high] = [{self.low!r}, {self.high!r}].")
        _check_confidence(self.confidence)

    def __str__(self) -> str:
        # More digits than the width of the interval supports would look more certain than the estimate is.
        width, size = self.high - self.low, max(abs(self.low), abs(self.high))
        digits = 3
        if 0 < width < math.inf:
            digits = min(max(2, 1 + math.floor(math.log10(size)) - math.floor(math.log10(width))), 17)
        value, low, high = (f"{number:.{digits}g}" for number in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}] ({100 * self.confidence:.6g}%)"

    def to_dict(self) -> dict[str, float | str]:
        """The estimate as JSON-able data; an infinite end is written as the string "inf" or "-inf"."""
        numbers = {f.name: float(getattr(self, f.name)) for f in fields(self)}
        return {name: str(number) if math.isinf(number) else number for name, number in numbers.items()}


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ConfigError(f"Expected {name}={value!r} to be a number.")


def _check_confidence(confidence: float) -> None:
    _validate.probability(confidence=confidence)
    if not 0 < confidence < 1:
        raise ConfigError(f"Expected confidence={confidence!r} in (0, 1).")


def check_part(part_name: str, part: int, whole_name: str, whole: int) -> None:
    """Raise ConfigError unless `part` of `whole` are counts: integers, 1 <= whole <= 1e9, 0 <= part <= whole."""
    _validate.count(**{whole_name: whole})
    _validate.within(1, MAX_TRIALS, **{whole_name: whole})
    if isinstance(part, bool) or not isinstance(part, int) or not 0 <= part <= whole:
        raise ConfigError(f"Expected {part_name}={part!r} to be an integer in [0, {whole_name}={whole!r}].")


def bonferroni(confidence: float, parts: int) -> float:
    """The error probability of each of `parts` bounds so that all hold together with `confidence`."""
    _check_confidence(confidence)
    _validate.count(parts=parts)
    return (1 - confidence) / parts


def _crossing(tail: Callable[[float], float], alpha: float, *, outer: float, inner: float) -> float:
    """The point at which the tail crosses alpha, rounded towards `outer`; needs tail(outer) <= alpha < tail(inner)."""
    while abs(inner - outer) > _TOLERANCE * max(inner, outer):
        middle = (outer + inner) / 2
        if tail(middle) <= alpha:
            outer = middle
        else:
            inner = middle
    return outer


def clopper_pearson_lower(successes: int, trials: int, *, alpha: float) -> float:
    """One-sided lower bound on a success probability, wrong with probability at most `alpha`, in [1e-100, 0.5].

    The bound is the p with Pr[Bin(trials, p) >= successes] = alpha, that is Beta.ppf(alpha, k, n - k + 1); 0 if no
    trial succeeds, alpha^(1/n) if all do (derivations, "Clopper-Pearson bounds"). It is rounded down. At most 1e9
    trials. ConfigError: an argument out of its range, or counts that are not integers.
    """
    check_part("successes", successes, "trials", trials)
    _validate.within(_MIN_ALPHA, _MAX_ALPHA, alpha=alpha)
    return _lower(successes, trials, alpha)


@functools.lru_cache(maxsize=1 << 16)  # a search for a threshold repeats the same few counts many times
def _lower(successes: int, trials: int, alpha: float) -> float:
    if successes == 0:
        return 0.0
    if successes == trials:
        return math.exp(math.log(alpha) / trials) * (1 - _FLOAT_SLACK)

    from scipy.special import betainc  # noqa: PLC0415 (slow to load)

    def at_least(p: float) -> float:  # Pr[Bin(trials, p) >= successes], above 1/2 at p = successes / trials
        return float(betainc(successes, trials - successes + 1, p))

    return _crossing(at_least, alpha, outer=0.0, inner=successes / trials) * (1 - _TAIL_SLACK)


def clopper_pearson_upper(successes: int, trials: int, *, alpha: float) -> float:
    """One-sided upper bound on a success probability, wrong with probability at most `alpha`, in [1e-100, 0.5].

    The bound is the p with Pr[Bin(trials, p) <= successes] = alpha, that is Beta.ppf(1 - alpha, k + 1, n - k); 1 if all
    trials succeed, 1 - alpha^(1/n) if none does (derivations, "Clopper-Pearson bounds"). It is rounded up. At most 1e9
    trials. ConfigError: an argument out of its range, or counts that are not integers.
    """
    check_part("successes", successes, "trials", trials)
    _validate.within(_MIN_ALPHA, _MAX_ALPHA, alpha=alpha)
    return _upper(successes, trials, alpha)


@functools.lru_cache(maxsize=1 << 16)
def _upper(successes: int, trials: int, alpha: float) -> float:
    if successes == trials:
        return 1.0
    if successes == 0:
        return min(1.0, -math.expm1(math.log(alpha) / trials) * (1 + _FLOAT_SLACK))

    from scipy.special import betaincc  # noqa: PLC0415 (slow to load)

    def at_most(p: float) -> float:  # Pr[Bin(trials, p) <= successes], above 1/2 at p = successes / trials
        return float(betaincc(successes + 1, trials - successes, p))

    return min(1.0, _crossing(at_most, alpha, outer=1.0, inner=successes / trials) * (1 + _TAIL_SLACK))


def clopper_pearson(successes: int, trials: int, *, confidence: float = 0.95) -> Estimate:
    """The share of successes in at most 1e9 trials, with its exact interval: half of the error on each side."""
    alpha = bonferroni(confidence, 2)
    low = clopper_pearson_lower(successes, trials, alpha=alpha)
    high = clopper_pearson_upper(successes, trials, alpha=alpha)
    return Estimate(successes / trials, low, high, confidence)


def best_share(found: Sequence[tuple[Estimate, int]]) -> Estimate:
    """The highest of several shares (each with its number of trials), with an interval that holds for all at once."""
    best, trials = max(found, key=lambda one: one[0].value)
    error = bonferroni(best.confidence, len(found))
    wide = clopper_pearson(round(best.value * trials), trials, confidence=1 - error)
    return Estimate(wide.value, wide.low, wide.high, best.confidence)
