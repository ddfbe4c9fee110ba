"""Lower bounds on epsilon from counts of attacks, and upper bounds on an attacker's success from epsilon.

An attack that tells two neighbouring inputs apart too often refutes a claimed epsilon. No attack proves one. The
functions here are pure: counts go in, and a bound that holds with the stated confidence comes out::

    >>> from dptext.audits.bounds import epsilon_from_rates, epsilon_ceiling
    >>> bound = epsilon_from_rates(900, 1000, false_positives=120, negatives=1000)
    >>> round(bound.epsilon, 2)
    1.96
    >>> round(epsilon_ceiling(1000), 1)  # perfect separation in 1,000 runs a side shows no more than this
    5.6

The counts must come from independent runs, and from an event (a threshold, a set of outputs) that was chosen on *other*
data. A caller who examines several events, directions or pairs of inputs and reports the best passes their number as
`tests`. The error probability is then divided among them. Lower bounds are rounded down, upper bounds up.
"""

import math
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.estimates import bonferroni, check_part, clopper_pearson_lower, clopper_pearson_upper

# Several times the rounding error of the few float operations behind each bound, as a share of (1 + result).
_FLOAT_SLACK = 2e-15
# The same slack for `epsilon_from_attribution`, with more to spare.
_LOG_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class EpsilonLowerBound:
    """With probability at least `confidence` no (epsilon', delta) guarantee with epsilon' < epsilon holds.

    A bound of 0 says nothing. The error probability was split among `tests` events x directions x pairs of inputs.
    """

    epsilon: float
    delta: float
    confidence: float
    tests: int


def _rates(
    true_positives: int, positives: int, false_positives: int, negatives: int, confidence: float, tests: int
) -> tuple[float, float, float, float]:
    """Clopper-Pearson bounds that hold together: TPR from below, FNR and FPR from above, TNR from below.

    FNR is bounded from its own count, because 1 - TPR loses its digits near 1.
    """
    check_part("true_positives", true_positives, "positives", positives)
    check_part("false_positives", false_positives, "negatives", negatives)
    _validate.count(tests=tests)
    # Half of the error is for the bound on TPR, half for the bound on FPR (derivations, "Two rates"); Bonferroni over
    # tests follows.
    alpha = bonferroni(confidence, 2 * tests)
    return (
        clopper_pearson_lower(true_positives, positives, alpha=alpha),
        clopper_pearson_upper(positives - true_positives, positives, alpha=alpha),
        clopper_pearson_upper(false_positives, negatives, alpha=alpha),
        clopper_pearson_lower(negatives - false_positives, negatives, alpha=alpha),
    )


def _rounded_down(number: float) -> float:
    return number if math.isinf(number) else max(0.0, number - _FLOAT_SLACK * (1 + abs(number)))


def _log_ratio(numerator: float, denominator: float) -> float:
    """ln(numerator / denominator), rounded down to a lower bound on a privacy loss; 0 if there is no loss to show."""
    if numerator <= denominator:
        return 0.0
    return _rounded_down(math.log(numerator / denominator)) if denominator > 0 else math.inf


def epsilon_from_rates(
    true_positives: int,
    positives: int,
    *,
    false_positives: int,
    negatives: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    tests: int = 1,
) -> EpsilonLowerBound:
    """Return a lower bound on epsilon from how often an event occurred on each of two neighbouring inputs.

    epsilon >= max(ln((TPR_low - delta) / FPR_high), ln((1 - FPR_high - delta) / (1 - TPR_low)), 0) (derivations, "Two
    rates"; Nasr et al. 2021, arXiv 2101.04535). Positives are runs on the first input, negatives runs on the second, at
    most 1e9 of either; true and false positives are the runs with the event. `tests` counts the events x directions x
    pairs of inputs that were examined. The opposite direction (the event is more frequent on the second input) is a
    further test: swap the inputs and count 2. ConfigError: counts that are not integers or not possible, or a setting
    out of its range.
    """
    _validate.probability(delta=delta)
    given = (true_positives, positives, false_positives, negatives, confidence, tests)
    tpr_low, fnr_high, fpr_high, tnr_low = _rates(*given)
    # The maximum over the two formulas costs no further split. The first applies the guarantee to the event, the second
    # (with inputs swapped) to its complement. Both follow from TPR >= tpr_low and FPR <= fpr_high, which hold together
    # with the full confidence.
    found = max(_log_ratio(tpr_low - delta, fpr_high), _log_ratio(tnr_low - delta, fnr_high))
    return EpsilonLowerBound(found, delta, confidence, tests)


