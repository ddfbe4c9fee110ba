"""Named subjects: who pays for what, and that the books do not say who they are."""

import base64
import contextlib
import hashlib
import itertools
import secrets
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ledger_tools import KEY, OTHER_KEY, Raw, charged_epsilon, opened, request

from dptext.errors import BudgetExceededError, ConfigError, DataError, PrivacyError
from dptext.ledger.books import Ledger
from dptext.ledger.entries import TOLERANCE
from dptext.ledger.subjects import Naming, SubjectKey, create_subject_key, read_subject_key
from dptext.privacy import accounting
from dptext.privacy.events import (
    ApproximateEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    PureEvent,
    ZcdpEvent,
)
from dptext.privacy.names import normal_form
from examples import few_examples


def spent(ledger: Ledger, account: str, *subjects: str | None) -> list[float]:
    return [ledger.balance(account, subject=subject).spent.epsilon for subject in subjects]


# ----------------------------------------------------------------------------------------- composition


def test_different_subjects_do_not_add_up_and_the_same_one_does(ledger: Ledger) -> None:
    name = opened(ledger, by_subject=True)
    ledger.charge(name, request(1.0), subjects=["anna", "bert"])
    ledger.charge(name, request(2.0), subjects=["carl"])
    assert spent(ledger, name, "anna", "bert", "carl", "dora", None) == [1.0, 1.0, 2.0, 0.0, 2.0]
    ledger.charge(name, request(4.0), subjects=["bert", "dora"])
    assert spent(ledger, name, "anna", "bert", "carl", "dora", None) == [1.0, 5.0, 2.0, 4.0, 5.0]
    balance = ledger.balance(name)
    assert (balance.charges, balance.subjects, balance.left) == (3, 4, 5.0)
    assert ledger.balance(name, subject="anna").left == 9.0


def test_a_charge_to_everyone_counts_for_all_before_and_after(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, by_subject=True)
    ledger.charge(name, request(1.0), subjects=["anna"])
    ledger.charge(name, request(2.0))
    ledger.charge(name, request(4.0), subjects=["bert"])
    assert spent(ledger, name, "anna", "bert", "nobody yet", None) == [3.0, 6.0, 2.0, 6.0]
    before = raw.dump()
    # 6 + 5 is too much for bert, so it is too much for everyone
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge(name, request(5.0))
    assert (caught.value.left, caught.value.gap) == (4.0, 1.0)
    assert raw.dump() == before
    ledger.charge(name, request(5.0), subjects=["anna", "carl"])
    assert spent(ledger, name, "anna", "bert", "carl", "nobody yet", None) == [8.0, 6.0, 7.0, 2.0, 8.0]
    assert ledger.balance(name).subjects == 3
    assert ledger.verify(name).problems == ()


@pytest.mark.parametrize("subjects", [None, ["anna", "bert"]], ids=["everyone", "named"])
def test_what_is_weighed_is_what_would_be_charged_of_each(ledger: Ledger, subjects: list[str] | None) -> None:
    """Most was spent of anna; but as her noise adds up slowly, bert is the one who cannot pay for more of it."""
    noise = GaussianEvent(2.0)
    own = {"anna": (noise, noise, noise, noise), "bert": (PureEvent(4.0),)}
    before = {name: charged_epsilon(events, 1e-5) for name, events in own.items()}
    asked = request(noise)
    after = {name: charged_epsilon((*events, noise), 1e-5) for name, events in own.items()}
    assert before["anna"] > before["bert"]
    assert after["anna"] < after["bert"]
    for epsilon, pays in ((after["bert"] * 1.0001, True), ((after["anna"] + after["bert"]) / 2, False)):
        name = opened(ledger, epsilon, 1e-5, by_subject=True)
        for subject, events in own.items():
            ledger.charge(name, request(*events), subjects=[subject])
        for ask in (ledger.weigh, ledger.charge):
            with contextlib.nullcontext() if pays else pytest.raises(BudgetExceededError):
                ask(name, asked, subjects=subjects)


def test_one_who_cannot_pay_stops_the_run(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, 2.0, by_subject=True)
    ledger.charge(name, request(1.5), subjects=["anna"])
    before = raw.dump()
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge(name, request(1.0), subjects=["bert", "anna", "carl"])
    assert (caught.value.asked, caught.value.left, caught.value.gap) == (1.0, 0.5, 0.5)
    assert raw.dump() == before
    ledger.charge(name, request(1.0), subjects=["bert", "carl"])
    assert spent(ledger, name, "anna", "bert", "carl") == [1.5, 1.0, 1.0]


