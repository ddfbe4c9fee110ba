"""The layer between network and routes: keys, sizes, rates, headers, padding, and counts without content.

The key is checked before any byte of a body is read. If a request is answered before its body was read, the connection
ends once the body has arrived or stops arriving.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dptext.errors import DPTextError
from dptext_gateway.gateway import UPLOADS, Gateway
from dptext_gateway.problems import Problem, failed, problem_of, response_to
from dptext_gateway.settings import Settings

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
#: Headers that may stand once: of two, this layer would read one and a route the other.
_ONCE: Final = (
    b"authorization", b"idempotency-key", b"content-length", b"content-encoding", b"content-type", b"transfer-encoding"
)  # fmt: skip
_LOG: Final = logging.getLogger("dptext_gateway")
#: Paths where HEAD works as GET: not files, whose downloads are noted, nor events, which do not end.
_LOOKED_AT: Final = re.compile("/healthz|/readyz|/metrics|/v1/(key|models|accounts|events)(/.*)?|/v1/jobs(/[^/]*)?")
LINGER_SECONDS: Final = 20.0  # seconds for which a refused body is still read
QUIET_SECONDS: Final = 2.0  # seconds without a byte, after which reading ends
_LOOKERS: Final = 4  # threads that look up keys; calls that wait for a turn hold none of them


class Guard:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, gate: Gateway) -> None:
        self._app, self._gate = app, gate
        self._busy: Counter[str] = Counter()
        self._lookers = ThreadPoolExecutor(_LOOKERS, "keys")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and _LOOKED_AT.fullmatch(scope["path"]):
            scope = {**scope, "method": "GET"}  # the server sends no body: it knows what was asked
        settings, counts = self._gate.settings, self._gate.counts
        began = time.monotonic()
        upload = scope["path"] in UPLOADS and scope["method"] == "POST"
        body = _Body(scope["headers"], receive, settings, began, upload=upload)
        answer = _HeadedAnswer(send, body)
        out = _Padding(answer, settings, began) if scope["path"].endswith("/privatize") else answer
        try:
            body.check()
            async with self._admitted(scope, body, upload=upload):
                await self._app(scope, body.receive, out)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the server is ending, and would log a trace
            if not answer.status:
                await failed()(scope, receive, out)
        except (Problem, DPTextError) as error:
            if not answer.status:
                await response_to(error if isinstance(error, Problem) else problem_of(error))(scope, receive, out)
        except Exception as error:  # noqa: BLE001  # its message may hold a text: no log of the server gets it
            _LOG.error("A request failed with %s.", type(error).__name__)
            if not answer.status:
                await failed()(scope, receive, out)
        route = getattr(scope.get("route"), "path", "other")
        counts.requests.labels(route, answer.status or 499).inc()
        counts.seconds.labels(route).observe(time.monotonic() - began)
        scope.get("state", {}).pop("key", None)  # the connection no longer waits: others may take its place
        with suppress(asyncio.CancelledError):
            await answer.end()

    @asynccontextmanager
    async def _admitted(self, scope: Scope, body: _Body, *, upload: bool) -> AsyncIterator[None]:
        """Admit a request whose key is valid and within its limits. Paths that need no key read no body."""
        if not scope["path"].startswith("/v1/") and scope["path"] != "/metrics":
            yield
            return
        gate, loop = self._gate, asyncio.get_running_loop()
        key = await loop.run_in_executor(self._lookers, gate.key, body.headers.get(b"authorization", b""))
        who, taken, again = key.prefix, 0, False
        if self._busy[who] >= gate.settings.requests_at_once:
            raise Problem(429, "busy", "This key has too many requests in flight.", retry_after=1)

        def take(size: int, *, requests: int = 0) -> None:
            nonlocal taken
            gate.rates.take(who, size, requests=requests)
            if upload:
                gate.space.take(who, size, again=again)
                taken += size

        self._busy[who] += 1
        try:
            if upload:
                await run_in_threadpool(gate.jobs.require_spool)
                await run_in_threadpool(gate.space.measure)
                named = body.headers.get(b"idempotency-key", b"").decode("latin-1")
                again = not gate.space.uploading(who) and await run_in_threadpool(gate.jobs.known, key, named)
            take(body.declared, requests=1)
            body.take = take
            scope.setdefault("state", {})["key"] = key
            if not upload:
                await body.read()
            yield
        finally:
            self._busy[who] -= 1
            if taken:
                await asyncio.shield(self._freed(who, taken))

    async def _freed(self, who: str, taken: int) -> None:
        with suppress(DPTextError):  # the next upload looks again
            await run_in_threadpool(self._gate.space.measure)
        self._gate.space.free(who, taken)


class _Body:
    """The body of a request as it arrives: counted, and with one deadline for the whole body."""

    def __init__(
        self, pairs: list[tuple[bytes, bytes]], receive: Receive, settings: Settings, began: float, *, upload: bool
    ) -> None:
        self.headers, self._receive = dict(pairs), receive
        headers = self.headers
        named = [name for name, _ in pairs if name in _ONCE]
        self._twice = len(named) > len(set(named))
        self._most = settings.max_file if upload else settings.max_body
        self._pause, self._end = settings.seconds, began + (settings.upload_seconds if upload else settings.seconds)
        self._seen, self._kept = 0, b""
        self._read = False
        length = headers.get(b"content-length")
        self._coding = headers.get(b"transfer-encoding")
        self._chunked = self._coding is not None
        self._fine = length is None or (length.isdigit() and len(length) < len(str(2**63)))
        self.declared = int(length) if length and self._fine else 0
        self.whole = not (self._chunked or self.declared)
        self.take: Callable[[int], None] = lambda _: None

    def check(self) -> None:
        """Refuse a request by its headers."""
        if self._twice:
            raise Problem(400, "header", f"Expected each of these headers once: {b', '.join(_ONCE).decode()}.")
        # A proxy may read the other of the two (RFC 9112, 6.3).
        if self._coding is not None and (self._coding.lower() != b"chunked" or b"content-length" in self.headers):
            raise Problem(400, "length", "Expected Content-Length, or Transfer-Encoding: chunked, and not both.")
        if self.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Problem(415, "encoding", "Expected no Content-Encoding: a packed body could unpack to any size.")
        if not self._fine or self.declared > self._most:
            raise self._too_large()

    async def read(self) -> None:
        """Read the whole body; `receive` then returns it at once."""
        parts = []
        while not self.whole:
            parts.append((await self.receive()).get("body", b""))
        self._kept, self._read = b"".join(parts), True

    async def receive(self) -> Message:
        """Return the next ASGI message."""
        if self._read:
            self._read = False
            return {"type": "http.request", "body": self._kept, "more_body": False}
        if self.whole:  # now it waits for the client to leave
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), min(self._pause, self._end - time.monotonic()))
        except TimeoutError:
            raise Problem(408, "slow", "The body came too slowly.") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        size = len(message.get("body", b""))
        self._seen += size
        if self._seen > self._most:
            raise self._too_large()
        if self._chunked:
            self.take(size)
        self.whole = not message.get("more_body", False)
        return message

    async def drop(self) -> None:
        """Read and discard the rest of the body for a while: a client whose body is not read may lose the answer."""
        end = time.monotonic() + LINGER_SECONDS
        while not self.whole and (left := end - time.monotonic()) > 0:
            try:
                message = await asyncio.wait_for(self._receive(), min(left, QUIET_SECONDS))
            except TimeoutError:
                return
            self.whole = not message.get("more_body", False)

    def _too_large(self) -> Problem:
        return Problem(413, "too-large", f"Expected at most {self._most:,} bytes.")


class _HeadedAnswer:
    """An answer with the headers that every answer has."""

    def __init__(self, send: Send, body: _Body) -> None:
        self._send, self._body = send, body
        self.status, self._early = 0, False

    async def __call__(self, message: Message) -> None:
        """One message of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            there = {name for name, _ in message["headers"]}
            message["headers"] = [
                *((name, value) for name, value in message["headers"] if name != b"server"),
                *((name, value) for name, value in HEADERS.items() if name not in there),
                *([] if self._body.whole else [(b"connection", b"close")]),
            ]
        elif not (message.get("more_body") or self._body.whole):
            self._early = True
            message = {**message, "more_body": True}
        await self._send(message)

    async def end(self) -> None:
        """End an answer sent before the body arrived: unread bytes would reset the connection."""
        if self._early:
            await self._body.drop()
            await self._send({"type": "http.response.body", "body": b""})


class _Padding:
    """An answer that is held until a step of time and padded to a step of length with blanks after the JSON."""

    def __init__(self, send: Send, settings: Settings, began: float) -> None:
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
