"""Every mechanism of the library keeps every part of the contract; those with networks have a file of their own."""

import time

import pytest

from dptext.mechanisms.registry import SPECS
from dptext.testing import CHECKS, check_mechanism
from dptext.text.samples import sample_records

PUBLIC = sample_records(100)
NEURAL = (  # see test_neural_mechanisms.py, which another worker can run
    "adept",
    "adept_dpsgd",
    "published_adept",
    "deep_candidate",
    "candidates",
    "truncation",
    "embedded",
    "erae",
)
#: What needs an optional package of its own: tests/unit/test_pii_redaction.py holds it to the contract.
ELSEWHERE = ("pii_redaction",)
#: As the first but for a diameter, another covariance, fewer words, another text, or a level of 1.
ALIKE = {("word_metric", 1), ("word_metric", 2), ("word_metric", 3), ("label_only", 1), ("random_redaction", 2)}
TINY = [(kind, i) for kind, cls in SPECS.items() if kind not in (*NEURAL, *ELSEWHERE) for i in range(len(cls.tiny()))]
RAN: dict[tuple[str, int], tuple[str, ...]] = {}


@pytest.mark.parametrize(
    ("kind", "i"), [pytest.param(*one, marks=pytest.mark.slow if one in ALIKE else ()) for one in TINY]
)
def test_the_contract(kind: str, i: int) -> None:
    spec = SPECS[kind].tiny()[i]
    began = time.process_time()
    mechanism = spec.fit(public=PUBLIC, seed=0)
    assert time.process_time() - began < 5
    RAN[kind, i] = check_mechanism(mechanism)


def test_every_mechanism_went_through_every_check() -> None:
    assert {kind for kind, _ in TINY} | {*NEURAL, *ELSEWHERE} == set(SPECS)
    assert set(TINY) - ALIKE <= set(RAN)
    assert all(names == tuple(CHECKS) for names in RAN.values())
    assert len(CHECKS) == 14