def test_subjects_move_in_chains_in_one_charge(ledger: Ledger, raw: Raw) -> None:
    """Where one goes from A to B while another goes from B to C, nobody may be moved twice."""
    name = opened(ledger, 100.0, by_subject=True)
    names = [f"chain {n}" for n in range(6)]
    for n in range(1, 6):
        ledger.charge(name, request(1.0), subjects=names[n:])
    expected = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert spent(ledger, name, *names) == expected
    for _ in range(3):
        ledger.charge(name, request(1.0), subjects=reversed(names))
        expected = [epsilon + 1 for epsilon in expected]
        assert spent(ledger, name, *names) == expected
    # and backwards through standings that other subjects have left
    ledger.charge(name, request(1.0), subjects=names[:3])
    ledger.charge(name, request(1.0), subjects=[names[5], "new"])
    assert spent(ledger, name, *names, "new") == [4.0, 5.0, 6.0, 6.0, 7.0, 9.0, 1.0]
    assert ledger.verify(name).problems == ()
    kept = raw.one(
        "SELECT COUNT(*) FROM subject_balances s JOIN accounts a ON a.id = s.account_id WHERE a.name = :name", name=name
    )
    assert kept == ledger.balance(name).subjects == 7


def test_nobody_pays_for_a_run_without_subjects(ledger: Ledger) -> None:
    name = opened(ledger, 1.0, by_subject=True)
    charge = ledger.charge(name, request(0.5), subjects=[])
    assert charge.subjects == 0
    balance = ledger.balance(name)
    assert (balance.spent.epsilon, balance.charges, balance.subjects) == (0.0, 1, 0)
    assert ledger.verify(name).problems == ()


@dataclass
class Model:
    """The books as a naive person keeps them: every event of every subject in a list."""

    whole: float
    delta: float
    everyone: list[Event] = field(default_factory=list)
    own: dict[str, list[Event]] = field(default_factory=dict)
    charges: int = 0

    def cost(self, subject: str, *more: Event) -> float:
        return charged_epsilon([*self.everyone, *self.own.get(subject, []), *more], self.delta)

    def charge(self, events: list[Event], subjects: list[str] | None) -> bool:
        charged = [*self.own, "somebody else"] if subjects is None else subjects
        if any(self.cost(subject, *events) > self.whole + TOLERANCE for subject in charged):
            return False
        self.charges += 1
        if subjects is None:
            self.everyone += events
        else:
            for subject in set(subjects):
                self.own.setdefault(subject, []).extend(events)
        return True