def epsilon_ceiling(runs: int, *, delta: float = 0.0, confidence: float = 0.95, tests: int = 1) -> float:
    """Return the largest lower bound of `epsilon_from_rates` with `runs` runs on each input, by perfect separation.

    Counting cannot refute a claimed epsilon above this ceiling, whatever the mechanism does (derivations, "Two rates").
    The other arguments and errors are those of `epsilon_from_rates`.
    """
    check_part("runs", runs, "runs", runs)
    settings = {"delta": delta, "confidence": confidence}
    return epsilon_from_rates(runs, runs, false_positives=0, negatives=runs, tests=tests, **settings).epsilon


def _with_complement(rate: float, complement: float) -> tuple[float, float]:
    """A rate and one minus the rate, as exact complements, from the smaller number, which has all digits."""
    return (rate, 1 - rate) if rate < complement else (1 - complement, complement)


def renyi_from_rates(
    true_positives: int,
    positives: int,
    *,
    false_positives: int,
    negatives: int,
    alpha: float,
    confidence: float = 0.95,
    tests: int = 1,
) -> float:
    """Return a certified lower bound on the Renyi divergence D_alpha(first input's outputs || second input's), in nats.

    The event is post-processing to one bit, so D_alpha >= ln(p^a q^(1-a) + (1-p)^a (1-q)^(1-a)) / (a-1) for the true
    rates p and q. For p > q the right side grows with p and shrinks with q, so p = TPR_low and q = FPR_high bound it
    from below; the bound is 0 where p <= q (derivations, "Divergence of one event"). Several alphas, finite and above
    1, need no further `tests`. The other arguments and errors are those of `epsilon_from_rates`.
    """
    _validate.positive(alpha=alpha)
    if alpha <= 1:
        raise ConfigError(f"Expected alpha={alpha!r} > 1.")
    given = (true_positives, positives, false_positives, negatives, confidence, tests)
    tpr_low, fnr_high, fpr_high, tnr_low = _rates(*given)
    # Both terms need p and 1 - p of the same p. From two bounds rounded separately the result would not be rounded
    # down.
    p, not_p = _with_complement(tpr_low, fnr_high)
    q, not_q = _with_complement(fpr_high, tnr_low)
    if p <= q:
        return 0.0
    logs = log_p, log_q, log_not_p, log_not_q = math.log(p), math.log(q), math.log(not_p), math.log(not_q)
    log_sum = float(np.logaddexp(alpha * log_p + (1 - alpha) * log_q, alpha * log_not_p + (1 - alpha) * log_not_q))
    # For alpha near 1 the sum is near 1, and its rounding error is divided by alpha - 1: subtract the error before.
    error = _FLOAT_SLACK * alpha * (1 + sum(abs(log) for log in logs))
    return _rounded_down(max(0.0, log_sum - error) / (alpha - 1))


def reconstruction_bound(epsilon: float, candidates: int, *, top: int = 1, delta: float = 0.0) -> float:
    """Return the largest probability that `top` guesses contain the input, of equally likely candidates; rounded up.

    The bound holds for any attacker. The guarantee must hold between any two of the N candidates (derivations,
    "Reconstruction"). Let S be exactly j guesses, and s the success probability. For i != k: P_i(i in S, k not) <=
    e^eps P_k(i in S, k not) + delta. Summed over all ordered pairs the left side is (N - j) N s, the right side e^eps j
    N (1 - s) + N (N - 1) delta. So s <= (j e^eps + (N - 1) delta) / (j e^eps + N - j). An attacker who puts the truth
    into S with probability s and fills S up uniformly attains the bound. ConfigError for a setting out of its range,
    such as an infinite epsilon.
    """
    _validate.not_negative(epsilon=epsilon)
    _validate.count(candidates=candidates, top=top)
    _validate.within(1, candidates, top=top)
    _validate.probability(delta=delta)
    shrink = math.exp(-epsilon)  # numerator and denominator are divided by e^epsilon, which overflows
    bound = (1 + (candidates - 1) / top * delta * shrink) / (1 + (candidates - top) / top * shrink)
    return min(1.0, bound * (1 + _FLOAT_SLACK))


