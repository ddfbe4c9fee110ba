"""Accounts: their names, limits and meaning; the ledger object around them."""

import math
import re
from dataclasses import replace

import pytest
from ledger_tools import KEY, Raw, fresh, limit, opened, request

from dptext.errors import ConfigError, DataError
from dptext.ledger.books import Ledger
from dptext.ledger.requests import Request
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit
from dptext.privacy.names import COMPARED

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


# -------------------------------------------------------------------------------------------- accounts


@pytest.mark.slow_cases("1e-05", "20", "0.1", why="numbers of all digits stay, the smallest and the largest")
@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 1e-300, 1e300, 20, math.nextafter(1.0, 2.0), 5e-324])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1 / 3000, 5e-324])
def test_a_limit_survives_exactly(ledger: Ledger, epsilon: float, delta: float) -> None:
    name = fresh()
    account = ledger.open_account(name, limit(epsilon, delta), dataset=f"set of {name}")
    assert ledger.account(name) == account
    assert (account.limit.epsilon, account.limit.delta) == (epsilon, delta)
    assert (account.name, account.dataset, account.by_subject) == (name, f"set of {name}", False)
    assert TIME.fullmatch(account.opened)
    balance = ledger.balance(name)
    assert (balance.left, balance.spent.epsilon, balance.charges, balance.subjects) == (epsilon, 0.0, 0, 0)
    assert balance.spent.delta == delta


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("unit", [Unit.DOCUMENT, Unit.AUTHOR])
def test_an_account_keeps_its_meaning(ledger: Ledger, unit: Unit, relation: Relation) -> None:
    name = fresh()
    full = Guarantee(
        3.0, 1e-6, unit, relation, trust=Trust.CENTRAL, basis=Basis.CONDITIONAL, assumptions=("a",), reveals=("b",)
    )
    ledger.open_account(name, full, by_subject=True)
    found = ledger.account(name)
    # what charges rest on is theirs to say
    assert found.limit == Guarantee(3.0, 1e-6, unit, relation)
    assert found.by_subject
    assert found in ledger.accounts()
    ledger.charge(name, Request((PureEvent(1.0),), unit, relation))
    spent = ledger.balance(name).spent
    assert spent == Guarantee(spent.epsilon, 1e-6, unit, relation)
    assert 0.9999 < spent.epsilon < 1  # a delta of 1e-6 makes a pure epsilon of 1 a little less


def test_accounts_are_listed_by_name(ledger: Ledger) -> None:
    for name in ("zebra", "Ångström", "apple"):
        ledger.open_account(name, limit())
    names = [account.name for account in ledger.accounts()]
    assert names == sorted(names)
    assert {"zebra", "Ångström", "apple"} <= set(names)


def test_a_name_and_a_dataset_are_taken_once(ledger: Ledger, raw: Raw) -> None:
    name, dataset = fresh(), fresh("dataset")
    ledger.open_account(name, limit(), dataset=dataset)
    before = raw.dump()
    with pytest.raises(ConfigError, match=r"new account, found .* which is there already"):
        ledger.open_account(name, limit(1.0), dataset=fresh("dataset"))
    with pytest.raises(ConfigError, match=f"{name!r} is that of {dataset!r} already, per document"):
        ledger.open_account(fresh(), limit(5.0, 1e-5, relation=Relation.ADD_OR_REMOVE_ONE), dataset=dataset)
    # the dataset of an account without one is its name
    with pytest.raises(ConfigError, match="hide what the first has spent"):
        ledger.open_account(dataset, limit())
    # the author's account counts no document's charges, and the other way round
    with pytest.raises(ConfigError, match="hide what the first has spent"):
        ledger.open_account(fresh(), limit(unit=Unit.AUTHOR), dataset=dataset)
    assert raw.dump() == before


LOOK_ALIKES = [
    ("Mar\u00eda {}", "Mari\u0301a {}"),
    ("Mari\u0301a {}", "Mar\u00eda {}"),
    ("reviews {}", "reviews {} "),
    ("reviews {} ", "reviews {}"),
    ("reviews {}", " reviews {}"),
    ("Reviews {}", "reviews {}"),
    ("stra\u00dfe {}", "STRASSE {}"),
    ("reviews {}", "\uff52eviews {}"),
]


