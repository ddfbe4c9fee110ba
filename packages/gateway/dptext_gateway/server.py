"""The HTTP/1.1 server of the gateway. Nobody without a key holds a connection for long."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds from a new connection, or its last answer, until a request with a valid key must have come.
PATIENCE: Final = 20.0
_STOPPING: Final = 10  # seconds for answers under way; the next start goes on with the rest


class Patient(H11Protocol):
    """A connection that ends if no request with a key comes in time, or if its place is needed.

    uvicorn bounds neither the time of headers nor idle connections. Its `limit_concurrency` counts idle connections,
    too, and would turn everybody away while they wait.
    """

    _since = 0.0
    _late: asyncio.TimerHandle | None = None

    @property
    def _kept(self) -> bool:
        """Whether the connection waits for the answer to a request with a valid key."""
        return self.cycle is not None and not self.cycle.response_complete and "key" in self.scope["state"]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Accept a connection. If all places are taken, end the connection that has been idle longest."""
        super().connection_made(transport)
        self._wait()
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            idle = [each for each in self.connections if isinstance(each, Patient) and not each._kept]  # noqa: SLF001
            min(idle, key=lambda each: each._since).end()  # noqa: SLF001  # of its own kind

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no request. In the middle of an answer, close the connection instead."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def end(self) -> None:
        """End the connection at once; unread bytes are lost."""
        self.connections.discard(self)
        self.transport.abort()

    def _wait(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._since = time.monotonic()
        self._late = self.loop.call_later(PATIENCE, self._overdue)

    def _overdue(self) -> None:
        if not self._kept:
            self.end()


def server(app: FastAPI) -> uvicorn.Server:
    """Return the server of an application of `create_app`; the caller runs it on listening sockets."""
    config = uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        access_log=False,  # a path may hold a name
        server_header=False,
        log_level="warning",
        h11_max_incomplete_event_size=16_384,
        limit_concurrency=app.state.gate.settings.connections + 1,
        timeout_graceful_shutdown=_STOPPING,
    )
    return uvicorn.Server(config)
