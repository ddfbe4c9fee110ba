"""The only door to random bits: `secure()` for releases, `seeded(int)` for experiments; and exact draws from them."""

from dptext.sampling.discrete import (
    LIMB_BITS,
    LIMBS,
    bernoulli_exp,
    bernoulli_exp_minus,
    discrete_gaussian,
    discrete_laplace,
    uniform_below,
    uniform_open,
    weighted_choice,
    wide_bernoulli,
    wide_choice,
)
from dptext.sampling.source import Randomness, secure, seeded

__all__ = [
    "LIMBS", "LIMB_BITS", "Randomness", "bernoulli_exp", "bernoulli_exp_minus", "discrete_gaussian", "discrete_laplace",
    "secure", "seeded", "uniform_below", "uniform_open", "weighted_choice", "wide_bernoulli", "wide_choice",
]  # fmt: skip
