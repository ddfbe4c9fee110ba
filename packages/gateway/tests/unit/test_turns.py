"""Calls that are answered at once: what they wait for, how long, and that they hold nothing meanwhile."""

import asyncio
import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

import dptext as dp
from dptext.runs.models import MODEL_FILE
from dptext_gateway import work
from dptext_gateway.metrics import Turns
from dptext_gateway.store import ANSWERS
from gateways import Served, add_summary, live, logged, served
from many_files import LABELS

FEW = [{"text": "secret", "label": "travel"}]
LINE = b'{"text": "secret", "label": "travel"}\n'
PATIENT = 30.0  # seconds that a test waits for what should take none


def until(so: Callable[[], Any]) -> None:
    """Wait for it."""
    end = time.monotonic() + PATIENT
    while not so():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def drawing(patch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], threading.Event]]:
    """The threads that began to draw, all of which wait for an event, set at the latest at the end."""
    began, go_on, real = list[str](), threading.Event(), work.privatize

    class Slow:
        def __init__(self, found: Any) -> None:
            self.found = found

        def __getattr__(self, name: str) -> Any:
            return getattr(self.found, name)

        def to_records(self) -> Any:
            began.append(threading.current_thread().name)
            assert go_on.wait(PATIENT)
            return self.found.to_records()

    patch.setattr(work, "privatize", lambda *given, **more: Slow(real(*given, **more)))
    try:
        yield began, go_on
    finally:
        go_on.set()


def attempts(gateway: Served) -> list[Any]:
    """Those that have no answer yet."""
    return list(gateway.gate.store.rows(sa.select(ANSWERS).where(ANSWERS.c.answer.is_(None))))


def asked(pool: ThreadPoolExecutor, gateway: Served, name: str, **more: Any) -> Future[Any]:
    return pool.submit(gateway.privatize, FEW, name, **more)


def test_calls_that_wait_hold_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than there are threads: others are answered meanwhile, and in the end they are."""
    with served(tmp_path, epsilon=1e6) as gateway, live(gateway.client.app) as url:
        keys = [gateway.gate.keys.create(f"key {i}", account="reviews", scopes=("privatize",)) for i in range(3)]

        def ask(i: int) -> int:
            headers = gateway.headers(keys[i % 3], f"call-number-{i}")
            body = {"records": FEW}
            return client.post("/v1/models/labels/privatize", json=body, headers=headers).status_code

        one = httpx.Client(base_url=url, timeout=2 * PATIENT, limits=httpx.Limits(max_connections=None))
        with one as client, ThreadPoolExecutor(45) as pool, drawing(monkeypatch) as (began, go_on):
            calls = [pool.submit(ask, i) for i in range(45)]
            until(lambda: len(attempts(gateway)) == 45)
            until(lambda: len(began) == 2)
            for path in ("/", "/v1/key", "/v1/models"):
                assert httpx.get(f"{url}{path}", headers=gateway.headers(), timeout=PATIENT).status_code == 200
            assert "dptext_waiting 43.0" in httpx.get(f"{url}/metrics", headers=gateway.headers(gateway.admin)).text
            assert (len(began), len(gateway.charges())) == (2, 2)  # so many at once, and who waits pays nothing
            go_on.set()
            assert {each.result() for each in calls} == {200}
        assert len(gateway.charges()) == 45


def test_a_call_that_waits_too_long_is_not_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, seconds=0.3, threads=1) as gateway:
        with ThreadPoolExecutor(1) as pool, drawing(monkeypatch) as (began, go_on):
            first = asked(pool, gateway, "first-call")
            until(lambda: began)
            refused = gateway.privatize(FEW, "second-call")
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:dptext:waiting")
            assert int(refused.headers["Retry-After"]) > 0
            assert len(gateway.charges()) == len(attempts(gateway)) == 1
            go_on.set()
            assert first.result().status_code == 200
        assert gateway.privatize(FEW, "second-call").status_code == 200
        assert len(gateway.charges()) == 2


def test_nothing_is_drawn_beside_a_slow_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its attempt holds as long as it lives: who asks again under its key hears that it is in flight."""
    with served(tmp_path, seconds=0.6) as gateway:
        with ThreadPoolExecutor(1) as pool, drawing(monkeypatch) as (began, go_on):
            first = asked(pool, gateway, "one-and-the-same")
            until(lambda: began)
            end = time.time() + 0.6  # when its lease would be over
            until(lambda: time.time() > end and attempts(gateway)[0].lease > end)
            again = gateway.privatize(FEW, "one-and-the-same")
            assert (again.status_code, again.json()["type"]) == (409, "urn:dptext:in-flight")
            go_on.set()
            assert first.result().status_code == 200
            assert len(began) == 1
        assert gateway.privatize(FEW, "one-and-the-same").content == first.result().content


