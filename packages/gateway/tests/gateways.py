"""A gateway over a tiny model, and keys for it."""

import asyncio
import atexit
import functools
import json
import logging
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient

import dptext as dp
from dptext.ledger.books import Ledger
from dptext_gateway import app as building
from dptext_gateway import clock, metrics, worker
from dptext_gateway.app import Gateway, create_app
from dptext_gateway.server import server
from dptext_gateway.settings import Settings
from dptext_gateway.store import JOBS, OPEN
from many_files import mechanism

SPEC = """
kind = "topics"
labels = ["health", "travel", "money", "leisure"]
encoder = "glove"
words = 8
topics = 4
relation = "replace_one"
"""

#: The model "inbox" of some tests: a summary of texts by label, with a column besides.
SUMMARY = """
kind = "summary"
labels = ["health", "travel", "money", "leisure"]
encoder = "glove"
words = 8
topics = 4
about = 300
epsilon = 5.0
relation = "replace_one"

[columns]
channel = "web|phone|shop"
"""


class Served:
    """A running gateway, its books, and a client."""

    def __init__(
        self, folder: Path, client: TestClient, gate: Gateway, ledger: Ledger, keys: tuple[str, str] | None = None
    ) -> None:
        self.folder, self.client, self.gate, self.ledger = folder, client, gate, ledger
        self.key, self.admin = keys or create_keys(gate)

    def headers(self, key: str | None = None, idempotency: str | None = "first-call", **more: str) -> dict[str, str]:
        found = {"Authorization": f"Bearer {key or self.key}", **more}
        return {**found, "Idempotency-Key": idempotency} if idempotency else found

    def privatize(self, rows: list[dict[str, str]], idempotency: str | None = "first-call", **more: Any) -> Any:
        key = more.pop("key", None)
        return self.client.post(
            "/v1/models/labels/privatize",
            json={"records": rows, **more},
            headers=self.headers(key, idempotency),
        )

    def job(self, data: bytes, idempotency: str = "first-job", path: str = "/v1/jobs", **query: str) -> Any:
        query = {"model": "labels", "label_field": "label", **query}
        return self.client.post(path, params=query, content=data, headers=self.headers(None, idempotency))

    def ended(self, name: str) -> dict[str, Any]:
        end = time.monotonic() + 60
        active = sa.select(JOBS.c.id).where(JOBS.c.id == name, JOBS.c.state.in_(OPEN))
        # To ask the books takes a tenth of the time that a request takes.
        while time.monotonic() < end and self.gate.store.rows(active):
            time.sleep(0.01)
        while time.monotonic() < end:
            found = self.client.get(f"/v1/jobs/{name}", headers=self.headers()).json()
            if found["state"] not in ("queued", "running", "cancelling"):
                self._forgotten(name, found["state"])
                return found
            time.sleep(0.03)  # asking takes time from the job
        raise TimeoutError(name)

    def _forgotten(self, name: str, state: str) -> None:
        """Wait a while until its files are deleted, which comes after it is said that it ended badly."""
        end = time.monotonic() + 5
        while state in ("failed", "cancelled") and list(self.folder.glob(f"spool/job-{name}*")):
            if time.monotonic() > end:
                return
            time.sleep(0.01)

    def charges(self) -> list[Any]:
        return list(self.ledger.log("reviews"))


def lines(n: int) -> bytes:
    """A file of so many records, each with a text of its own."""
    return b"".join(b'{"text": "%06d", "label": "travel"}\n' % i for i in range(n))


def save_models(models: Path) -> None:
    """A model and a synthesis."""
    dp.save_model(mechanism(), models / "labels")
    (models / "topics").mkdir()
    (models / "topics" / "synthesis.toml").write_text(SPEC)
    pool = "".join(json.dumps({"text": each.text}) + "\n" for each in dp.sample_records(200))
    (models / "topics" / "pool.jsonl").write_text(pool)


def add_summary(models: Path, more: str = "", settings: str = SUMMARY) -> None:
    """The model "inbox" over the pool of "topics", with more settings, or others."""
    (models / "inbox").mkdir()
    shutil.copy(models / "topics" / "pool.jsonl", models / "inbox")
    (models / "inbox" / "synthesis.toml").write_text(more + settings)


