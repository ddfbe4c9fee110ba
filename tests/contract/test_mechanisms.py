"""Every mechanism of the library keeps every part of the contract; each check is a test, so that workers share them."""

import pytest

from dptext.registry import MECHANISMS
from dptext.testing import CHECKS, check_mechanism
from fitted import NEURAL, fitted

#: What needs an optional package of its own: packages/lab/tests/redaction/test_pii_redaction.py holds it to the
#: contract.
ELSEWHERE = ("pii_redaction",)
#: As the first but for a utility, a relation, a diameter, another covariance, another text, a level of 1, or TEM, which
#: carries the planted faults of test_contract_faults.py.
ALIKE = {
    *(("word_metric", i) for i in (1, 2, 3, 4)),
    ("label_only", 1),
    ("random_redaction", 2),
    *(("deep_candidate", i) for i in (1, 2, 3)),
}
TINY = [(kind, i) for kind, cls in MECHANISMS.items() if kind not in ELSEWHERE for i in range(len(cls.tiny()))]


#: What waits of a kind: most of `private_phrases`, which guarantees nothing; whether a release depends on its batch,
#: where it is that of another mechanism; the slow numbers and fits of a training, which tests/snapshots holds, too; and
#: frequencies where "batches" compares seeded releases one by one.
LATER = {
    "private_phrases": ("distribution", "batches", "model", "verbatim", "order", "event", "silence"),
    "published_adept": ("distribution",),
    "embedded": ("distribution",),
    "adept_dpsgd": ("distribution", "statements", "settings", "fit", "order"),
    "deep_candidate": ("distribution",),
    "sentdp": ("distribution",),
    "erae": ("distribution",),
    "dp_prompt": ("distribution",),
    "truncation": ("distribution",),
    "adept": ("distribution",),
    "candidates": ("distribution",),
    "syntf": ("distribution",),
}


#: Of those that release texts, labels or vectors one each: files get releases that do not follow from texts.
SHAPES = ("word_metric", "label_only", "embedded")


def waits(kind: str, i: int, check: str = "guarantee") -> bool:
    """Whether it waits for `make test-all`: settings alike, of a network all but the first, and some checks."""
    alike = (kind, i) in ALIKE or (kind in NEURAL and i > 0) or (check == "shapes" and (kind not in SHAPES or i > 0))
    return alike or check in LATER.get(kind, ())


@pytest.mark.slow_cases(
    "word_metric-0-batches", "word_metric-0-model", why="test_a_sound_mechanism_passes has both for another noise"
)
@pytest.mark.slow_cases(
    "dp_prompt-1-batches",
    "dp_prompt-1-verbatim",
    why="the other choice stays, and its numbers in tests/unit/sampling/test_hub.py",
)
@pytest.mark.slow_cases(
    "word_metric-0-shapes", why="test_the_old_batching_is_caught_in_every_format runs the check for words, too"
)
@pytest.mark.slow_cases("adept_dpsgd-0-epsilon", why="it trains four times; adept-0-epsilon is quick")
@pytest.mark.slow_cases(
    *("adept_dpsgd-0-guarantee", "candidates-0-guarantee", "deep_candidate-0-guarantee", "dp_prompt-0-guarantee"),
    *("sentdp-0-guarantee",),
    *("dp_prompt-1-guarantee", "erae-0-guarantee", "random_redaction-1-guarantee", "syntf-0-guarantee"),
    *("truncation-0-guarantee", "random_redaction-1-distribution", "count_redaction-1-distribution"),
    *("embedded-0-guarantee", "word_metric-0-guarantee"),
    *("adept-0-guarantee", "label_only-0-guarantee", "label_only-0-distribution", "random_redaction-0-guarantee"),
    why="other tests of the mechanism see the same scale, its unit tests a wrong one; for the redaction of words and "
    "its guarantee, the other redactions and test_a_mask_that_comes_too_seldom_is_caught",
)
@pytest.mark.usefixtures("draws")
@pytest.mark.parametrize(
    ("kind", "i", "check"),
    [
        pytest.param(*one, check, marks=pytest.mark.slow if waits(*one, check) else ())
        for one in TINY
        for check in CHECKS
    ],
)
def test_the_contract(kind: str, i: int, check: str) -> None:
    assert check_mechanism(fitted(kind, i), checks=[check]) == (check,)


def test_every_mechanism_goes_through_every_check() -> None:
    assert {kind for kind, i in TINY if not waits(kind, i)} | {*ELSEWHERE} == set(MECHANISMS)
    assert len(CHECKS) == 16