def test_an_attempt_that_was_freed_stays_free(tmp_path: Path) -> None:
    with served(tmp_path) as gateway:
        key = gateway.gate.keys.find(gateway.key)
        attempt = gateway.gate.answers.attempt(key, "a-key-of-it", b"payload")
        attempt.free()
        attempt._renew()
        assert [each.lease for each in attempts(gateway)] == [0]


def test_accounts_take_turns_and_who_leaves_takes_none() -> None:
    turns, order = Turns(1), []

    async def draw(account: str) -> None:
        with await turns.take(account):
            order.append(account)
            await asyncio.sleep(0)

    async def main() -> None:
        with await turns.take("many"):
            waiting = [asyncio.create_task(draw(each)) for each in ("many", "many", "gone", "many", "few", "few")]
            await asyncio.sleep(0.01)
            waiting[2].cancel()
        waiting[0].cancel()  # its turn may have come just now: it is passed on
        await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENT)
        with await asyncio.wait_for(turns.take("anybody"), PATIENT):
            pass

    asyncio.run(main())
    assert order == ["few", "many", "few", "many"]


def test_a_turn_that_comes_as_its_call_leaves_is_passed_on() -> None:
    async def main() -> None:
        turns = Turns(1)
        first = await turns.take("one")
        late = asyncio.create_task(turns.take("two"))
        await asyncio.sleep(0.01)
        first.close()
        late.cancel()  # before it has heard of its turn
        with pytest.raises(asyncio.CancelledError):
            await late
        with await asyncio.wait_for(turns.take("three"), PATIENT) as turn:
            turn.close()
            turn.close()  # it is over once
            with await asyncio.wait_for(turns.take("four"), PATIENT):
                fifth = asyncio.create_task(turns.take("five"))
                await asyncio.sleep(0.01)
                assert not fifth.done()
        (await asyncio.wait_for(fifth, PATIENT)).close()

    asyncio.run(main())


def test_a_model_that_is_being_loaded_holds_nobody_else_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, seconds=0.5) as gateway:
        shutil.copytree(tmp_path / "models" / "labels", tmp_path / "models" / "slow")
        loads, go_on, real = list[str](), threading.Event(), work.load_model

        def load(folder: Path) -> Any:
            loads.append(folder.name)
            assert folder.name != "slow" or go_on.wait(PATIENT)
            return real(folder)

        monkeypatch.setattr(work, "load_model", load)

        def ask() -> Any:
            return gateway.client.post(
                "/v1/models/slow/privatize", json={"records": FEW}, headers=gateway.headers(None, "slow-call")
            )

        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(ask)
            until(lambda: loads)
            assert gateway.privatize(FEW).status_code == 200
            assert (slow.result().status_code, slow.result().json()["type"]) == (503, "urn:dptext:waiting")
        assert len(gateway.charges()) == 1
        go_on.set()
        assert ask().status_code == 200
        assert sorted(loads) == ["labels", "slow"]


