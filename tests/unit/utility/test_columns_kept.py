"""Columns of written rows against real ones: distances by one column and by two, and what texts tell of columns."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.text.declarations import schema_of
from dptext.utility.columns import cells_of, columns_kept, independent

COLUMNS = schema_of(["topic: health|travel", "stars: 1..5 by 1", "where?: north|south"])


def rows(n: int, seed: int) -> list[dp.Record]:
    """Rows whose stars follow the topic; `where` follows nothing."""
    rng, found = random.Random(seed), []
    texts = {"health": "the doctor and the nurse", "travel": "the train and the hotel"}
    for i in range(n):
        topic = rng.choice([*texts])
        stars = rng.choice([1, 2]) if topic == "health" else 5
        kept = {"stars": str(stars), "where": rng.choice(["north", "south", None])}
        found.append(dp.Record(str(i), f"{texts[topic]} {rng.random()}", topic, kept=kept))
    return found


def shares(values: list[tuple[object, ...]]) -> dict[tuple[object, ...], float]:
    return {each: values.count(each) / len(values) for each in set(values)}


def test_distances_are_those_of_the_shares_of_values() -> None:
    one, other = rows(300, 1), rows(200, 2)
    cells = [cells_of(records, COLUMNS, label="topic") for records in (one, other)]
    found = columns_kept(cells[0], cells[1], COLUMNS)

    def value(record: dp.Record, name: str) -> object:
        return record.label if name == "topic" else record.kept[name]

    names_of = [c.name for c in COLUMNS]
    each = [((name,), found.one) for name in names_of]
    each += [(pair, found.two) for pair in itertools.combinations(names_of, 2)]
    for names, of in each:
        both = [
            shares([tuple(value(record, name) for name in names) for record in records]) for records in (one, other)
        ]
        apart = sum(abs(both[0].get(own, 0) - both[1].get(own, 0)) for own in {*both[0], *both[1]}) / 2
        assert of["+".join(names)] == pytest.approx(apart)
    assert dict(found.cells())["columns_tv"] == pytest.approx(np.mean([*found.one.values()]))


def test_the_same_rows_are_no_distance_apart_and_shuffled_columns_lose_relations_alone() -> None:
    cells = cells_of(rows(2_000, 1), COLUMNS, label="topic")
    assert {*columns_kept(cells, cells, COLUMNS).two.values()} == {0.0}
    found = columns_kept(independent(cells, 1), cells, COLUMNS)
    assert {*found.one.values()} == {0.0}
    assert found.two["topic+stars"] > 0.45
    assert found.two["topic+where"] < 0.05


def test_a_column_is_told_from_texts_as_far_as_they_tell_it() -> None:
    made, real = rows(300, 3), rows(200, 4)
    found = columns_kept(
        *(cells_of(records, COLUMNS, label="topic") for records in (made, real)), COLUMNS,
        texts=[each.text for each in made], real_records=real,
    ).by_text  # fmt: skip
    assert [*found] == ["topic", "where"]  # stars are numbers
    assert found["topic"].value == 1
    assert found["where"].high < 0.6


@pytest.mark.parametrize("declared", [[], ["row: id"]])
def test_nothing_to_compare_is_refused(declared: list[str]) -> None:
    cells = np.zeros((3, len(declared)), np.int64)
    with pytest.raises(ConfigError, match="at least one column"):
        columns_kept(cells, cells, schema_of(declared))
    with pytest.raises(ConfigError, match="found 0 and 3"):
        columns_kept(np.zeros((0, 3), np.int64), np.zeros((3, 3), np.int64), COLUMNS)
