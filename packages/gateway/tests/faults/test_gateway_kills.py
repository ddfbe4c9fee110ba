"""kill -9 of the gateway in the middle of releases: no double charge, no second visible draw, no lost answer."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import httpx
import pytest
from gateway_server import serve

import dptext as dp
from dptext.errors import LedgerError
from dptext.ledger.books import Ledger
from dptext.ledger.database import Database
from dptext_gateway.keys import Keys
from dptext_gateway.settings import Secret
from dptext_gateway.store import Store
from gateways import prepare
from many_files import rows
from postgres import require, running

PATIENCE = 300  # seconds: beside other work a gateway takes a minute to start
#: Gateways are forked from one process that has imported what they need, which costs more than all else that they do.
STARTED = multiprocessing.get_context("forkserver")
STARTED.set_forkserver_preload(["uvicorn", "dptext_gateway.app", "dptext.mechanisms.candidates.label_only"])


class Killed:
    """A gateway that is killed and started again, and a client that goes on under its idempotency keys."""

    def __init__(self, folder: Path, location: str) -> None:
        settings, self.ledger = prepare(folder, location, epsilon=1e6)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self.spool = settings.spool
        self.given = {
            "models": str(settings.models),
            "spool": str(settings.spool),
            "key_file": str(settings.key_file),
            "ledger": location,
            "port": port,
            "seconds": 1.0,
            "requests_a_minute": 100_000,
        }
        store = Store(Database(location))
        keys = Keys(store, Secret.at(settings.key_file))
        self.key = keys.create("team", account="reviews", scopes=("privatize", "jobs", "synthesize"))
        store.close()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20)
        self.kills = self.between = 0
        self.busy: list[httpx.Response] = []
        self.process = self.begun()

    def begun(self) -> ForkServerProcess:
        process = STARTED.Process(target=serve, args=(self.given,))
        process.start()
        return process

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.kills += 1
        with contextlib.suppress(LedgerError):  # the books may be away
            self.between += any(not each.release for each in self.ledger.log("reviews"))  # charged, and not settled
        self.process = self.begun()

    def up(self) -> None:
        """Wait until it answers."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                self.client.get("/healthz", timeout=5)
                return
            time.sleep(0.02)
        raise TimeoutError

    def ask(self, method: str, path: str, key: str, **more: object) -> httpx.Response:
        """Ask until there is an answer."""
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": key}
        end = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < end, (self.process.exitcode, self.busy[-1:])
            try:
                found = self.client.request(method, path, headers=headers, **more)
            except httpx.TransportError:
                time.sleep(0.01)
                continue
            if found.status_code not in (409, 503):
                return found
            self.busy += [found] * (found.status_code == 503)
            time.sleep(0.02)

    def ended(self, name: str, key: str) -> dict:
        """Where a job stands when it is over, which must be done."""
        end = time.monotonic() + PATIENCE
        while (found := self.ask("GET", f"/v1/jobs/{name}", key).json())["state"] in ("queued", "running"):
            assert time.monotonic() < end, found
            time.sleep(0.02)
        assert (found["state"], found["problem"]) == ("done", None)
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.client.close()
        self.ledger.close()


@pytest.fixture
def gateway(tmp_path: Path, new_ledger) -> Iterator[Killed]:
    with contextlib.closing(Killed(tmp_path, new_ledger())) as found:
        yield found


FEW = [{"text": f"secret {i}", "label": "travel"} for i in range(5)]


def released_under_kills(gateway: Killed, kills: int, kill: Callable[[], None]) -> None:
    """Three clients release and ask again while something is killed: one answer and one charge a key."""
    rng, over, seen = random.Random(5), threading.Event(), {}

    def client() -> None:
        while not over.is_set():
            key = str(uuid.uuid4())
            for _ in range(2):
                path = "/v1/models/labels/privatize"
                found = gateway.ask("POST", path, key, json={"records": FEW})
                assert found.status_code == 200, found.text
                seen.setdefault(key, set()).add(found.content)

    threads = [threading.Thread(target=client) for _ in range(3)]
    for each in threads:
        each.start()
    for _ in range(kills):
        before = len(seen)
        gateway.up()
        time.sleep(rng.uniform(0.0, 0.5))
        kill()
    end = time.monotonic() + PATIENCE
    while len(seen) < before + 3 and time.monotonic() < end:
        time.sleep(0.02)
    over.set()
    for each in threads:
        each.join()
    assert len(seen) >= before + 3
    assert all(len(answers) == 1 for answers in seen.values())
    log = list(gateway.ledger.log("reviews"))
    settled = {each.release for each in log if each.release}
    shown = {json.loads(json.loads(next(iter(answers)))["certificate"])["sha256"] for answers in seen.values()}
    assert shown <= settled
    assert len(log) == len(seen)
    assert len({each.key for each in log}) == len(log)


@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_in_the_middle_of_releases(gateway: Killed, kills: int) -> None:
    """Each answer that is seen under a key is the same, however often it is asked for, and is charged once."""
    released_under_kills(gateway, kills, gateway.kill)
    if kills >= 50:  # one may not hit
        assert gateway.between >= kills / 10, gateway.between  # it was killed between a charge and its settlement


