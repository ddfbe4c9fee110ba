"""Metrics and spans for operators of a gateway, without a text, the length of a text, or the name of a client."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Final

from opentelemetry import trace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

TRACER: Final = trace.get_tracer("dptext_gateway")


@contextmanager
def span(name: str, **attributes: str) -> Iterator[None]:
    """A span of a trace. It keeps no exception, whose message may hold a text."""
    with TRACER.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ):
        yield


class Turns:
    """Turns to draw: at most `most` at once. Others wait without a thread.

    The next turn goes to the account whose last turn is the longest ago. A span covers each wait.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: dict[Future[None], str] = {}
        self._last: dict[str, int] = {}
        self._number = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of calls that wait."""
        return len(self._waiting)

    async def take(self, account: str) -> ExitStack:
        """Wait for a turn, which ends when the stack is closed, in any thread. A cancelled wait takes no turn."""
        own: Future[None] = Future()
        self._next(own, account)
        try:
            with span("queue"):
                await asyncio.wrap_future(own)
        except asyncio.CancelledError:
            self._leave(own)
            raise
        turn = ExitStack()
        turn.callback(self._over)
        return turn

    def _leave(self, own: Future[None]) -> None:
        """Stop waiting. If the turn has just come, it goes to the next call."""
        if own.cancel():
            with self._lock:
                self._waiting.pop(own, None)
        else:
            self._over()

    def _over(self) -> None:
        with self._lock:
            self._free += 1
        self._next()

    def _next(self, new: Future[None] | None = None, account: str = "") -> None:
        with self._lock:
            if new is not None:
                self._waiting[new] = account
            while self._free and self._waiting:
                first = min(self._waiting, key=lambda each: self._last.get(self._waiting[each], 0))
                its_account = self._waiting.pop(first)
                if first.set_running_or_notify_cancel():
                    self._free -= 1
                    self._last[its_account] = next(self._number)
                    first.set_result(None)


class Counts:
    """Metrics: how requests of each route ended, how long they took, and what waits. No text, length or name.

    The bytes in the spool are no metric: they would tell the length of a file.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "dptext_requests", "Requests, by route and status", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram("dptext_seconds", "Seconds of a request", ["route"], registry=self.registry)
        self.released = Counter("dptext_released", "Answers that were released", ["model"], registry=self.registry)
        self.waiting = Gauge("dptext_waiting", "Releases that wait for their turn", registry=self.registry)
        self.jobs = Gauge("dptext_jobs", "Jobs that have not ended", ["state"], registry=self.registry)
