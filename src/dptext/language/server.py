"""A language model behind a server that speaks the protocol of OpenAI.

What is asked holds public text and noisy numbers alone. Errors name the server and the status, never a text or a key.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import ssl
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from dptext.errors import ConfigError, ServerError, ServerRefusedError, needing

if TYPE_CHECKING:
    from openai import OpenAI

KEY: Final = "OPENAI_API_KEY"
_RETRIES: Final = 5  # the client waits half a second before the first, and twice as long before each next, up to 8
_WRONG: Final = 3  # answers in a row that are no completions, after which the server is given up
_SECONDS: Final = 120.0  # for an answer
_ABSENT: Final = "cannot be reached: start the server, and check the address, with its port and its /v1."
#: What servers say of a request that is longer than their context: llama.cpp, OpenAI, vLLM.
_TOO_LONG: Final = ("exceed_context_size", "exceeds the available context", "context_length_exceeded",
                    "maximum context length", "is longer than the maximum model length")  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class ServerText:
    """A text that a server wrote, and the numbers of tokens read and written, by the server's own count, or 0."""

    text: str
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Address:
    """The base of a server, with its /v1, and the name of a model there."""

    base: str
    model: str

    @classmethod
    def of(cls, place: str) -> Address:
        """Return what BASE_URL#MODEL names. ConfigError: it is no such address, or holds a user, a key or a query."""
        base, _, model = place.partition("#")
        try:
            parts = urlsplit(base)
            right = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:  # the port is no number, or a bracket is open
            right = False
        if not right or not model:
            raise ConfigError(
                "Expected endpoint:BASE_URL#MODEL, such as endpoint:http://127.0.0.1:8080/v1#smollm2: the base holds "
                "the /v1."
            )
        if parts.username or parts.password or parts.query:
            raise ConfigError(f"Expected an address without user, password and query: the key comes from {KEY}.")
        return cls(base.rstrip("/"), model)

    @property
    def host(self) -> str:
        """The name of the host."""
        return str(urlsplit(self.base).hostname)

    @property
    def origin(self) -> str:
        """The address without its path."""
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def is_here(self) -> bool:
        """Whether the server is on this machine, by its address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def beside(self, name: str) -> str:
        """Return the address of a path beside /v1."""
        return f"{self.base.removesuffix('/v1')}/{name}"


class _Wire:
    """What a client does on the network. It knows no client, so that a client that nobody uses can be collected.

    Attributes:
        again: number of requests that were sent again: retries, and questions whose answers were of no use.
        is_over: whether nothing more is asked.
    """

    def __init__(self) -> None:
        self.again, self.is_over, self._lock = 0, False, threading.Lock()
        self._sockets = weakref.WeakSet[socket.socket]()

    def count_again(self) -> None:
        with self._lock:
            self.again += 1

    def ask(self, request: Any) -> None:
        """Look at a request before it is sent."""
        request.extensions["trace"] = self._trace
        # The client says in a header how often it has sent a request before.
        if request.headers.get("x-stainless-retry-count", "0") != "0":
            self.count_again()

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))
                is_over = self.is_over
            if is_over:  # the client was closed while it connected: it does not know this connection
                self.end()

    def end(self) -> None:
        """End each connection at once: a thread that reads from one goes on to read after it was merely closed."""
        with self._lock:
            self.is_over, sockets = True, [*self._sockets]
        for each in sockets:
            with contextlib.suppress(OSError):  # it has ended
                each.shutdown(socket.SHUT_RDWR)


class Server:
    """A client of a server. Several threads may ask it at once."""

    def __init__(self, address: Address, *, seconds: float = _SECONDS, retries: int = _RETRIES) -> None:
        """Make the client; nothing is asked yet. MissingExtraError: its package is absent.

        ConfigError: the key cannot be sent, or would go to another machine without encryption.
        """
        with needing("The writer endpoint", "dptext[endpoint]"):
            import openai  # noqa: PLC0415 (an extra, slow to load)
        key = os.environ.get(KEY, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(f"Expected {KEY} to hold a key of plain characters, found others.")
        if key and not address.is_here and not address.base.startswith("https:"):
            raise ConfigError(f"Expected https:// for {address.host}, as the key in {KEY} goes there: or unset it.")
        logging.getLogger("openai").setLevel(logging.WARNING)  # below, it logs what is asked
        self._wire = _Wire()
        self.address, self._newer = address, False  # whether the server takes the newer names of settings alone
        # Nothing is encrypted to http:// on this machine. Where nobody is trusted, no certificates are read, for 0.1 s.
        plain = address.is_here and address.base.startswith("http:")
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True
        # A redirect could lead to another host, and a proxy would read what goes to this machine.
        http = openai.DefaultHttpxClient(
            follow_redirects=False, trust_env=not address.is_here, verify=trusted,
            event_hooks={"request": [self._wire.ask]},
        )  # fmt: skip
        self._has_key = bool(key)
        self._client: OpenAI = openai.OpenAI(
            base_url=address.base, api_key=key or "none", timeout=seconds, max_retries=retries, http_client=http
        )
        weakref.finalize(self, self._client.close)  # its connections end with this object
        self._looked = not address.is_here  # whether it is known if somebody listens

    def __repr__(self) -> str:
        return f"Server({self.address.base}, {self.address.model})"

    def completed(self, prompt: str, *, tokens: int, temperature: float, stop: str = "", **more: Any) -> ServerText:
        """Return how the model goes on with a prompt, by at most `tokens`. ServerError: the server fails."""
        given = {"stop": [stop]} if stop else {}
        create: Any = self._client.completions.create  # its types know whole numbers as biases alone
        return self._answer(
            lambda: create(
                model=self.address.model, prompt=prompt, max_tokens=tokens, temperature=temperature, **given, **more
            ),
            lambda choice: choice.text,
        )

    def answered(self, question: str, *, tokens: int, temperature: float, **more: Any) -> ServerText:
        """Return how the model answers a question, by at most `tokens`. ServerError: the server fails.

        Some models take neither `max_tokens` nor a temperature. A refused request is asked once more without them.
        """
        create: Any = self._client.chat.completions.create

        def ask() -> Any:
            set_ = {"max_completion_tokens": tokens} if self._newer else {
                "max_tokens": tokens, "temperature": temperature
            }  # fmt: skip
            return create(model=self.address.model, messages=[{"role": "user", "content": question}], **set_, **more)

        try:
            return self._answer(ask, lambda choice: choice.message.content)
        except ServerRefusedError as error:
            if self._newer or error.status not in {400, 422} or error.too_long:
                raise
            self._newer = True
            self._wire.count_again()
            try:
                return self._answer(ask, lambda choice: choice.message.content)
            except ServerRefusedError:
                self._newer = False
                raise error from None

    @property
    def again(self) -> int:
        """The number of requests that were sent again: retries, and questions whose answers were of no use."""
        return self._wire.again

    def close(self) -> None:
        """End what is being asked, and ask nothing more."""
        self._wire.end()
        self._client.close()

    def _answer(self, ask: Any, text_of: Any) -> ServerText:
        for time in range(_WRONG):
            if time:
                self._wire.count_again()
            found = self._asked(ask)
            try:
                text, usage = text_of(found.choices[0]), found.usage
                if text is None or isinstance(text, str):
                    return ServerText(text or "", _number(usage, "prompt_tokens"), _number(usage, "completion_tokens"))
            except (AttributeError, LookupError, TypeError):
                continue
        raise ServerError(f"{self.address.host} answers, but with no completions: it may speak another protocol.")

    def tokens(self, text: str) -> list[int] | None:
        """Return the tokens of a text by the server's own tokenizer; None if the server does not tell.

        llama.cpp and vLLM tell. ServerError: the server fails.
        """
        body = {
            "model": self.address.model, "content": text, "prompt": text, "add_special": False,
            "add_special_tokens": False,
        }  # fmt: skip
        try:
            found = self._asked(lambda: self._client.post(self.address.beside("tokenize"), cast_to=object, body=body))
        except ServerError as error:
            if 400 <= error.status < 429:
                return None
            raise
        tokens = found.get("tokens") if isinstance(found, Mapping) else None
        right = isinstance(tokens, Sequence) and all(isinstance(token, int) for token in tokens)
        return list(tokens) if right and tokens is not None else None

    def _asked(self, ask: Any) -> Any:
        """Ask, and return what was answered. ServerError: the server fails, or refuses."""
        import openai  # noqa: PLC0415 (an extra, slow to load)

        if not (self._looked or self._wire.is_over):
            self._require_listener()
        over = f"{self.address.origin} is asked nothing more."
        if self._wire.is_over:
            raise ServerError(over)
        try:
            return ask()
        except openai.APIStatusError as error:
            raise self._told(error.status_code, error.body) from None  # chained errors would show the request
        except openai.APITimeoutError:
            raise ServerError(
                f"{self.address.host} did not answer in {self._client.timeout:.0f} seconds, several times: ask for "
                "less at once (--set at_once=1), or look into its log."
            ) from None
        except openai.APIConnectionError as error:
            there = type(error.__cause__).__name__ not in {"ConnectError", "ConnectTimeout"}
            said = "breaks off its answers: look into its log, and give the same command again." if there else _ABSENT
            raise ServerError(f"{self.address.origin} {said}") from None
        except (openai.OpenAIError, ValueError):
            return None  # no JSON
        except RuntimeError:
            if not self._wire.is_over:
                raise
            raise ServerError(over) from None

    def _require_listener(self) -> None:
        """Raise ServerError at once if nobody listens on this machine. The client would try for 13 seconds."""
        parts = urlsplit(self.address.base)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        try:
            socket.create_connection((self.address.host, port), timeout=1, all_errors=True).close()
        except ExceptionGroup as errors:  # one for each address that localhost has
            if errors.subgroup(ConnectionRefusedError):
                raise ServerError(f"{self.address.origin} {_ABSENT}") from None
        except OSError:  # the client tries again, and says more
            pass
        self._looked = True

    def _told(self, status: int, body: object) -> ServerError:
        """Return the error for an answer of this status, with what to do. Of the body one fact alone is told."""
        host, model = self.address.host, self.address.model
        if status in {401, 403}:
            said = f"refused the key in {KEY} (status {status}): set another." if self._has_key else (
                f"wants a key (status {status}): set {KEY}."
            )  # fmt: skip
            return ServerError(f"{host} {said}", status=status)
        if 400 <= status < 429 and status not in {408, 409}:
            if any(mark in str(body).lower() for mark in _TOO_LONG):
                return ServerRefusedError(
                    f"{host} refused a request (status {status}), which is longer than its context: start the server "
                    "with a larger one, or give shorter texts (--set tokens=40).",
                    status=status, too_long=True,
                )  # fmt: skip
            path = " have no such path (most addresses end with /v1)," if status == 404 else (
                " have too small a context (start it with a larger one, or --set tokens=40),"
            )  # fmt: skip
            return ServerRefusedError(
                f"{host} refused a request (status {status}): it may know no model {model!r},{path} or be asked for "
                "chats alone (--template chat).",
                status=status,
            )
        times = f" {self._client.max_retries + 1} times" if status >= 400 else ""
        remedy = {429: "ask for less at once (--set at_once=1), or look at what your key may ask"}.get(status, (
            "look into its log" if status >= 400 else "it leads to another address: give that one"
        ))  # fmt: skip
        return ServerError(f"{host} failed{times} (status {status}): {remedy}.", status=status)


def _number(usage: Any, name: str) -> int:
    found = getattr(usage, name, None)
    return found if isinstance(found, int) else 0
