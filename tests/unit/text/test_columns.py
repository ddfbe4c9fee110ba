"""Records and releases as columns say the same as one object a record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record, Release

names = st.text(max_size=5)
records = st.lists(
    st.builds(
        Record,
        names,
        names,
        st.none() | names,
        st.none() | names,
        subject=st.none() | names,
        kept=st.dictionaries(names, st.integers()),
    ),
    max_size=6,
)


@given(records)
def test_a_batch_is_the_records(given: list[Record]) -> None:
    batch = Batch.of(given)
    assert list(batch) == given
    assert [batch[i] for i in range(len(batch))] == given
    assert list(batch[1:4]) == given[1:4]
    assert Batch.of(batch) is batch


@given(records, st.booleans(), st.booleans())
def test_releases_are_what_one_object_a_record_says(given: list[Record], labelled: bool, embedded: bool) -> None:
    vectors = np.arange(2.0 * len(given)).reshape(-1, 2)
    found = Batch.of(given).released(
        [record.text.upper() for record in given],
        labels=[record.label for record in given] if labelled else None,
        vectors=vectors if embedded else None,
    )
    wanted = [
        Release(
            record.id,
            record.text.upper(),
            record.label if labelled else None,
            record.kept,
            vector=tuple(vectors[i].tolist()) if embedded else None,
        )
        for i, record in enumerate(given)
    ]
    assert list(found) == wanted
    assert [found[i] for i in range(len(found))] == wanted
    assert list(found[1:3]) == wanted[1:3]


def test_columns_have_one_length_and_show_nothing() -> None:
    batch = Batch.of([Record("a", "private", "hidden"), Record("b", "text")])
    assert repr(batch) == "Batch(2 records)"
    assert repr(batch.released(["x", "y"])) == "Releases(2 releases)"
    for columns in ({"texts": ["x"]}, {"labels": ["x"]}):
        with pytest.raises(ConfigError, match="2 records"):
            batch.released(**columns)
    with pytest.raises(AttributeError):
        batch.texts = ["other"]
    assert list(batch.released()) == [Release("a", ""), Release("b", "")]
    assert isinstance(batch.released()[:1], Releases)