def test_a_broken_model_shuts_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out, logged once by its name, and is no fault of who asks for it; no path is told."""
    lines: list[str] = []
    monkeypatch.setattr(logging.getLogger("dptext_gateway"), "error", lambda said, *given: lines.append(said % given))
    with served(tmp_path) as gateway:
        models = tmp_path / "models"
        for name, file, text in (
            ("cut", MODEL_FILE, "[broken"),
            ("odd", "synthesis.toml", "kind = 'nope'"),
            ("bytes", "synthesis.toml", "\ud800"),
        ):
            (models / name).mkdir()
            (models / name / file).write_text(text, errors="surrogatepass")
        for _ in range(2):
            answer = gateway.client.get("/v1/models", headers=gateway.headers())
            assert [each["name"] for each in answer.json()] == ["labels", "topics"]
        for name in ("cut", "odd", "bytes"):
            for path in ("", "/cost"):
                answer = gateway.client.get(f"/v1/models/{name}{path}", headers=gateway.headers())
                assert (answer.status_code, answer.json()["type"]) == (503, "urn:dptext:model")
                assert str(tmp_path) not in answer.text
            assert [f"model {name} cannot" in line for line in lines].count(True) == 1
        assert gateway.job(LINE, model="cut").status_code == 503


def test_the_log_says_which_file_a_summary_lacks(tmp_path: Path) -> None:
    with served(tmp_path) as gateway, logged() as said:
        add_summary(tmp_path / "models")
        pool = tmp_path / "models" / "inbox" / "pool.jsonl"
        pool.rename(pool.with_suffix(".csv"))
        answer = gateway.client.get("/v1/models/inbox", headers=gateway.headers())
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:dptext:model")
        assert str(tmp_path) not in answer.text
        assert f"The model inbox cannot be used: its public texts are not there: {pool}" in "".join(said)


def test_a_model_that_cannot_be_loaded_costs_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as gateway:
        (file,) = (path for path in (tmp_path / "models" / "labels").iterdir() if path.name != MODEL_FILE)
        whole = file.read_bytes()
        file.write_bytes(whole[:-1])
        answer = gateway.privatize(FEW)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:dptext:model")
        assert str(tmp_path) not in answer.text
        problem = gateway.ended(gateway.job(LINE).json()["id"])["problem"]
        assert problem.startswith("This model cannot be used now")
        assert problem.endswith("Nothing was charged.")
        file.write_bytes(whole)
        assert gateway.privatize(FEW).status_code == 200  # under the same key, at once
        assert len(gateway.charges()) == 1


@pytest.mark.parametrize("loaded", [True, False])
def test_what_is_shown_is_what_is_charged(tmp_path: Path, loaded: bool) -> None:
    """A folder that is replaced counts after a restart: before, its old settings hold or it is refused."""
    with served(tmp_path) as gateway:
        path = "/v1/models/labels"
        before = gateway.client.get(path, headers=gateway.headers()).json()
        if loaded:
            assert gateway.privatize(FEW, "before-it-is-replaced").status_code == 200
        shutil.rmtree(tmp_path / "models" / "labels")
        new = dp.fit(dp.LabelOnly(epsilon=1.0, labels=LABELS), [dp.Record(each, "a text", each) for each in LABELS])
        dp.save_model(new, tmp_path / "models" / "labels")
        assert gateway.client.get(path, headers=gateway.headers()).json() == before
        price = gateway.client.get(f"{path}/cost", headers=gateway.headers()).json()["epsilon"]
        answer = gateway.privatize(FEW, "after-it-was-replaced")
        if loaded:
            assert len({str(charge.request.events) for charge in gateway.charges()}) == 1
            assert json.loads(answer.json()["certificate"])["settings"] == before["settings"]
            log = gateway.client.get("/v1/accounts/reviews", headers=gateway.headers()).json()["log"]
            assert [each["epsilon"] for each in log] == [price, price]
        else:
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:dptext:model")
            assert gateway.charges() == []
