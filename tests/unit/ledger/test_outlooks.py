"""What an account can still pay, against charges that are made one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

import dptext as dp
from dptext.errors import BudgetExceededError, ConfigError
from dptext.ledger.outlooks import MOST_COUNTED, Outlook
from dptext.ledger.requests import Request
from dptext.ledger.subjects import create_subject_key
from dptext.privacy import accounting
from dptext.privacy.events import ApproximateEvent, Event, GaussianEvent, PureEvent, ZcdpEvent

DELTA = 1e-5


def limit(epsilon: float = 3.0, delta: float = DELTA) -> dp.Guarantee:
    return dp.Guarantee(epsilon, delta, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)


def corpus(epsilon: float) -> ZcdpEvent:
    return accounting.calibrate(ZcdpEvent(1.0), epsilon, delta=DELTA)


@pytest.mark.parametrize(
    ("delta", "asked"),
    [
        (0.0, PureEvent(0.7)),
        (DELTA, PureEvent(0.7)),
        (DELTA, GaussianEvent(6.0)),
        (DELTA, corpus(1.0)),
        (DELTA, ApproximateEvent(0.1, 2e-6)),
    ],
)
@pytest.mark.parametrize("by_name", [False, True])
def test_the_account_pays_as_often_as_it_says_and_what_it_says(
    delta: float, asked: Event, by_name: bool, tmp_path: Path
) -> None:
    books = dp.Ledger.create(tmp_path / "books.db", key=create_subject_key(tmp_path / "key"))
    books.open_account("notes", limit(delta=delta), by_subject=True)
    one = Request((asked,), dp.Unit.DOCUMENT)
    if by_name:
        books.charge("notes", Request((PureEvent(0.5),), dp.Unit.DOCUMENT), subjects=["a", "b"])
    left = books.outlook("notes").room((asked,))
    assert left > 1
    for n in range(left, 0, -1):
        outlook = books.outlook("notes")
        assert outlook.room((asked,)) == n
        books.charge("notes", one)
        assert outlook.spent((asked,)) == books.balance("notes").spent.epsilon
    assert books.outlook("notes").room((asked,)) == 0
    with pytest.raises(BudgetExceededError):
        books.charge("notes", one)


def test_many_charges_are_not_counted() -> None:
    assert Outlook(limit(), ((),)).room([PureEvent(1e-6)]) == MOST_COUNTED


@pytest.mark.parametrize("before", [(), (PureEvent(0.3), corpus(0.5))])
@pytest.mark.parametrize("made", [PureEvent, corpus])
@pytest.mark.parametrize("releases", [1, 3, 20])
def test_the_largest_epsilon_fits_so_often_and_a_thousandth_more_does_not(
    before: tuple[Event, ...], made: type[PureEvent], releases: int
) -> None:
    outlook = Outlook(limit(), (before,))
    largest = outlook.largest(made, releases)
    assert outlook.room([made(largest)]) >= releases
    assert outlook.room([made(largest + 0.001)]) < releases


def test_the_numbers_of_the_guide() -> None:
    outlook = Outlook(limit(), ((),))
    assert (outlook.largest(corpus, 3), outlook.largest(PureEvent, 3)) == (1.63, 1.0)
    assert outlook.room([corpus(1.0)]) == 7
    assert Outlook(limit(delta=0.0), ((PureEvent(3.0),),)).largest(PureEvent, 1) == 0
    with pytest.raises(ConfigError):
        outlook.largest(PureEvent, 0)


def test_own_deltas_add_up_and_the_delta_of_corpora_does_not() -> None:
    assert Outlook(limit(), ((),)).room([ApproximateEvent(0.01, 4e-6)]) == 2
    assert Outlook(limit(), ((),)).room([corpus(0.1)]) > 100
