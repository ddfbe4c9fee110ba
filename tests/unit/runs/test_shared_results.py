"""Results that threads share and processes do not: each release is drawn once, and one charge pays for one release."""

from __future__ import annotations

import copy
import json
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dptext as dp
from dptext.errors import ConfigError, DPTextError, PrivacyError
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan

N = 6  # threads
LIMIT = dp.Guarantee(1000.0, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)


@pytest.fixture(scope="module")
def mechanism():
    return dp.LabelOnly(labels=("a", "b"), epsilon=2.0).fit(public=[dp.Record(c, c, c) for c in "ab"])


def rows(n: int) -> list[dict[str, str]]:
    return [{"text": f"text {i}", "label": "ab"[i % 2]} for i in range(n)]


def result_of(private, mechanism, **given):
    return dp.privatize(private, mechanism, label="label", batch_size=8, **given)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[dp.Ledger]:
    found = dp.Ledger.create(tmp_path / "budget.db")
    found.open_account("a", LIMIT)
    yield found
    found.close()


def at_once(do: Callable[[], object]) -> list[object]:
    """What each of some threads found: a value, or an error."""
    gate, found = threading.Barrier(N), []

    def work() -> None:
        gate.wait()
        try:
            found.append(do())
        except DPTextError as error:
            found.append(error)

    threads = [threading.Thread(target=work) for _ in range(N)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def in_child(do: Callable[[], object]) -> list[object]:
    """What a forked child found: the names of an error, or what JSON holds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said: object = None
        try:
            said = do()
        except DPTextError as error:
            said = [type(error).__name__, str(error)]
        finally:
            os.write(writing, json.dumps(said).encode())
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        return json.loads(told.read())


def test_threads_iterate_the_same_releases(mechanism) -> None:
    result = result_of(rows(300), mechanism)
    found = at_once(lambda: [*result, result.certificate.sha256])
    assert found == [[*result, result.certificate.sha256]] * N
    assert result.certificate.records == 300


def test_threads_ask_for_everything_at_once(mechanism) -> None:
    result = result_of(rows(300), mechanism)
    ways = [result.json_lines, result.to_records, lambda: result.certificate, result._repr_html_] * 2
    assert not any(isinstance(each, DPTextError) for each in at_once(lambda: [ways.pop()()]))
    assert [each.id for each in result] == [str(i) for i in range(300)]


def test_one_thread_has_a_stream_and_the_others_are_told(mechanism) -> None:
    result = result_of(iter(rows(100)), mechanism)
    found = at_once(lambda: list(result))
    (got,) = (each for each in found if isinstance(each, list))
    assert len(got) == 100
    others = [each for each in found if each is not got]
    assert all(isinstance(each, ConfigError) and "another thread draws them" in str(each) for each in others)
    kept = result_of(iter(rows(100)), mechanism)
    assert at_once(kept.to_records) == [kept.to_records()] * N


def test_threads_share_an_iterator_of_a_stream(mechanism) -> None:
    result = result_of(iter(rows(300)), mechanism)
    whole = iter(result)
    found = at_once(lambda: list(whole))
    assert sorted(int(release.id) for each in found for release in each) == list(range(300))
    assert result.certificate.records == 300


def test_texts_that_look_at_their_own_result_do_not_wait_for_themselves(mechanism) -> None:
    given: list[Iterator[object]] = []

    def texts() -> Iterator[dict[str, str]]:
        yield from rows(3)
        next(given[0])

    given.append(iter(result_of(texts(), mechanism)))
    with pytest.raises(PrivacyError, match="stopped with an error"):
        next(given[0])


@pytest.mark.parametrize("forge", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("drawn", [False, True])
def test_a_result_is_not_copied(mechanism, forge: Callable[[object], object], drawn: bool) -> None:
    result = result_of(rows(3), mechanism)
    if drawn:
        releases = result.to_records()
        assert forge(releases)
    with pytest.raises(TypeError, match=r"Send to_records\(\)"):
        forge(result)


@pytest.mark.slow_cases("True-0", "False-9", why="each stays once")
@pytest.mark.parametrize("drawn", [0, 9])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_forked_child_draws_nothing_for_the_charge_of_its_parent(
    mechanism, ledger: dp.Ledger, drawn: int, streamed: bool
) -> None:
    result = result_of(iter(rows(30)) if streamed else rows(30), mechanism, payment=dp.Payment(ledger, "a"))
    releases = iter(result)
    first = [next(releases) for _ in range(drawn)]
    doings = [lambda: len(list(releases)), lambda: len(list(result)), lambda: len(result.to_records())]
    for do in doings:
        name, words = in_child(do)
        assert name == "PrivacyError"
        assert "forked" in words
    assert len([*first, *releases]) == 30
    assert result.certificate.records == 30


def test_a_forked_child_has_what_was_drawn(mechanism) -> None:
    result = result_of(rows(30), mechanism)
    outputs = [release.label for release in result]
    assert in_child(lambda: [release.label for release in result]) == outputs
    assert in_child(lambda: [result.certificate.sha256]) == [result.certificate.sha256]


def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not(mechanism) -> None:
    result = result_of(rows(30), mechanism)
    with result._drawing._lock:
        assert in_child(lambda: len(list(result)))[0] == "PrivacyError"


def test_a_run_from_file_to_file_is_not_gone_on_with_in_a_child(tmp_path: Path, mechanism) -> None:
    """The child of a process in the middle of a run would draw the rest again."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows(3000)))
    told: list[object] = []
    parent = os.getpid()

    def forked(done: int) -> None:
        if not told:
            reading, writing = os.pipe()
            if os.fork() == 0:
                told.append(writing)
                return
            os.wait()
            os.close(writing)
            with os.fdopen(reading) as said:
                told.append(said.read())

    plan = Plan(fields=dp.Fields(label="label"))
    try:
        certificate = privatize_file(source, target, mechanism, plan=plan, on_progress=forked)
    except PrivacyError as error:
        assert os.getpid() != parent
        os.write(told[0], str(error).encode())  # type: ignore[arg-type]
    finally:
        if os.getpid() != parent:
            os._exit(0)
    assert "forked" in str(told[0])
    assert certificate.records == 3000
    assert dp.verify(tmp_path / "out.jsonl.guarantee.json").certificate == certificate


def test_threads_that_begin_one_payment_make_one_charge(mechanism, ledger: dp.Ledger) -> None:
    payment = dp.Payment(ledger, "a", key="nightly")
    found = at_once(lambda: result_of(rows(5), mechanism, payment=payment).to_records())
    (got,) = (each for each in found if isinstance(each, list))
    assert len(got) == 5
    assert all(isinstance(each, PrivacyError) for each in found if each is not got)
    assert ledger.balance("a").charges == 1


def test_threads_with_payments_of_their_own_are_each_charged(mechanism, ledger: dp.Ledger) -> None:
    found = at_once(lambda: result_of(rows(5), mechanism, payment=dp.Payment(ledger, "a")).to_records())
    assert all(isinstance(each, list) for each in found)
    assert ledger.balance("a").charges == N
    assert len({each.release for each in ledger.log("a")}) == N