@pytest.mark.parametrize(("one", "other"), LOOK_ALIKES, ids=ascii)
def test_a_name_that_looks_alike_is_refused(ledger: Ledger, raw: Raw, one: str, other: str) -> None:
    number = fresh()
    one, other = one.format(number), other.format(number)
    assert one != other
    ledger.open_account(one, limit())
    before = raw.dump()
    with pytest.raises(ConfigError, match=f"which is there already as {re.escape(repr(one))}: names are {COMPARED}"):
        ledger.open_account(other, limit(), dataset=fresh("dataset"))
    with pytest.raises(ConfigError, match=f"hide what the first has spent; names are {COMPARED}"):
        ledger.open_account(fresh(), limit(unit=Unit.AUTHOR), dataset=other)
    assert raw.dump() == before


OTHER_SCRIPTS = [
    ("people {}", "\u0440\u0435\u043e\u0440\u04cf\u0435 {}"),
    ("\u0440\u0435\u043e\u0440\u04cf\u0435 {}", "people {}"),
    ("BETA {}", "\u0412\u0415\u0422\u0410 {}"),
    ("NOTE {}", "\u039d\u039f\u03a4\u0395 {}"),
    ("\u0441\u043e\u0440 {}", "\u03f2op {}"),
    ("reviews {}", "reviews\ufe0f {}"),
    ("reviews {}", "revi\u034fews {}"),
]


@pytest.mark.parametrize(("one", "other"), OTHER_SCRIPTS, ids=ascii)
def test_a_name_that_looks_like_another_is_refused(ledger: Ledger, raw: Raw, one: str, other: str) -> None:
    number = fresh()
    one, other = one.format(number), other.format(number)
    ledger.open_account(one, limit())
    before = raw.dump()
    for name, dataset in ((other, fresh("dataset")), (fresh(), other)):
        with pytest.raises(ConfigError, match=r"looks like|look alike"):
            ledger.open_account(name, limit(), dataset=dataset)
    assert raw.dump() == before


MIXED = [
    "revi\u0435ws",
    "\u03b1pple",
    "\u0435-mail2\u0435x",
    "re\u0301vi\u0435\u0301ws",
    "\u13a0octor",
    "the \u0430ccount",
]


@pytest.mark.parametrize("name", MIXED, ids=ascii)
def test_a_word_of_two_scripts_is_refused(ledger: Ledger, raw: Raw, name: str) -> None:
    before = raw.dump()
    for given in ({"name": name}, {"name": fresh(), "dataset": name}):
        with pytest.raises(ConfigError, match=r"a word of (Cherokee|Cyrillic|Greek) and Latin letters"):
            ledger.open_account(limit=limit(), **given)
    assert raw.dump() == before


PLAIN = [
    "отзывы",
    "отзывы v2",
    "Γνώμες_2026",
    "東京データv2",
    "Tシャツ",
    "한국어ABC",
    "हिन्दी",
    "שלום",
    "naïve café",
    "über-1",
]


@pytest.mark.parametrize("name", PLAIN, ids=ascii)
def test_a_name_in_any_script_is_opened(ledger: Ledger, name: str) -> None:
    assert ledger.open_account(name, limit()).name == name
    assert ledger.charge(name, request(1.0)).account == name


def test_look_alikes_that_are_there_already_still_work(ledger: Ledger) -> None:
    """Before, they were opened; each keeps its own balance."""
    number = fresh()
    names = [f"Old {number}", f"old {number}", f"old {number} "]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dptext.ledger.statements.normal_form", str)
        patch.setattr("dptext.ledger.statements.look_alike", str.__eq__)
        for name in names:
            ledger.open_account(name, limit(), by_subject=True)
    for n, name in enumerate(names):
        ledger.charge(name, request(1.0 + n), key="run")
        ledger.charge(name, request(1.0), subjects=["anna"])
    assert [ledger.balance(name).spent.epsilon for name in names] == [2.0, 3.0, 4.0]
    assert [ledger.account(name).name for name in names] == names
    assert [ledger.verify(name).problems for name in names] == [()] * 3
    with pytest.raises(ConfigError, match="which is there already"):
        ledger.open_account(f"OLD {number}", limit())


@pytest.mark.parametrize(
    "name",
    ["", "tab\tin", "line\nin", "nul\0in", "\x7f", "\ud800", "half \udfff", "x" * 201, "\u200b", "\u2028"],
    ids=ascii,
)
def test_names_that_cannot_be_printed_are_refused(ledger: Ledger, raw: Raw, name: str) -> None:
    before = raw.dump()
    expected = "to be 1 to 200 printable characters"
    with pytest.raises(ConfigError, match=f"name {expected}"):
        ledger.open_account(name, limit())
    with pytest.raises(ConfigError, match=f"dataset {expected}"):
        ledger.open_account(fresh(), limit(), dataset=name)
    with pytest.raises(ConfigError, match=f"key {expected}"):
        ledger.charge(fresh(), request(1), key=name)
    with pytest.raises(ConfigError, match=f"release {expected}"):
        ledger.settle(fresh(), "key", name)
    assert raw.dump() == before