def inbox(n: int = 300) -> str:
    """A file for the model "inbox": so many records as JSON Lines."""
    rows = (
        {"text": each.text, "label": each.label, "channel": ("web", "phone", "shop")[i % 3]}
        for i, each in enumerate(dp.sample_records(n))
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def create_keys(gate: Gateway) -> tuple[str, str]:
    """A key of the account, and one of an administrator."""
    scopes = ("privatize", "jobs", "synthesize", "accounts")
    team = gate.keys.create("team", account="reviews", scopes=scopes)
    return team, gate.keys.create("boss", account=None, scopes=("admin",))


@functools.cache
def _made() -> Path:
    """Models and empty books, made once in a process and copied: to migrate new books takes longer than most calls."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    (folder / "models").mkdir()
    save_models(folder / "models")
    Ledger.create(folder / "books.db").close()
    return folder


@functools.cache
def _opened(epsilon: float) -> Path:
    """Models, and books with an account of this epsilon; made once in a process and copied."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    shutil.copytree(_made() / "models", folder / "models")
    shutil.copy(_made() / "books.db", folder / "books.db")  # its mode, too
    ledger = Ledger.at(folder / "books.db")
    open_account(ledger, epsilon)
    ledger.close()
    return folder


@functools.cache
def _keyed(epsilon: float) -> tuple[Path, tuple[str, str]]:
    """Models, opened books with what a gateway adds when it starts, and keys; made once in a process and copied."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    shutil.copytree(_opened(epsilon), folder, dirs_exist_ok=True)
    gate = Gateway(Settings(folder / "models", str(folder / "books.db"), folder / "spool", folder / "gateway.key"))
    keys = create_keys(gate)
    gate.store.close()
    return folder, keys


def open_account(ledger: Ledger, epsilon: float) -> None:
    ledger.open_account("reviews", dp.Guarantee(epsilon, 1e-5, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE))


def prepare(folder: Path, location: str, epsilon: float = 50.0, **settings: Any) -> tuple[Settings, Ledger]:
    """Models, books with an account, and settings of a gateway."""
    models = folder / "models"
    shutil.copytree(_made() / "models", models)
    if "://" in location:
        ledger = Ledger.create(location)
        open_account(ledger, epsilon)
    else:
        shutil.copy(_opened(epsilon) / "books.db", location)  # its mode, too
        ledger = Ledger.at(location)
    return Settings(models, location, folder / "spool", folder / "gateway.key", **settings), ledger


def prepare_keyed(
    folder: Path, location: str, epsilon: float = 50.0, **settings: Any
) -> tuple[Settings, Ledger, tuple[str, str]]:
    """Models, books in a file with an account and keys, and settings of a gateway."""
    made, keys = _keyed(epsilon)
    shutil.copytree(made / "models", folder / "models")
    shutil.copy(made / "books.db", location)
    shutil.copy(made / "gateway.key", folder)
    wanted = Settings(folder / "models", location, folder / "spool", folder / "gateway.key", **settings)
    return wanted, Ledger.at(location), keys


class Behind:
    """Stands before the gate of an application, which may get another gate."""

    def __init__(self) -> None:
        self.gate: Gateway | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gate, name)


#: Applications that nobody uses: to build the routes takes as long as all else of a gateway.
_FREE: list[tuple[FastAPI, Behind]] = []


@contextmanager
def application(settings: Settings) -> Iterator[FastAPI]:
    """The application of `create_app` with a gate of its own; its routes may have been those of an earlier gate."""
    if settings.origins:  # which decide what is built
        yield create_app(settings)
        return
    gate, behind = Gateway(settings), Behind()
    if _FREE:
        app, behind = _FREE.pop()
    else:
        with mock.patch.object(building, "Gateway", return_value=behind):
            app = create_app(settings)
    behind.gate = app.state.gate = gate
    app.middleware_stack = None  # it remembers what was asked before
    yield app
    _FREE.append((app, behind))


@contextmanager
def served(folder: Path, location: str | None = None, **settings: Any) -> Iterator[Served]:
    """A gateway within this process."""
    keys = None
    if location and "://" in location:
        wanted, ledger = prepare(folder, location, **settings)
    else:
        wanted, ledger, keys = prepare_keyed(folder, location or str(folder / "books.db"), **settings)
    # Jobs that wait are looked for soon, and what has expired is deleted from the start on.
    soon = mock.patch.object(worker, "PAUSE_SECONDS", 0.05), mock.patch.object(clock, "YOUNG_SECONDS", 0.0)
    with soon[0], soon[1], application(wanted) as app, TestClient(app, raise_server_exceptions=False) as client:
        yield Served(folder, client, app.state.gate, ledger, keys)
    ledger.close()


class Soon:
    """The asyncio of uvicorn's server, which looks each .1 s whether it is to end: here each .01 s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


@contextmanager
def live(app: FastAPI) -> Iterator[str]:
    """The address of a server over an application that lives already."""
    running, taken = server(app), socket.create_server(("127.0.0.1", 0))
    running.config.lifespan = "off"
    thread = threading.Thread(target=running.run, kwargs={"sockets": [taken]}, daemon=True)
    with mock.patch("uvicorn.server.asyncio", Soon()):
        thread.start()
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.002)
        try:
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join()


def traced(patch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """The spans that begin from now on, with their attributes. None may keep an exception."""
    spans: list[tuple[str, dict[str, str]]] = []

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name: str, *, attributes: dict[str, str], **kept: bool) -> Iterator[None]:
            spans.append((name, attributes))
            assert kept == {"record_exception": False, "set_status_on_exception": False}
            yield

    patch.setattr(metrics, "TRACER", Tracer())
    return spans


@contextmanager
def logged() -> Iterator[list[str]]:
    """Every line that anybody logs meanwhile."""
    lines: list[str] = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = lambda record: lines.append(f"{record.getMessage()} {record.exc_info}")  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in (None, "dptext", "uvicorn", "fastapi", "starlette", "sqlalchemy")]
    for each in loggers:
        each.addHandler(handler)
    try:
        yield lines
    finally:
        for each in loggers:
            each.removeHandler(handler)
