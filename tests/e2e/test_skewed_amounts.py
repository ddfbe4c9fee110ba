"""Means of a skewed amount by groups: bins that are narrow where most numbers are keep what equal bins lose."""

from __future__ import annotations

from statistics import fmean
from typing import Any, Final

import numpy as np
import pytest

import dptext as dp
from dptext.runs.specs import synthesis_from_settings
from dptext.sampling.randomness import seeded

N: Final = 2_000
GROUPS: Final = {"low": (20, 0.5), "high": (100, 0.5)}  # the mean, and the share of rows
EQUAL: Final = "amount: 0.00..500.00 by 100"
GROWING: Final = "amount: 0.00..500.00 by 10,25,50,100,250"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    rng, texts = np.random.default_rng(5), dp.sample_records(200)
    groups = rng.choice([*GROUPS], N, p=[share for _, share in GROUPS.values()]).tolist()
    return [
        {"text": texts[i % 200].text, "priority": each, "amount": round(float(rng.exponential(GROUPS[each][0])), 2)}
        for i, each in enumerate(groups)
    ]


def written(rows: list[dict[str, Any]], amount: str) -> list[dict[str, object]]:
    """Columns of rows that are written at epsilon 8."""
    summary = dp.summarize(
        rows, [each.text for each in dp.sample_records(60, seed=2)], columns=["priority: low|high", amount],
        pairs=["priority+amount"], text_follows=("none",), encoder="glove", about=N, epsilon=8.0, seed=1,
        randomness=seeded(1),
    )  # fmt: skip
    made = dp.write(summary, size=N, seed=2)
    return [{**each.kept} for each in made.releases]


def mean(rows: list[dict[str, Any]], priority: str) -> float:
    return fmean(float(str(row["amount"])) for row in rows if row["priority"] == priority and row["amount"] is not None)


def test_means_of_groups_are_near_with_bins_that_grow(rows: list[dict[str, Any]]) -> None:
    equal, growing = written(rows, EQUAL), written(rows, GROWING)
    for made in (equal, growing):
        assert all(row["amount"] is None or 0 <= float(str(row["amount"])) <= 500 for row in made)
    for priority, (of, _) in GROUPS.items():
        assert mean(growing, priority) == pytest.approx(mean(rows, priority), rel=0.2), of
    assert mean(equal, "low") > 2 * mean(rows, "low")


def test_a_dry_run_names_the_bins_and_how_far_noise_moves_means() -> None:
    table = {"kind": "summary", "about": N, "columns": ["priority: low|high", GROWING], "pairs": ["priority+amount"]}
    plan = synthesis_from_settings(table).plan
    assert "amount has 6 of them, the first is 0.00 to 9.99, the last 250.00 to 500.00" in plan
    assert "amount by priority ±" in plan
