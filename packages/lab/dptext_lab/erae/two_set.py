"""The choice of ER-AE as published: first a set of options by their mass, then an option of the set.

Like the choices of `dptext.sampling.exponential`, it has an exact `distribution` and draws by integers only.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import TwoSetEvent
from dptext.sampling.discrete import weighted_choice, wide_choice
from dptext.sampling.randomness import Randomness
from dptext.sampling.top_k import top_k_mask
from dptext.sampling.weights import (
    ROUNDING_LOSS,
    Scores,
    blocks_of,
    checked,
    integer_weights,
    normalized,
    softmax,
)
from dptext.types import Booleans, Floats, Integers


@dataclass(frozen=True, slots=True)
class TwoSet:
    """The two-set exponential mechanism of ER-AE (Bo et al. 2021; derivations, "Two-set choice").

    The inputs are probabilities (rows that sum to 1). First a set S is made: the k most probable options (`top_k`), or
    the distinct options among k draws with replacement (`sampled`, the authors' code, which counts an option in the
    mass of S as often as it was drawn). Then an exponential mechanism with weight e^(epsilon * mass / 2) chooses S or
    its complement O. Last, an option of the chosen set is drawn uniformly, as in the paper; the authors' code makes a
    second exponential choice (epsilon 0.1).

    Guarantee:
        For any two inputs, epsilon/2 + ln((size - k) / k) with `top_k`, epsilon/2 + ln(size - 1) with `sampled`.
        Accounting derives these from `event`. The paper's epsilon + ln(size) is true but loose.
    """

    epsilon: float
    k: int
    size: int
    set_choice: Literal["top_k", "sampled"] = "top_k"

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _ = self.event

    @property
    def event(self) -> TwoSetEvent:
        """The event of one choice."""
        return TwoSetEvent(self.epsilon, self.k, self.size, self.set_choice)

    def _probabilities(self, probabilities: Scores) -> Floats:
        return normalized(np.clip(checked(probabilities, self.size), 0.0, 1.0))

    def _log_weights(self, in_set: Floats) -> Floats:
        mass = np.clip(in_set, 0.0, 1.0)
        scale = max(self.epsilon - ROUNDING_LOSS, 0.0) / 2
        return np.stack([scale * mass, scale * (1 - mass)], axis=1)

    def distribution(self, probabilities: Scores) -> Floats:
        """Probabilities `(rows, options)`. `sampled` enumerates every draw. ConfigError: there are too many draws."""
        values = self._probabilities(probabilities)
        if self.set_choice == "top_k":
            return self._given_set(top_k_mask(values, self.k), np.where(top_k_mask(values, self.k), values, 0).sum(1))
        if self.size**self.k > 100_000:
            raise ConfigError(f"Expected size**k={self.size**self.k} <= 100000 to enumerate every sampled set.")
        result = np.zeros_like(values)
        for draws in np.ndindex(*(self.size,) * self.k):
            mask = np.zeros_like(values, bool)
            mask[:, list(draws)] = True
            chance = values[:, list(draws)].prod(axis=1, keepdims=True)
            result += chance * self._given_set(mask, self._sampled_mass(values, np.tile(draws, (len(values), 1))))
        return result

    def _given_set(self, mask: Booleans, mass: Floats) -> Floats:
        chosen = softmax(self._log_weights(mass))
        inside = mask.sum(axis=1, keepdims=True)
        return np.asarray(np.where(mask, chosen[:, :1] / inside, chosen[:, 1:] / (self.size - inside)))

    def _sampled_mass(self, values: Floats, draws: Integers) -> Floats:
        rows = np.arange(len(values))[:, None]
        drawn = values[rows, draws].sum(axis=1)
        outside = values.copy()
        outside[rows, draws] = 0
        total = drawn + outside.sum(axis=1)
        return np.asarray(np.where(total > 0, drawn / np.where(total > 0, total, 1.0), 0.5))

    def choose(self, probabilities: Scores, source: Randomness) -> Integers:
        """One option per row, `(rows,)`."""
        result = np.empty(len(probabilities), np.int64)
        for block in blocks_of(len(probabilities), self.size):
            values = self._probabilities(probabilities[block])
            if self.set_choice == "top_k":
                mask = top_k_mask(values, self.k)
                mass = np.where(mask, values, 0).sum(axis=1)
            else:
                mask, mass = self._sampled_set(values, source)
            first = wide_choice(integer_weights(self._log_weights(mass)), source) == 0
            members = mask == first[:, None]
            result[block] = weighted_choice(members.astype(np.uint64), source)
        return result

    def _sampled_set(self, values: Floats, source: Randomness) -> tuple[Booleans, Floats]:
        # The bound holds for any set S, so rounding the weights of its draws costs nothing.
        weights = np.rint(values * 2.0**40).astype(np.uint64)
        weights[:, 0] += (weights.sum(axis=1) == 0).astype(np.uint64)
        draws = np.stack([weighted_choice(weights, source) for _ in range(self.k)], axis=1)
        mask = np.zeros_like(values, bool)
        mask[np.arange(len(values))[:, None], draws] = True
        return mask, self._sampled_mass(values, draws)
