"""What a gateway tells whoever runs it: numbers and spans, without a text, the length of one, or a name of a client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from opentelemetry import trace
from prometheus_client import CollectorRegistry, Counter, Histogram

_TRACER: Final = trace.get_tracer("dptext.service")


@contextmanager
def span(name: str, **attributes: str) -> Iterator[None]:
    """A span of a trace. It keeps no exception, whose message may hold a text."""
    with _TRACER.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ):
        yield


@dataclass(frozen=True, slots=True)
class Turns:
    """So many draw at once; others wait. A span tells of the wait, and one of the draw."""

    free: threading.Semaphore

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait for a turn, and take it."""
        with span("queue"):
            self.free.acquire()
        try:
            with span("mechanism"):
                yield
        finally:
            self.free.release()


class Counts:
    """Metrics: how many requests of which route ended how, and how long they took. No text, length of one, or name."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "dptext_requests", "Requests, by route and status", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram("dptext_seconds", "Seconds of a request", ["route"], registry=self.registry)
        self.released = Counter("dptext_released", "Answers that were released", ["model"], registry=self.registry)