@pytest.mark.slow  # a kill of the gateway stays, its answers without a ledger, and a restart of the database
@pytest.mark.parametrize("kills", [1, 50])
def test_kills_of_the_database_in_the_middle_of_releases(tmp_path: Path, kills: int) -> None:
    """The gateway answers 503 meanwhile, and goes on by itself, without a second charge or draw."""
    require()
    with running() as server:
        gateway = Killed(tmp_path, server.create_database())
        process, pauses, held = gateway.process, random.Random(7), []

        def kill() -> None:
            assert server.pid
            os.kill(server.pid, signal.SIGSTOP)  # so that it begins no others
            serving = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            titles = [Path(f"/proc/{each}/cmdline").read_text() for each in serving]
            held.append(any("dptext dptext_" in each and not each.rstrip(" \0").endswith(" idle") for each in titles))
            for each in (*serving, server.pid):  # each leads a session of its own: no signal reaches all
                os.kill(int(each), signal.SIGKILL)
            server.stop()
            time.sleep(pauses.uniform(0.0, 0.3))
            server.start()

        try:
            with contextlib.suppress(LedgerError):
                gateway.ledger.close()
            released_under_kills(gateway, kills, kill)
            assert process.is_alive()
            assert gateway.busy
            if kills >= 50:  # one may not hit
                assert sum(held) >= kills / 4, held  # it was killed in the middle of statements or transactions
            for refused in gateway.busy:
                assert refused.headers["content-type"] == "application/problem+json"
                assert "secret" not in refused.text
        finally:
            gateway.close()


@pytest.mark.slow  # tests/unit dies before and after each step of a job
@pytest.mark.parametrize("kills", [2, 50])
def test_kills_in_the_middle_of_jobs(gateway: Killed, kills: int) -> None:
    rng, done = random.Random(6), 0
    data = "".join(json.dumps(row) + "\n" for row in rows(20_000)).encode()
    query = "model=labels&label_field=label&id_field=id"
    while gateway.kills < kills:
        key = f"job-number-{done}"
        asked = gateway.ask("POST", f"/v1/jobs?{query}", key, content=data)
        assert "id" in asked.json(), asked.text
        name = asked.json()["id"]
        time.sleep(rng.uniform(0.0, 0.6))
        gateway.kill()
        gateway.ended(name, key)
        result = gateway.ask("GET", f"/v1/jobs/{name}/result", key)
        ids = [json.loads(line)["id"] for line in result.text.splitlines()]
        assert ids == [f"r{i}" for i in range(20_000)]
        assert gateway.ask("GET", f"/v1/jobs/{name}/result", key).content == result.content
        again = gateway.ask("POST", f"/v1/jobs?{query}", key, content=data)
        assert again.json()["id"] == name
        done += 1
    if kills >= 50:
        assert gateway.between >= kills / 10, gateway.between
    log = list(gateway.ledger.log("reviews"))
    assert len(log) == done
    assert all(each.release for each in log)
    for folder in gateway.spool.glob("job-*"):
        left = {path.name for path in folder.iterdir()}
        assert left == {"result.jsonl", "result.jsonl.guarantee.json"}


@pytest.mark.slow  # tests/unit dies before and after each step of a synthesis
@pytest.mark.parametrize("kills", [1, 25])
def test_kills_in_the_middle_of_syntheses(gateway: Killed, kills: int) -> None:
    """Whenever the kill comes, one synthesis is shown, and its charge is settled with it."""
    rng, shown = random.Random(8), []
    data = "".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in dp.sample_records(300)).encode()
    for number in range(kills):
        key = f"synthesis-number-{number}"
        asked = gateway.ask("POST", "/v1/synthesize?model=topics&label_field=label", key, content=data)
        name = asked.json()["id"]
        time.sleep(rng.uniform(0.0, 1.5))
        gateway.kill()
        found = gateway.ended(name, key)
        result = gateway.ask("GET", f"/v1/jobs/{name}/result", key)
        assert hashlib.sha256(result.content).hexdigest() == found["result_sha256"]
        certificate = gateway.ask("GET", f"/v1/jobs/{name}/certificate", key).json()
        shown.append(f"stream {certificate['charged']['stream']}")
    assert [each.release for each in gateway.ledger.log("reviews")] == shown
    assert {path.suffix for path in gateway.spool.glob("job-*/*")} == {".json", ".html"}


def test_a_database_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    """A file of books that is moved away: 503, and nothing is lost when it is back."""
    gateway = Killed(tmp_path, str(tmp_path / "books.db"))
    try:
        first = gateway.ask("POST", "/v1/models/labels/privatize", "before-it-went", json={"records": FEW})
        gateway.ledger.close()
        away = [path for path in tmp_path.glob("books.db*") if path.name != "books.db.key"]
        for path in away:
            path.rename(tmp_path / f"away-{path.name}")
        gateway.kill()
        gateway.process.join(timeout=60)
        assert gateway.process.exitcode  # without books it does not start
        for path in away:
            (tmp_path / f"away-{path.name}").rename(path)
        gateway.process = gateway.begun()
        again = gateway.ask("POST", "/v1/models/labels/privatize", "before-it-went", json={"records": FEW})
        assert again.content == first.content
        assert len(list(Ledger.at(tmp_path / "books.db").log("reviews"))) == 1
    finally:
        gateway.close()