NAMES = ["anna", "bert", "carl", "dora", ""]
epsilons = st.sampled_from([0.1, 0.25, 0.5, 1.0])
kinds = st.one_of(
    st.builds(PureEvent, epsilons, st.integers(1, 2)),
    st.builds(ExponentialEvent, epsilons, st.just(100)),
    st.builds(GaussianEvent, st.sampled_from([4.0, 8.0])),
    st.builds(ZcdpEvent, st.just(0.01)),
    st.builds(ApproximateEvent, epsilons, st.sampled_from([0.0, 2e-6])),
)
steps = st.lists(
    st.tuples(
        st.lists(kinds, min_size=1, max_size=2),
        st.one_of(st.none(), st.lists(st.sampled_from(NAMES), max_size=5), st.just(NAMES)),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=10,
)


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
@few_examples
@given(steps, st.sampled_from([0.0, 1e-5]))
@example([([PureEvent(0.5)], NAMES[:n], 1) for n in range(1, 6)] * 2, 0.0)
@example([([PureEvent(1.0)], ["anna", "anna"], 2), ([PureEvent(1.0)], None, 1), ([PureEvent(0.5)], ["anna"], 1)], 0.0)
def test_the_books_are_those_of_a_naive_person(ledger: Ledger, sequence, delta: float) -> None:
    name = opened(ledger, 3.0, delta, by_subject=True)
    model = Model(3.0, delta)
    for events, subjects, units in sequence:
        asked = request(*events, units=units)
        if subjects and max(Counter(subjects).values()) > units:
            with pytest.raises(DataError):
                ledger.charge(name, asked, subjects=subjects)
        elif model.charge(events, subjects):
            made = ledger.charge(name, asked, subjects=subjects)
            assert made.subjects == (None if subjects is None else len(set(subjects)))
        else:
            with pytest.raises(BudgetExceededError):
                ledger.charge(name, asked, subjects=subjects)
        balance = ledger.balance(name)
        assert (balance.charges, balance.subjects) == (model.charges, len(model.own))
        assert balance.spent.epsilon == max(model.cost(subject) for subject in [*NAMES, "somebody else"])
    everybody = [*NAMES, "somebody else"]
    assert spent(ledger, name, *everybody) == [model.cost(subject) for subject in everybody]
    found = ledger.verify(name)
    assert (found.problems, found.charges, found.subjects) == ((), model.charges, len(model.own))


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
def test_more_subjects_than_a_page(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, by_subject=True)
    crowd = [f"subject {n}" for n in range(2345)]
    first = ledger.charge(name, request(1.0, units=2), key="run", subjects=iter([*crowd, *crowd[:500]]))
    assert first.subjects == 2345
    assert ledger.charge(name, request(1.0, units=2), key="run", subjects=[*crowd, *crowd[:500]]) == first
    before = raw.dump()
    # the two of one subject lie on different pages
    with pytest.raises(DataError, match="at most 1 record of each subject in the run, found 2 of one") as caught:
        ledger.charge(name, request(1.0), subjects=[*crowd, "subject 7"])
    assert "subject 7" not in str(caught.value)
    with pytest.raises(PrivacyError):
        ledger.charge(name, request(1.0, units=2), key="run", subjects=[*crowd[::-1], *crowd[:500]])
    assert raw.dump() == before
    ledger.charge(name, request(2.0), subjects=crowd[1000:2001])
    assert spent(ledger, name, *crowd[999:1001], *crowd[2000:2002]) == [1.0, 3.0, 3.0, 1.0]
    found = ledger.verify(name)
    assert (found.problems, found.subjects, ledger.balance(name).subjects) == ((), 2345, 2345)


def test_a_subject_has_no_more_units_than_the_request_says(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, by_subject=True)
    before = raw.dump()
    for units, subjects in ((1, ["anna", "bert", "anna"]), (2, ["anna"] * 3), (3, ["bert", *["anna"] * 4])):
        with pytest.raises(DataError, match=f"at most {units} records? of each subject .* found {units + 1} of one"):
            ledger.charge(name, request(1.0, units=units), key="run", subjects=subjects)
    assert raw.dump() == before
    # the events of the request count them already
    assert ledger.charge(name, request(1.0, units=3), key="run", subjects=["anna"] * 3).subjects == 1
    assert spent(ledger, name, "anna") == [1.0]


#: Spellings of seven names; those of one line are one name in normal form.
ALIKE = [
    ("", " ", "\u2003\t"),
    ("Anna", "anna", "anna ", " ANNA"),
    ("Mar\u00eda", "Mari\u0301a", "MARI\u0301A "),
    ("Stra\u00dfe", "strasse", "STRASSE"),
    ("\uff34\uff45\uff53\uff54", "test"),
    ("a\0b", "A\0B"),
    ("\ud800", " \ud800"),
    ("東京",),
    ("x" * 100_000, "X" * 100_000),
]


@pytest.mark.slow_cases("postgresql", why="names are compared alike on SQLite, which stays")
def test_names_are_compared_in_normal_form(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, 1000.0, by_subject=True)
    for n, spellings in enumerate(ALIKE):
        for spelling in spellings:
            ledger.charge(name, request(1 + n / 100), subjects=[spelling])
    expected = [accounting.epsilon([PureEvent(1 + n / 100)] * len(alike)) for n, alike in enumerate(ALIKE)]
    for epsilon, spellings in zip(expected, ALIKE, strict=True):
        assert spent(ledger, name, *spellings) == [epsilon] * len(spellings)
    assert ledger.balance(name).subjects == len(ALIKE)
    assert ledger.verify(name).problems == ()


def test_units_are_counted_in_normal_form(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, by_subject=True)
    before = raw.dump()
    for spellings in ALIKE[:6]:
        with pytest.raises(DataError, match="at most 1 record of each subject in the run, found 2 of one"):
            ledger.charge(name, request(1.0), key="run", subjects=spellings[:2])
    assert raw.dump() == before
    assert ledger.charge(name, request(1.0, units=4), key="run", subjects=ALIKE[1]).subjects == 1
    # the same subjects in another spelling are the same run
    assert ledger.charge(name, request(1.0, units=4), key="run", subjects=["ANNA"] * 4).subjects == 1
    assert spent(ledger, name, "anna") == [1.0]


def test_a_name_has_the_hash_that_it_had(ledger: Ledger) -> None:
    """Under another hash a subject that spent everything would look new."""
    assert KEY.check("reviews").hex() == "c270e1802207bb60d85893d6efe3b75602ea1c608b4b7cb9280afce18632e78a"
    naming = Naming(KEY, "reviews")
    assert naming.hash("Anna ").hex() == "77a3ae58d8ccd616d519b3077e5a69e87ad2df4820a5ed91fd477cf8fafc480f"


def test_one_name_is_not_a_list_of_letters(ledger: Ledger) -> None:
    name = opened(ledger, by_subject=True)
    with pytest.raises(ConfigError):
        ledger.charge(name, request(1.0, units=9), subjects="anna")


# --------------------------------------------------------------------------------------------- privacy


def forms(text: str) -> Iterator[bytes]:
    """How a text may stand in a file: as it is, or as what anyone can compute from it."""
    for data in (text.encode(), text.encode("utf-16-le"), text.lower().encode()):
        yield data
        for algorithm in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s", "sha3_256"):
            yield hashlib.new(algorithm, data).digest()


def written(form: bytes) -> Iterator[bytes]:
    yield form
    yield form.hex().encode()
    yield form.hex().upper().encode()
    yield base64.b64encode(form).rstrip(b"=")
    yield base64.urlsafe_b64encode(form).rstrip(b"=")


def everything_in(raw: Raw) -> bytes:
    """All bytes of the files of SQLite, with what is not checkpointed; every value of every row of PostgreSQL."""
    if not raw.is_postgresql:
        return b"\n".join(path.read_bytes() for path in sorted(Path(raw.location).parent.iterdir()))
    values = itertools.chain.from_iterable(itertools.chain.from_iterable(raw.dump().values()))
    return b"\n".join(bytes(v) if isinstance(v, bytes | memoryview) else str(v).encode() for v in values)


def test_no_name_and_no_public_hash_of_one_is_in_the_database(new_location) -> None:
    location = new_location()
    ledger, raw = Ledger.create(location, key=KEY), Raw(location)
    name = opened(ledger, 2.0, by_subject=True)
    charged = ["Wilhelmina Sauerbier", "wilhelmina@sauerbier.example", "patient-0815", "I cannot sleep since June."]
    ledger.charge(name, request(1.0), subjects=charged)
    ledger.charge(name, request(0.5), key="again", subjects=charged[::2])
    ledger.charge(name, request(0.5), key="again", subjects=charged[::2])
    refused = ["Balthasar Unbezahlt", "Xaver Zuviel"]
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge(name, request(1.75), subjects=[refused[0], charged[0]])
    with pytest.raises(DataError) as doubled:
        ledger.charge(name, request(0.1), subjects=[refused[1], refused[1]])
    ledger.balance(name, subject="Never Charged")
    found = everything_in(raw)
    for subject in itertools.chain.from_iterable((s, normal_form(s)) for s in [*charged, *refused, "Never Charged"]):
        assert subject not in f"{caught.value} {doubled.value} {list(ledger.log(name))} {ledger.balance(name)}"
        for form in forms(subject):
            assert not any(one in found for one in written(form)), subject
    # the search sees what is there: the hashes under the key, and the name of the account
    assert name.encode() in found
    for subject in charged:
        assert Naming(KEY, name).hash(subject) in found
    # the key is not, in any form; and what it is checked by tells nothing without it
    assert not any(one in found for form in forms(KEY.secret.hex()) for one in written(form))
    assert not any(one in found for one in written(KEY.secret))
    assert KEY.check(name) in found
    ledger.close()


def test_a_subject_has_another_hash_in_every_account(ledger: Ledger, raw: Raw) -> None:
    names = [opened(ledger, by_subject=True) for _ in range(2)]
    for name in names:
        ledger.charge(name, request(1.0), subjects=["anna", "bert"])
    first, second = (
        {
            bytes(subject)
            for (subject,) in raw.rows(
                "SELECT s.subject FROM charged_subjects s JOIN charges c ON c.id = s.charge_id "
                "JOIN accounts a ON a.id = c.account_id WHERE a.name = :name",
                name=name,
            )
        }
        for name in names
    )
    assert len(first) == len(second) == 2
    assert not first & second


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), min_size=2, max_size=2, unique=True))
@example([("a", "bc"), ("ab", "c")])
@example([("a\0", "b"), ("a", "\0b")])
@example([("1\0a", "b"), ("1", "a\0b")])
def test_hashes_are_those_of_account_and_name(pairs: list[tuple[str, str]]) -> None:
    hashes = [KEY.hash(account, name) for account, name in pairs]
    checks = [KEY.check(account) for account, _ in pairs]
    assert len({*hashes, *checks}) == 2 + len({account for account, _ in pairs})
    assert hashes != [OTHER_KEY.hash(account, name) for account, name in pairs]
    assert hashes == [SubjectKey(KEY.secret).hash(account, name) for account, name in pairs]


