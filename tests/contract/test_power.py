"""Tiny settings are such that the contract sees twice the epsilon that is stated, with few draws, too; see `sentdp`."""

from dataclasses import replace

import pytest

from dptext import audits
from dptext.mechanism import HasDistribution, Mechanism
from dptext.testing import ContractError, check_mechanism
from dptext.text.samples import sample_records
from fitted import fitted

KINDS = ("word_metric", "syntf", "adept", "adept_dpsgd", "candidates", "label_only", "deep_candidate", "erae")
SEEN = [*((kind, 0) for kind in KINDS), ("truncation", 1), ("sentdp", 1), ("dp_prompt", 0), ("dp_prompt", 1)]


class Louder:
    """Draws with twice the epsilon, declares what the quiet one does."""

    def __init__(self, quiet) -> None:
        loud = replace(quiet.spec, epsilon=2 * quiet.spec.epsilon).fit(public=sample_records(100), seed=0)
        for name in dir(quiet):  # not by __getattr__: from Python 3.12 on protocols do not see what it answers
            if not name.startswith("_"):
                setattr(self, name, getattr(loud if name in ("privatize", "release", "latent") else quiet, name))


@pytest.mark.slow  # TestExact of tests/unit/audits/test_trials.py has a louder sampler
@pytest.mark.parametrize("i", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (2, 3))])
def test_half_the_noise_does_not_fit_what_is_declared(i: int) -> None:
    quiet = fitted("word_metric", i)
    claim = quiet.spec.guarantee()
    pair = audits.Pair("good", "the")
    for mechanism, caught in ((quiet, False), (Louder(quiet), True)):
        audit = audits.exact if isinstance(mechanism, HasDistribution) else audits.whitebox
        assert audit(mechanism, pairs=[pair], claim=claim, trials=8000).refutes(claim) is caught


def quiet_one(kind: str, i: int) -> Mechanism[str]:
    """The i-th of the tiny mechanisms. That of `sentdp` gets another depth and one direction more.

    Twice the epsilon shows only where a depth rises for one candidate and falls for another: changes in one direction
    use up half of it at most. In the contract's pairs the tiny depths are equal, or a mean that changes by too little.
    """
    found = fitted(kind, i)
    if kind != "sentdp":
        return found
    return replace(found.spec, utility="algorithm_1", projections=4).fit(public=sample_records(100), seed=0)


@pytest.mark.slow
@pytest.mark.usefixtures("draws")
@pytest.mark.parametrize(("kind", "i"), SEEN)
def test_the_contract_sees_twice_the_epsilon(kind: str, i: int) -> None:
    with pytest.raises(ContractError, match=r"survives \w+: .+ .dptext audit"):
        check_mechanism(Louder(quiet_one(kind, i)), checks=["guarantee"])


@pytest.mark.slow
def test_the_other_depth_keeps_the_contract() -> None:
    """Of the tiny mechanisms test_mechanisms.py says so."""
    assert check_mechanism(quiet_one("sentdp", 1), checks=["guarantee"]) == ("guarantee",)
