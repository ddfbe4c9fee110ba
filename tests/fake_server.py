"""A server on this machine that speaks the protocol of OpenAI, and can misbehave in each way that servers do."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FIRST_TOKEN = 5_000
SUBJECTS = ("train", "ticket", "hotel", "price", "garden", "doctor", "loan", "river")


class FakeServer:
    """What was asked, and how it is answered.

    Attributes:
        asked: path, headers and body of each request.
        faults: what goes wrong with the next completions, first in, first out: a status, "cut", "json", "type", "html",
            "slow", "hangs" (until `let_go`), "empty", "same" (the prompt is repeated), "more" (nothing stops it),
            "long" (for its context) or "think"; "" is none.
        let_go: what the fault "hangs" waits for.
        newer: whether it takes `max_completion_tokens` in the place of `max_tokens`, and no temperature.
        biases: most entries of logit_bias that are taken; 0 refuses any, -1 takes and ignores them.
        counts: whether it says how many tokens it read and wrote.
        tokenizes: whether it tells tokens: line breaks, and what stands between them.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.faults: deque[str] = deque()
        self.let_go = threading.Event()
        self.biases, self.tokenizes, self.newer, self.counts, self.address = 1_000, True, False, True, ""
        self._tokens, self._lock, self._written = dict[str, int](), threading.Lock(), 0

    def token(self, text: str) -> int:
        with self._lock:
            return self._tokens.setdefault(text, FIRST_TOKEN + len(self._tokens))

    @property
    def completions(self) -> list[dict[str, Any]]:
        """The bodies of what was asked for completions, without the probe."""
        return [body for path, _, body in self.asked if path.endswith("completions") and "green" not in str(body)]

    @property
    def tokenized(self) -> list[str]:
        """The texts whose tokens were asked for."""
        return [body["content"] for path, _, body in self.asked if path == "/tokenize"]

    def text(self, body: dict[str, Any]) -> str:
        """A text that no other is like, with the words that biases favour, and the key words that are asked for."""
        with self._lock:
            self._written += 1
            n = self._written
        bias = body.get("logit_bias", {}) if self.biases >= 0 else {}
        spelled = {str(token): text for text, token in self._tokens.items()}
        forced = [spelled.get(token, "") for token, value in bias.items() if value >= 100]
        liked = [spelled.get(token, "").strip() for token, value in bias.items() if 1 <= value < 100]
        chosen = liked[n % len(liked)] if liked else ""
        return "".join(forced) or f" a {SUBJECTS[n % 8]} {chosen} for the {SUBJECTS[n // 8 % 8]} of number{n}"


@contextmanager
def serving() -> Iterator[FakeServer]:
    """Serve on a free port of this machine."""
    found = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: the second would wait for 40 ms

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def answered(self, data: bytes, status: int = 200, kind: str = "application/json", length: int = 0) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(length or len(data)))
            self.send_header("Retry-After-Ms", "10")  # else the client waits for half a second before it asks again
            with contextlib.suppress(ConnectionError):  # the client may have gone
                self.end_headers()
                self.wfile.write(data)

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if not data:  # the client was closed as it asked
                return None
            body = json.loads(data)
            found.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if self.path == "/tokenize":
                if not found.tokenizes:
                    return self.answered(b'{"error": "no such path"}', 404)
                parts = [each for each in re.split("(\n)", body["content"]) if each]
                return self.answered(json.dumps({"tokens": [found.token(each) for each in parts]}).encode())
            fault = found.faults.popleft() if found.faults else ""
            if fault == "long":
                said = {"error": {"type": "exceed_context_size_error", "message": f"no: {body.get('prompt', '')}"}}
                return self.answered(json.dumps(said).encode(), 400)
            if found.biases >= 0 and len(body.get("logit_bias", {})) > found.biases:
                return self.answered(b'{"error": "too many"}', 400)
            if found.newer and {"max_tokens", "temperature"} & {*body}:
                return self.answered(b'{"error": "unknown settings"}', 400)
            if fault.isdigit():
                prompt = body.get("prompt", "")
                return self.answered(json.dumps({"error": {"message": f"no: {prompt}"}}).encode(), int(fault))
            if fault == "html":
                return self.answered(b"<html>Welcome</html>", kind="text/html")
            if fault == "json":
                return self.answered(b'{"choices": [')
            if fault == "type":
                return self.answered(b'{"choices": [{"text": 7}]}')
            if fault == "slow":
                time.sleep(1.5)
            if fault == "hangs":
                found.let_go.wait()
            text = found.text(body)
            text = {
                "empty": "", "same": f"{body.get('prompt', '')}{text}", "more": f"{text}\ntravel: more of it\ntravel:",
                "think": "<think>\nWhat could they",
            }.get(fault, text)  # fmt: skip
            choice = {"text": text, "index": 0, "finish_reason": "stop"}
            if "messages" in body:
                choice["message"] = {"role": "assistant", "content": text}
            usage = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49} if found.counts else None
            data = json.dumps({"id": "a", "object": "text_completion", "created": 0, "model": "tiny",
                               "choices": [choice], "usage": usage}).encode()  # fmt: skip
            if fault == "cut":
                self.answered(data[:20], length=len(data))
                self.close_connection = True
                return None
            return self.answered(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    found.address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield found
    finally:
        found.let_go.set()
        server.shutdown()
        server.server_close()