# ------------------------------------------------------------------------------------------------ keys


def test_without_its_key_no_subject_is_charged(ledger: Ledger, location: str, raw: Raw) -> None:
    name, plain = opened(ledger, by_subject=True), opened(ledger)
    ledger.charge(name, request(1.0), key="run", subjects=["anna"])
    before = raw.dump()
    keyless, wrong = Ledger.at(location), Ledger.at(location, key=OTHER_KEY)
    for subjects in (["anna"], []):
        with pytest.raises(ConfigError, match=r"Expected the subject key .* --subject-key"):
            keyless.charge(name, request(1.0), subjects=subjects)
        with pytest.raises(ConfigError, match="found another: under it every subject would look new"):
            wrong.charge(name, request(1.0), subjects=subjects)
        with pytest.raises(ConfigError, match=f"account {plain!r} to be opened for charges to named subjects"):
            ledger.charge(plain, request(1.0), subjects=subjects)
    with pytest.raises(ConfigError, match="found another"):
        wrong.charge(name, request(1.0), key="run", subjects=["anna"])
    for other in (keyless, wrong):
        with pytest.raises(ConfigError, match="subject key"):
            other.balance(name, subject="anna")
    with pytest.raises(ConfigError, match="to be opened for charges to named subjects"):
        ledger.balance(plain, subject="anna")
    with pytest.raises(ConfigError, match="Expected the subject key"):
        keyless.open_account(f"another {name}", ledger.account(name).limit, by_subject=True)
    assert raw.dump() == before
    # what speaks of nobody needs no key
    assert keyless.balance(name) == ledger.balance(name)
    assert keyless.verify(name).problems == ()
    assert keyless.charge(name, request(1.0)).subjects is None
    # an account opened under another key is that key's
    mine = opened(wrong, by_subject=True)
    assert wrong.charge(mine, request(1.0), subjects=["anna"]).subjects == 1
    with pytest.raises(ConfigError, match="found another"):
        ledger.charge(mine, request(1.0), subjects=["anna"])
    keyless.close()
    wrong.close()