@pytest.mark.parametrize(
    "name", ["x" * 200, "'; DROP TABLE charges; --", "100% of :name", "Straße 東京 🐘", '"quoted"', "\\"]
)
def test_names_that_can_be_printed_are_taken_as_they_are(ledger: Ledger, name: str) -> None:
    ledger.open_account(name, limit())
    charge = ledger.charge(name, request(1, note=name), key=name)
    ledger.settle(name, name, name)
    assert list(ledger.log(name)) == [replace(charge, release=name)]
    assert ledger.charge(name, request(1, note=name), key=name).number == charge.number


@pytest.mark.parametrize("unit", [Unit.TOKEN, Unit.SENTENCE])
def test_a_budget_is_per_document_or_author(ledger: Ledger, unit: Unit) -> None:
    with pytest.raises(ConfigError, match=f"per document or author, without metric, found {unit.value}"):
        ledger.open_account(fresh(), limit(unit=unit))


def test_a_limit_is_a_finite_number_without_metric(ledger: Ledger, raw: Raw) -> None:
    before = raw.dump()
    with pytest.raises(ConfigError, match="without metric, found document, metric angle"):
        ledger.open_account(fresh(), replace(limit(), metric="angle"))
    with pytest.raises(ConfigError, match=r"Expected epsilon=0\.0 > 0"):
        ledger.open_account(fresh(), limit(0.0))
    with pytest.raises(ConfigError, match="Expected a limit per document or author"):
        ledger.open_account(fresh(), limit().voided("seeded"))
    for epsilon in (math.inf, math.nan, -1.0):
        with pytest.raises(ConfigError, match="epsilon"):
            ledger.open_account(fresh(), limit(epsilon))
    assert raw.dump() == before


def test_a_limit_that_protects_nobody_is_refused(ledger: Ledger) -> None:
    with pytest.raises(ConfigError, match="delta"):
        ledger.open_account(fresh(), limit(1.0, 1.0))


def test_an_account_that_is_not_there(ledger: Ledger) -> None:
    calls = [
        lambda: ledger.account("nobody"),
        lambda: ledger.balance("nobody"),
        lambda: ledger.balance("nobody", subject="someone"),
        lambda: ledger.verify("nobody"),
        lambda: list(ledger.log("nobody")),
        lambda: ledger.charge("nobody", request(1)),
        lambda: ledger.charge("nobody", request(1), subjects=["someone"]),
        lambda: ledger.settle("nobody", "key", "release"),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="There is no account 'nobody' in this ledger"):
            call()


# ----------------------------------------------------------------------------------------------- rest


def test_another_process_sees_the_same_books(ledger: Ledger, location: str) -> None:
    name = opened(ledger, by_subject=True)
    ledger.charge(name, request(0.5), key="all")
    ledger.charge(name, request(0.5), subjects=["anna"])
    again = Ledger.create(location, key=KEY)  # leaves what is there
    assert again.balance(name) == ledger.balance(name)
    assert list(again.log(name)) == list(ledger.log(name))
    assert again.upgrade() is False
    again.close()
    assert again.balance(name, subject="anna") == ledger.balance(name, subject="anna")  # opened again by itself
    again.close()


def test_a_ledger_shows_where_it_lies_and_no_password(ledger: Ledger, location: str, raw: Raw) -> None:
    shown = f"{ledger!r} {ledger.name}"
    if raw.is_postgresql:
        password = location.partition("//dptext:")[2].partition("@")[0]
        assert password
        assert password not in shown
        assert "postgresql+psycopg://dptext@127.0.0.1" in shown
        assert ledger.path is None
    else:
        assert ledger.name == location == str(ledger.path)
    assert KEY.secret.hex() not in shown


def test_a_failing_source_of_subjects_charges_nothing(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, by_subject=True)

    def broken():
        yield from (f"subject {n}" for n in range(1500))
        raise DataError("record 1501 of FILE cannot be read")

    before = raw.dump()
    with pytest.raises(DataError, match="record 1501"):
        ledger.charge(name, request(0.5), key="run", subjects=broken())
    assert raw.dump() == before
    assert ledger.charge(name, request(0.5), key="run", subjects=["anna"]).subjects == 1
