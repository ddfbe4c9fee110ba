"""Means of numbers by the values of another column, in rows that were written and in private ones."""

from __future__ import annotations

import numpy as np
import pytest

import dptext as dp
from dptext.text.declarations import schema_of
from dptext.utility.group_means import furthest_means, means_by_group

COLUMNS = schema_of(["priority: low|high", "amount: 0..100 by 25", "stars: 1..5 by 1"])


def rows(n: int, seed: int, *, more: float = 0.0) -> list[dp.Record]:
    """Rows whose amounts follow the priority; `more` is added to the high ones."""
    rng, found = np.random.default_rng(seed), []
    for i in range(n):
        priority = "high" if rng.random() < 0.5 else "low"
        amount = rng.integers(60, 81) + more if priority == "high" else rng.integers(0, 41)
        found.append(dp.Record(str(i), "text", kept={"priority": priority, "amount": str(amount), "stars": 1 + i % 5}))
    return found


def test_means_are_those_of_the_values_and_not_of_bins() -> None:
    parts = {"made": rows(400, 1, more=12.5), "own": rows(300, 2)}
    found = means_by_group(parts, COLUMNS)
    assert [(each.number, each.by) for each in found] == [("amount", "priority"), ("stars", "priority")]
    for row, records in parts.items():
        for value, mean in zip(found[0].values, found[0].rows[row], strict=True):
            true = [float(str(each.kept["amount"])) for each in records if each.kept["priority"] == value]
            assert mean == pytest.approx(np.mean(true))
    low, high = ([found[0].shown(found[0].rows[row][i]) for row in parts] for i in (0, 1))
    said = furthest_means(found, "made", "own")
    assert (
        said == f"The mean of amount by priority: low {low[0]} ({low[1]} in private rows), high {high[0]} ({high[1]})."
    )
    assert found[0].lines()[1] == ["amount", "priority", "high", *high]
    assert found[0].to_dict()["rows"] == {row: [*means] for row, means in found[0].rows.items()}


def test_what_is_no_number_is_left_out_and_a_small_group_has_no_mean() -> None:
    odd = ["", None, "many", "nan", "inf", "1e999", True]
    kept = [{"priority": "low", "amount": value} for value in [*odd, 1, "2", 3.5, " 4 ", "-5"]]
    kept += [{"priority": "high", "amount": value} for value in (1, 2, 3, 4, None)]
    kept += [{"priority": value, "amount": 90} for value in ("other", None)]
    records = [dp.Record(str(i), "text", kept=each) for i, each in enumerate(kept)]
    (found,) = means_by_group({"own": records, "made": rows(50, 1)}, COLUMNS[:2])
    assert found.rows["own"] == (pytest.approx(1.1), None)
    assert found.lines()[1][3] == "-"
    said = furthest_means([found], "made", "own")
    assert "low " in said
    assert "high" not in said
    assert furthest_means(means_by_group({"own": [], "made": []}, COLUMNS), "made", "own") == ""
    large = [dp.Record(str(i), "text", kept={"priority": "low", "amount": 1.5e308}) for i in range(5)]
    assert means_by_group({"own": large}, COLUMNS[:2])[0].rows["own"][0] == pytest.approx(1.5e308)


def test_labels_group_columns_are_few_and_a_sentence_names_the_pair_that_is_furthest_off() -> None:
    several = schema_of(
        ["topic: a|b", f"wide: {'|'.join(f'v{i}' for i in range(13))}", *(f"n{i}: 0..10 by 1" for i in range(9))]
    )

    def of(shift: float) -> list[dp.Record]:
        return [
            dp.Record(str(i), "text", "ab"[i % 2], kept={f"n{k}": 5 + shift * (k == 2) for k in range(9)})
            for i in range(20)
        ]

    found = means_by_group({"made": of(1), "own": of(0)}, several, label="topic")
    assert [(each.number, each.by) for each in found] == [(f"n{i}", "topic") for i in range(6)]
    assert (
        furthest_means(found, "made", "own") == "The mean of n2 by topic: a 6.00 (5.00 in private rows), b 6.00 (5.00)."
    )


def test_of_many_values_the_furthest_are_named() -> None:
    columns = schema_of(["group: a|b|c|d|e|f", "amount: 0..1000 by 100"])
    far = dict(zip("abcdef", (0, 50, 100, 10, 200, 300), strict=True))
    parts = {
        row: [dp.Record(f"{name}{i}", "", kept={"group": name, "amount": 100 + (more if row == "made" else 0)})
              for name, more in far.items() for i in range(5)]
        for row in ("made", "own")
    }  # fmt: skip
    said = furthest_means(means_by_group(parts, columns), "made", "own")
    named = "b 150 (100 in private rows), c 200 (100), e 300 (100), f 400 (100)"
    assert said == f"The mean of amount by group: {named}; 2 other values are nearer."


def test_what_chance_does_to_as_many_private_rows_is_said() -> None:
    parts = {"made": rows(40, 1), "own": rows(4_000, 2), "few": rows(40, 3)}
    found = means_by_group(parts, COLUMNS[:2])
    off = max(
        abs(one - two) for one, two in zip(found[0].rows["few"], found[0].rows["own"], strict=True) if one and two
    )
    said = furthest_means(found, "made", "own", "few")
    assert said == furthest_means(found, "made", "own") + f" As many private rows are up to {off:.1f} off by chance."
