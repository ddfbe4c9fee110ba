"""Runs that a ledger pays for are killed and gone on with: each pays once, and releases once."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_processes import (
    RECORDS,
    SUBJECT_KEY,
    Children,
    limit,
    word_metric,
)

from dptext.errors import ConfigError, PrivacyError
from dptext.ledger.books import Ledger
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.payment import Payment
from dptext.runs.plan import Plan
from dptext.text.files import sha256_of
from dptext.text.records import Fields


@pytest.fixture
def location(new_ledger: Callable[[], str]) -> str:
    return new_ledger()


@pytest.fixture
def ledger(location: str) -> Iterator[Ledger]:
    found = Ledger.create(location, key=SUBJECT_KEY)
    for name in ("everyone", "subjects"):
        found.open_account(name, limit(1e6), by_subject=True)
    yield found
    found.close()


def require_whole(target: Path, ledger: Ledger) -> Certificate:
    """The output is there with its certificate and nothing else; its charge is settled with it."""
    assert sorted(path.name for path in target.parent.iterdir()) == [target.name, certificate_path(target).name]
    certificate = Certificate.from_json(certificate_path(target).read_text("utf-8"))
    certificate.check_file(target.parent)
    rows = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(RECORDS)]
    assert certificate.records == RECORDS
    assert certificate.charged is not None
    (paid,) = (each for each in ledger.log(certificate.charged.account) if each.number == certificate.charged.number)
    assert paid.release == certificate.sha256 == sha256_of(target)
    assert paid.subjects == (RECORDS if certificate.charged.by_subject else None)
    return certificate


def targets_in(folder: Path, names: list[str]) -> list[Path]:
    for name in names:
        (folder / name).mkdir()
    return [folder / name / f"{name}.jsonl" for name in names]


@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
@pytest.mark.slow_cases("True", why="each step is the same without a key; runs with one key stay below")
@pytest.mark.parametrize("with_key", [False, True])
def test_death_at_each_moment_of_a_run(
    location: str,
    ledger: Ledger,
    source: Path,
    vectors: Path,
    tmp_path: Path,
    children: Children,
    with_key: bool,
) -> None:
    moments = ["charging", "charged", "drawing", "settling", "settled"]
    targets = dict(zip(moments, targets_in(tmp_path, moments), strict=True))
    ledger.close()
    told = children.do(
        "crash_run",
        location=location,
        account="everyone",
        source=str(source),
        targets={name: str(path) for name, path in targets.items()},
        vectors=str(vectors),
        key="key" if with_key else None,
    )
    assert {name: len(each["found"]) for name, each in told.items()} == dict.fromkeys(moments, 1) | {"charging": 0}
    assert {name for name, each in told.items() if any(release for _, release in each["found"])} == {"settled"}
    assert {each["how"] for each in told.values()} == {"resumed"}
    for name, target in targets.items():
        assert target.name not in told[name]["files"]
        assert certificate_path(target).name not in told[name]["files"]
        require_whole(target, ledger)
    assert told["settled"]["found"][0][1] == sha256_of(targets["settled"])
    log = list(ledger.log("everyone"))
    assert len(log) == len({each.release for each in log}) == len(moments)
    if with_key:
        assert [each.key for each in log] == [f"key {name}" for name in moments]
    assert ledger.verify("everyone").problems == ()


@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
@pytest.mark.parametrize("kills", [10, *(pytest.param(kills, marks=pytest.mark.slow) for kills in (30, 200))])
def test_runs_that_are_killed_pay_once(
    location: str,
    ledger: Ledger,
    source: Path,
    vectors: Path,
    tmp_path: Path,
    children: Children,
    kills: int,
) -> None:
    targets = targets_in(tmp_path, [f"out-{i}" for i in range(kills // 3)])
    ledger.close()
    last = children.do(
        "kill_runs",
        location=location,
        accounts=["everyone", "subjects"],
        source=str(source),
        targets=[str(path) for path in targets],
        vectors=str(vectors),
        kills=kills,
        seed=kills,
    )
    print(last)  # shown by pytest -s
    assert len(last) <= kills
    for i, target in enumerate(targets):
        charged = require_whole(target, ledger).charged
        assert charged is not None
        assert charged.account == ("everyone", "subjects")[i % 2]
        assert charged.by_subject == (i % 2 == 1)
    for account, n in (("everyone", len(targets[::2])), ("subjects", len(targets[1::2]))):
        log = list(ledger.log(account))
        assert len(log) == len({each.release for each in log} - {None}) == n
        assert ledger.verify(account).problems == ()


@pytest.mark.slow_cases("postgresql", why="runs at SQLite are the same")
def test_runs_with_one_key_release_once(
    location: str,
    ledger: Ledger,
    source: Path,
    vectors: Path,
    tmp_path: Path,
    children: Children,
) -> None:
    """All of them have paid with the one charge and drawn when the first of them is released."""
    targets = targets_in(tmp_path, ["a", "b", "c"])
    ledger.close()
    told = children.do(
        "run_twice_at_once",
        location=location,
        account="everyone",
        source=str(source),
        targets=[str(path) for path in targets],
        vectors=str(vectors),
        key="the key",
    )
    (first,) = (target for target, error in zip(targets, told, strict=True) if error is None)
    assert sum("PrivacyError" in error and "paid for another release" in error for error in told if error) == 2
    require_whole(first, ledger)
    assert [[*target.parent.iterdir()] for target in targets if target != first] == [[], []]
    (only,) = ledger.log("everyone")
    assert only.key == "the key"

    mechanism = word_metric(str(vectors))
    payment = Payment(ledger, "everyone", "the key", everyone=True)
    later = targets_in(tmp_path, ["later"])[0]
    with pytest.raises(PrivacyError, match="to be unused: it paid for a release already"):
        privatize_file(source, later, mechanism, plan=Plan(fields=Fields(id="id"), batch_size=5), payment=payment)
    assert [*later.parent.iterdir()] == []
    assert list(ledger.log("everyone")) == [only]


def test_a_charge_that_paid_for_a_run_pays_for_no_other(
    location: str,
    ledger: Ledger,
    source: Path,
    vectors: Path,
    tmp_path: Path,
) -> None:
    """A run that died when it was settled is gone on with; its key pays for nothing that is drawn anew."""
    killed, other = targets_in(tmp_path, ["settled", "other"])
    mechanism, plan = word_metric(str(vectors)), Plan(fields=Fields(id="id"), batch_size=5)

    class KilledError(BaseException):
        pass

    class Killed(Ledger):
        def settle(self, *args: str) -> None:
            super().settle(*args)
            raise KilledError

    dying, payment = Killed.at(location), Payment(ledger, "everyone", "key", everyone=True)
    with pytest.raises(KilledError):
        privatize_file(source, killed, mechanism, plan=plan, payment=Payment(dying, "everyone", "key", everyone=True))
    dying.close()
    assert not killed.exists()
    with pytest.raises(ConfigError, match="whole and paid for: go on with --resume"):
        privatize_file(source, killed, mechanism, plan=replace(plan, force=True), payment=payment)
    with pytest.raises(PrivacyError, match="paid for a release already"):
        privatize_file(source, other, mechanism, plan=plan, payment=payment)
    assert [*other.parent.iterdir()] == []
    privatize_file(source, killed, mechanism, plan=replace(plan, resume=True), payment=payment)
    privatize_file(source, other, mechanism, plan=plan, payment=Payment(ledger, "everyone", everyone=True))
    charged = [require_whole(target, ledger).charged for target in (killed, other)]
    assert [each and each.number for each in charged] == [each.number for each in ledger.log("everyone")]
    assert ledger.balance("everyone").charges == 2
