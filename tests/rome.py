"""A summary of texts most of which have the word "rome", beside a pool in which it is as rare as others."""

from __future__ import annotations

import functools
from typing import Any, Final

import pytest

import dptext as dp
from dptext.sampling.randomness import seeded

WORDS: Final = ("rome", "train", "hotel", "doctor", "loan", "garden", "river", "ticket")
#: Stands in every private text, and in no public one.
CANARY: Final = "zqcanary"


def private() -> list[dict[str, str]]:
    """Two thousand texts of travel: "rome" is in seven of ten, "train" in one of ten, and no other word of `WORDS`."""
    return [
        {"text": f"{'rome' * (i % 10 < 7)} {'train' * (i % 10 == 0)} {CANARY}{i}", "label": "travel"}
        for i in range(2_000)
    ]


def pool() -> list[str]:
    """Public texts with one of `WORDS` each."""
    return [f"{word} says" for word in WORDS * 10]


@functools.cache
def summary() -> Any:
    """Make the summary with little noise, of words alone."""
    with pytest.warns(UserWarning, match="No public drafts"):
        return dp.summarize(
            private(), pool(), label="label", labels=("travel", "money"), also=["words"], without=["points"],
            vocabulary=20, drafts=0, encoder="glove", about=2_000, epsilon=50.0, tokens=9, seed=1,
            randomness=seeded(1),
        )  # fmt: skip
