"""From the share of hits to a lower bound on epsilon, where one of A authors is guessed.

Let A authors have m attacked texts each, the texts fixed. Let P_a be the distribution of the output for a text that is
drawn uniformly from those of author a: a mixture. Under (epsilon, delta) for replacing one document, P(x)(S) <= e^eps
P(y)(S) + delta for *any* two texts x and y. Averaged over both, P_a(S) <= e^eps P_b(S) + delta. So the guess at the
author is a guess among A equally likely inputs, and its expected accuracy is

    s <= (e^eps + (A - 1) delta) / (e^eps + A - 1)

by `bounds.reconstruction_bound`, whose proof asks no more of the P_a: sum P_a(guess a) <= e^eps P_b(guess a) + delta
over all pairs a != b. The left side is (A - 1) A s, the right one e^eps A (1 - s) + A (A - 1) delta.

The attacker is any function of one release that was fixed before the release was drawn. It may have learned from other
texts, from other releases, or from the attacked texts themselves. The bound says nothing about bundles, where several
releases are seen. It says nothing under a metric, and nothing where a function that is revealed, such as the length,
may differ between the texts.
"""

import math

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound
from dptext.errors import ConfigError
from dptext.estimates import bonferroni, check_part, clopper_pearson_lower, clopper_pearson_upper

_FLOAT_SLACK = 1e-12


def epsilon_from_attribution(
    correct: int, texts: int, *, authors: int, delta: float = 0.0, confidence: float = 0.95, tests: int = 1
) -> EpsilonLowerBound:
    """Lower bound on a document-level epsilon from how many of `texts` were given to their true authors.

    There are A authors with as many texts each, at most 1e9 in all, and one release of each text; a guess looks at one
    release. As proved above e^eps >= (A - 1) (s - delta) / (1 - s). The texts were chosen by design and the attacker
    was trained on others. Given both, hits are independent, because releases are, and have chances of their own.
    `mean_chance` bounds the mean of those from below. The error is divided among `tests`, the attackers of which the
    best was chosen. ConfigError for counts that are not possible, or a setting out of its range.
    """
    _validate.count(authors=authors, tests=tests)
    _validate.probability(delta=delta)
    check_part("correct", correct, "texts", texts)
    if authors < 2 or texts % authors:
        raise ConfigError(f"Expected texts={texts!r} to be as many of each of authors={authors!r} >= 2.")
    low, miss = mean_chance(correct, texts, alpha=bonferroni(confidence, tests))
    hit = (authors - 1) * (low - delta)
    found = math.log(hit / miss) - _FLOAT_SLACK if hit > miss else 0.0
    return EpsilonLowerBound(max(0.0, found), delta, confidence, tests)


def mean_chance(correct: int, texts: int, *, alpha: float) -> tuple[float, float]:
    """Lower bound on the mean s of n independent chances of which K came true, wrong with probability at most alpha.

    Clopper-Pearson's limit l(k) is for equal chances: Pr[Bin(n, s) >= k] < alpha where l(k) > s. By Hoeffding 1956
    (Annals of Mathematical Statistics 27, theorem 4) Pr[K >= k] <= Pr[Bin(n, s) >= k] for every k >= n s + 1, whatever
    the chances of mean s. The bound is min(l(K), (K - 1) / n). It is wrong only where Pr[Bin(n, s) >= K] < alpha *and*
    K > n s + 1. That is where K is at least the smallest k with both, and for that k Hoeffding's bound holds. Without
    the second term a single hit could err more often: all of the chance may sit on one text. The bound is rounded down,
    and beside it is one minus it, rounded up, from the counted misses.
    """
    low = clopper_pearson_lower(correct, texts, alpha=alpha)
    miss = clopper_pearson_upper(texts - correct, texts, alpha=alpha)
    return max(0.0, min(low, (correct - 1) / texts)), min(1.0, max(miss, (texts - correct + 1) / texts))