def test_a_key_file_is_made_once_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "subject.key"
    key = create_subject_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = path.read_bytes()
    assert bytes.fromhex(written.decode()) == key.secret
    assert len(key.secret) == 32
    assert create_subject_key(path) == read_subject_key(path) == key
    assert path.read_bytes() == written
    assert [each.name for each in tmp_path.iterdir()] == ["subject.key"]
    assert create_subject_key(tmp_path / "other.key") != key


def test_of_two_that_make_a_key_at_once_both_get_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "subject.key"
    drawn = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda n: create_first() and drawn(n))

    def create_first() -> bool:
        monkeypatch.setattr(secrets, "token_bytes", drawn)
        first.append(create_subject_key(path))
        return True

    first: list[SubjectKey] = []
    assert create_subject_key(path) == first[0] == read_subject_key(path)
    assert [each.name for each in tmp_path.iterdir()] == ["subject.key"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"ab" * 31, b"ab" * 33, b"zz" * 32, "é".encode() * 32, b"\xff" * 64, b"ab" * 32 + b"\nab", b"\0" * 32],
)
def test_a_file_that_holds_no_key_is_refused_and_left(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "subject.key"
    path.write_bytes(content)
    for use in (read_subject_key, create_subject_key):
        with pytest.raises(ConfigError, match=r"subject\.key to hold a subject key: 64 hexadecimal digits\.$"):
            use(path)
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["subject.key"]


def test_a_key_file_that_is_not_there_or_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Expected the subject key of the account in .*No such file.*bring the file"):
        read_subject_key(tmp_path / "absent.key")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_subject_key(tmp_path)
    with pytest.raises(ConfigError, match=r"Cannot write .*No such file or directory"):
        create_subject_key(tmp_path / "absent" / "subject.key")
    assert list(tmp_path.iterdir()) == []


def test_a_key_hides_its_secret() -> None:
    assert repr(KEY) == str(KEY) == "SubjectKey()"
    assert KEY.secret.hex() not in f"{KEY!r} {Ledger.at('/absent/budget.db', key=KEY)!r}"
    for size in (0, 16, 31, 33, 64):
        with pytest.raises(ConfigError, match=r"Expected a subject key of 32 bytes\.$"):
            SubjectKey(b"k" * size)
    assert replace(KEY, secret=OTHER_KEY.secret) == OTHER_KEY
