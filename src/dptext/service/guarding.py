"""What stands between the network and the routes: sizes, rates, headers, padding, and counts without content."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dptext.service.problems import failed, response_of
from dptext.service.settings import Settings

HEADERS: Final = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
}
_LOG: Final = logging.getLogger("dptext.service")
_UPLOADS: Final = ("/v1/jobs", "/v1/synthesize")


@dataclass(slots=True)
class Rates:
    """How much each key may ask in a minute: a bucket that refills. It forgets at a restart."""

    requests: int
    size: int
    _left: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, who: str, size: int) -> int:
        """Take a request of so many bytes; 0, or the seconds to wait."""
        with self._lock:
            now = time.monotonic()
            before, requests, left = self._left.get(who, (now, float(self.requests), float(self.size)))
            share = (now - before) / 60
            requests = min(self.requests, requests + share * self.requests)
            left = min(self.size, left + share * self.size)
            enough = requests >= 1 and left >= min(size, self.size)
            if enough:
                requests, left = requests - 1, left - size
            self._left[who] = now, requests, left
            return (
                0 if enough else max(1, math.ceil(60 * max((1 - requests) / self.requests, (size - left) / self.size)))
            )


class Counts:
    """Metrics: how many requests of which route ended how, and how long they took. No text, length of one, or name."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "dptext_requests", "Requests, by route and status", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram("dptext_seconds", "Seconds of a request", ["route"], registry=self.registry)
        self.released = Counter("dptext_released", "Answers that were released", ["model"], registry=self.registry)


class Guard:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, settings: Settings, counts: Counts) -> None:
        self._app, self._settings, self._counts = app, settings, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        headers = dict(scope["headers"])
        upload = scope["path"] in _UPLOADS and scope["method"] == "POST"
        most = self._settings.max_file if upload else self._settings.max_body
        fault = self._fault(headers, most)
        if fault is not None:
            await response_of(*fault)(scope, receive, self._adding(send, {}))
            return
        seen, whole = 0, False

        async def limited() -> Message:
            nonlocal seen, whole
            if whole:  # now it waits for the client to leave
                return await receive()
            message = await asyncio.wait_for(receive(), self._settings.seconds)
            seen += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if seen > most:
                raise TooLargeError
            return message

        state: dict[str, Any] = {"status": 500}
        adding = self._adding(send, state)
        padded = _Padding(adding, self._settings, began) if scope["path"].endswith("/privatize") else adding
        try:
            await self._app(scope, limited, padded)
        except TooLargeError:
            if state["status"] == 500:
                await response_of(413, "too-large", f"Expected at most {most:,} bytes.")(scope, receive, adding)
        except TimeoutError:
            if state["status"] == 500:
                await response_of(408, "slow", "The body came too slowly.")(scope, receive, adding)
        except Exception as error:  # noqa: BLE001  # its message may hold a text: no log of the server gets it
            _LOG.error("A request failed with %s.", type(error).__name__)
            if state["status"] == 500:
                await failed()(scope, receive, adding)
        route = getattr(scope.get("route"), "path", "other")
        self._counts.requests.labels(route, state["status"]).inc()
        self._counts.seconds.labels(route).observe(time.monotonic() - began)

    def _fault(self, headers: dict[bytes, bytes], most: int) -> tuple[int, str, str] | None:
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            return 415, "encoding", "Expected no Content-Encoding: a packed body could unpack to any size."
        length = headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > most):
            return 413, "too-large", f"Expected at most {most:,} bytes."
        return None

    def _adding(self, send: Send, state: dict[str, Any]) -> Send:
        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                there = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *((name, value) for name, value in message["headers"] if name != b"server"),
                    *((name, value) for name, value in HEADERS.items() if name not in there),
                ]
            await send(message)

        return add


class TooLargeError(Exception):
    """The body is larger than its kind may be."""


class _Padding:
    """Holds an answer until a step of time, and fills it up to a step of length: blanks after JSON mean nothing."""

    def __init__(self, send: Callable[[Message], Awaitable[None]], settings: Settings, began: float) -> None:
        self._send, self._settings, self._began = send, settings, began
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        """One message of the answer."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body") or self._start is None:
            return
        pad, step = self._settings.pad_bytes, self._settings.step_seconds
        if pad:
            self._body += b" " * (-len(self._body) % pad)
            headers = [each for each in self._start["headers"] if each[0] != b"content-length"]
            self._start["headers"] = [*headers, (b"content-length", str(len(self._body)).encode())]
        if step:
            passed = time.monotonic() - self._began
            await asyncio.sleep(math.ceil(passed / step) * step - passed)
        await self._send(self._start)
        await self._send({"type": "http.response.body", "body": bytes(self._body)})
