"""Every mechanism of the library keeps every part of the contract."""

import time

import pytest

from dptext.config import SPECS
from dptext.samples import sample_records
from dptext.testing import CHECKS, check_mechanism

TINY = [(kind, i) for kind, cls in SPECS.items() for i in range(len(cls.tiny()))]
RAN: dict[tuple[str, int], tuple[str, ...]] = {}


@pytest.mark.parametrize(("kind", "i"), TINY)
def test_the_contract(kind: str, i: int) -> None:
    spec = SPECS[kind].tiny()[i]
    began = time.process_time()
    mechanism = spec.fit(public=sample_records(100), seed=0)
    assert time.process_time() - began < 5
    RAN[kind, i] = check_mechanism(mechanism)


def test_every_mechanism_went_through_every_check() -> None:
    assert {kind for kind, _ in TINY} == set(SPECS)
    assert set(RAN) == set(TINY)
    assert all(names == tuple(CHECKS) for names in RAN.values())
    assert len(CHECKS) == 12
