"""Mechanisms with networks keep every part of the contract."""

import time

import pytest

from dptext.mechanisms.registry import SPECS
from dptext.testing import CHECKS, check_mechanism
from dptext.text.samples import sample_records

torch = pytest.importorskip("torch")

PUBLIC = sample_records(100)
KINDS = ("adept", "adept_dpsgd", "published_adept", "deep_candidate", "candidates", "truncation", "embedded", "erae")
#: The audits of a network take half a minute each: all but the first way of working wait for `make test-all`.
TINY = [
    pytest.param(kind, i, marks=pytest.mark.slow if i else ()) for kind in KINDS for i in range(len(SPECS[kind].tiny()))
]
RAN: dict[tuple[str, int], tuple[str, ...]] = {}


@pytest.mark.parametrize(("kind", "i"), TINY)
def test_the_contract(kind: str, i: int) -> None:
    torch.set_num_threads(1)
    spec = SPECS[kind].tiny()[i]
    began = time.process_time()
    mechanism = spec.fit(public=PUBLIC, seed=0)
    assert time.process_time() - began < 10  # loading torch and opacus takes some seconds of it
    RAN[kind, i] = check_mechanism(mechanism)


def test_every_network_went_through_every_check() -> None:
    assert set(RAN) >= {(kind, 0) for kind in KINDS}
    assert all(names == tuple(CHECKS) for names in RAN.values())