def accuracy_implies(accuracy: float, *, delta: float = 0.0) -> float:
    """Return the epsilon that a balanced attack needs: ln((accuracy - delta) / (1 - accuracy)), at least 0.

    The formula follows from adding TPR <= e^eps FPR + delta and TNR <= e^eps FNR + delta (derivations, "Accuracy of an
    attack"). For a bound with confidence pass the lower end of an interval. Infinite at accuracy 1 with delta < 1.
    ConfigError for numbers outside [0, 1].
    """
    _validate.probability(accuracy=accuracy, delta=delta)
    return _log_ratio(accuracy - delta, 1 - accuracy)


def epsilon_from_attribution(
    correct: int, texts: int, *, authors: int, delta: float = 0.0, confidence: float = 0.95, tests: int = 1
) -> EpsilonLowerBound:
    """Return a lower bound on a document-level epsilon from how many of `texts` were attributed to their true authors.

    Let each of A authors have the same fixed number of attacked texts, at most 1e9 in all, with one release of each
    text, and let P_a be the mixture of the outputs for the texts of author a. Under (epsilon, delta) for replacing one
    document P(x)(S) <= e^eps P(y)(S) + delta for *any* texts x and y, and averaged over both P_a(S) <= e^eps P_b(S) +
    delta. So by `reconstruction_bound`, whose proof asks no more of the P_a, the expected accuracy is s <= (e^eps + (A
    - 1) delta) / (e^eps + A - 1). Solved for epsilon, e^eps >= (A - 1) (s - delta) / (1 - s).

    The attacker is any function of one release that was fixed before the release was drawn, whatever it learned from.
    Given the attacker and the texts, hits are independent with probabilities of their own, whose mean `mean_chance`
    bounds from below. The bound says nothing about bundles (several releases seen together), nor under a metric, nor if
    a revealed function, such as the length, may differ between the texts. The error is divided among `tests`, the
    attackers of which the best was chosen. ConfigError for counts that are not possible, or a setting out of its range.
    """
    _validate.count(authors=authors, tests=tests)
    _validate.probability(delta=delta)
    check_part("correct", correct, "texts", texts)
    if authors < 2 or texts % authors:
        raise ConfigError(f"Expected texts={texts!r} to be as many of each of authors={authors!r} >= 2.")
    low, miss = mean_chance(correct, texts, alpha=bonferroni(confidence, tests))
    hit = (authors - 1) * (low - delta)
    found = math.log(hit / miss) - _LOG_SLACK if hit > miss else 0.0
    return EpsilonLowerBound(max(0.0, found), delta, confidence, tests)


def mean_chance(correct: int, texts: int, *, alpha: float) -> tuple[float, float]:
    """Return a lower bound on the mean s of n independent chances, of which K came true, with error at most alpha.

    Clopper-Pearson's limit l(k) is for equal chances: Pr[Bin(n, s) >= k] < alpha where l(k) > s. By Hoeffding 1956
    (Annals of Mathematical Statistics 27, theorem 4) Pr[K >= k] <= Pr[Bin(n, s) >= k] for every k >= n s + 1, for any
    chances of mean s. The bound is min(l(K), (K - 1) / n). The bound is wrong only where Pr[Bin(n, s) >= K] < alpha
    *and* K > n s + 1, so where K is at least the smallest k with both properties, and for that k Hoeffding's bound
    holds. Without the second term a single hit could err more often, because all of the chance may sit on one text. The
    function returns the bound, rounded down, and one minus the bound, rounded up, from the counted misses.
    """
    low = clopper_pearson_lower(correct, texts, alpha=alpha)
    miss = clopper_pearson_upper(texts - correct, texts, alpha=alpha)
    return max(0.0, min(low, (correct - 1) / texts)), min(1.0, max(miss, (texts - correct + 1) / texts))
