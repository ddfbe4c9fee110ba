"""What stands between the network and the routes, over sockets: nobody without a key stops it, nor does one key."""

import gzip
import inspect
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from unittest.mock import MagicMock

import httpx
import pytest

from dptext.errors import ConfigError, LedgerError
from dptext_gateway import app, guarding, server
from dptext_gateway.commands import serve
from dptext_gateway.settings import Settings
from dptext_gateway.store import JOBS
from gateways import Served, live, logged, served, traced

FEW = {"records": [{"text": "secret", "label": "travel"}]}
RELEASE = "/v1/models/labels/privatize"
PATIENT = 30.0  # seconds that a test waits for what should take none


@contextmanager
def reached(folder: Path, **settings: object) -> Iterator[tuple[Served, str]]:
    """A gateway, and its address."""
    with served(folder, **settings) as gateway, live(gateway.client.app) as url:
        yield gateway, url


def opened(url: str, sent: bytes = b"") -> socket.socket:
    """A connection on which so much was sent."""
    host, port = url.removeprefix("http://").split(":")
    found = socket.create_connection((host, int(port)), timeout=PATIENT)
    found.sendall(sent)
    return found


def head(key: str | None, path: str = RELEASE, *more: str, method: str = "POST") -> bytes:
    """The head of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway", *more]
    if key:
        lines += [f"Authorization: Bearer {key}", "Idempotency-Key: by-hand-1"]
    return "\r\n".join([*lines, "", ""]).encode()


def answered(connection: socket.socket) -> str:
    """All that comes until the other side ends the connection."""
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts).decode()


def kind(answer: httpx.Response) -> str:
    """Of a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert "secret" not in answer.text
    return answer.json()["type"].removeprefix("urn:dptext:")


def test_who_has_no_key_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """80 connections that say nothing and 38 bodies that never end, where 40 connections are held at once."""
    monkeypatch.setattr(guarding, "QUIET_SECONDS", 0.2)
    with reached(tmp_path, connections=40) as (gateway, url), ExitStack() as held:
        for _ in range(80):
            held.enter_context(opened(url))
        wrong = gateway.key[:-1] + ("a" if gateway.key[-1] != "a" else "b")
        slow = [
            held.enter_context(opened(url, head(key, path, length) + b"5\r\nsecre"))
            for i in range(19)
            for key, path in ((None, RELEASE), (wrong, "/v1/jobs?model=labels&label_field=label"))
            for length in ("Content-Length: 1000" if i % 2 else "Transfer-Encoding: chunked",)
        ]
        headers = gateway.headers()
        assert httpx.post(f"{url}{RELEASE}", json=FEW, headers=headers, timeout=PATIENT).status_code == 200
        for each in slow:
            found = answered(each)
            assert found.startswith("HTTP/1.1 401")
            assert "connection: close" in found
        assert httpx.get(f"{url}/", timeout=PATIENT).status_code == 200


def test_headers_have_a_deadline_and_a_key_has_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    with reached(tmp_path) as (gateway, url):
        with opened(url, b"GET / HTTP/1.1\r\n") as late:
            end = time.monotonic() + PATIENT
            with suppress(ConnectionResetError, BrokenPipeError):
                while time.monotonic() < end:  # each byte is in time
                    late.sendall(b"x")
                    time.sleep(0.05)
            assert time.monotonic() < end
        data = b'{"text": "secret", "label": "travel"}\n'
        path = "/v1/jobs?model=labels&label_field=label"
        with opened(url, head(gateway.key, path, f"Content-Length: {len(data)}", "Connection: close")) as slow:
            time.sleep(0.3)  # longer than who has no key may take
            slow.sendall(data)
            assert answered(slow).startswith("HTTP/1.1 202")


@pytest.mark.parametrize("path", [RELEASE, "/v1/jobs?model=labels&label_field=label"])
def test_a_whole_body_has_one_deadline(tmp_path: Path, path: str) -> None:
    """A client that sends a byte now and then, each in time, is let go; nothing of it is logged or kept."""
    with reached(tmp_path, seconds=0.5, upload_seconds=0.5) as (gateway, url), logged() as lines:
        with opened(url, head(gateway.key, path, "Content-Length: 100000")) as slow:
            slow.settimeout(0.05)
            end, found = time.monotonic() + PATIENT, b""
            while time.monotonic() < end and not found:
                slow.sendall(b"zebrafish")
                try:
                    found = slow.recv(4_096)
                except TimeoutError:
                    continue
            assert found.startswith(b"HTTP/1.1 408"), found
        assert list((tmp_path / "spool").glob("*-*")) == []
        assert "zebrafish" not in "".join(lines)


def test_requests_in_flight_of_one_key(tmp_path: Path) -> None:
    with reached(tmp_path, requests_at_once=2) as (gateway, url):
        other = gateway.gate.keys.create("other", account="reviews", scopes=("privatize",))

        def ask(key: str, name: str) -> httpx.Response:
            return httpx.post(f"{url}{RELEASE}", json=FEW, headers=gateway.headers(key, name), timeout=PATIENT)

        with (
            opened(url, head(gateway.key, RELEASE, "Content-Length: 9")) as one,
            opened(url, head(gateway.key, "/v1/jobs?model=labels&label_field=label", "Content-Length: 9")),
        ):
            end = time.monotonic() + PATIENT
            while (refused := ask(gateway.key, f"try-{time.monotonic()}")).status_code == 200:
                assert time.monotonic() < end  # until both have arrived
            assert (kind(refused), refused.headers["Retry-After"]) == ("busy", "1")
            assert ask(other, "of-another-key").status_code == 200
            one.close()
            while ask(gateway.key, "after-one-has-left").status_code != 200:
                assert time.monotonic() < end


@pytest.mark.slow_cases("settings2", why="the rate stays for files, and too large a body")
@pytest.mark.parametrize(
    ("settings", "path", "wanted"),
    [
        ({"max_body": 100_000}, RELEASE, "too-large"),
        ({"max_file": 100_000}, "/v1/jobs?model=labels&label_field=label", "too-large"),
        ({"bytes_a_minute": 50_000}, RELEASE, "rate"),
        ({"bytes_a_minute": 50_000}, "/v1/jobs?model=labels&label_field=label", "rate"),
    ],
)
def test_bodies_without_a_length_are_counted_as_they_come(
    tmp_path: Path, settings: dict, path: str, wanted: str
) -> None:
    with reached(tmp_path, **settings) as (gateway, url):
        body = (b"x" * 10_000 for _ in range(300))
        answer = httpx.post(f"{url}{path}", content=body, headers=gateway.headers(), timeout=PATIENT)
        assert kind(answer) == wanted
        assert answer.status_code == {"too-large": 413, "rate": 429}[wanted]
        assert list((tmp_path / "spool").glob("*-*")) == []


@pytest.mark.parametrize("path", [RELEASE, "/v1/jobs?model=labels&label_field=label"])
def test_a_body_has_one_length(tmp_path: Path, path: str) -> None:
    """A proxy that reads the other would take the rest of a body for a request of somebody else."""
    with reached(tmp_path) as (gateway, url):
        for more in (
            ("Content-Length: 4", "Transfer-Encoding: chunked"),
            ("Transfer-Encoding: Chunked", "Content-Length: 4"),
        ):
            sent = head(gateway.key, path, *more) + b"0\r\n\r\n" + head(None, "/healthz", method="GET")
            with opened(url, sent) as both:
                found = answered(both)
                assert found.startswith("HTTP/1.1 400")
                assert found.count("HTTP/1.1") == 1
                assert "connection: close" in found
    assert gateway.charges() == []


@pytest.mark.slow_cases("Authorization", "Content-Type", why="one header stays")
@pytest.mark.parametrize("name", ["Idempotency-Key", "Authorization", "Content-Type"])
def test_a_header_is_there_once(tmp_path: Path, name: str) -> None:
    """Of two one would be counted, and the other done."""
    with reached(tmp_path) as (gateway, url):
        once = {**gateway.headers(), "Content-Type": "application/json"}
        given = [*once.items(), (name, once[name])]
        refused = httpx.post(f"{url}{RELEASE}", json=FEW, headers=given, timeout=PATIENT)
        assert (refused.status_code, kind(refused)) == (400, "header")
        assert httpx.post(f"{url}{RELEASE}", json=FEW, headers=once, timeout=PATIENT).status_code == 200
        assert len(gateway.charges()) == 1


@pytest.mark.parametrize("chunked", [False, pytest.param(True, marks=pytest.mark.slow)])  # one framing stays
def test_room_in_the_spool(tmp_path: Path, chunked: bool) -> None:
    """What jobs keep counts until it expires, for the key that asked and for all."""
    with served(tmp_path, spool_bytes_of_key=24_000, spool_bytes=36_000, epsilon=1e6) as gateway:
        keys = [gateway.gate.keys.create(name, account="reviews", scopes=("jobs",)) for name in ("one", "two")]

        def send(key: str, name: str, size: int = 6_000) -> httpx.Response:
            row = json.dumps({"text": "secret" * (size // 6), "label": "travel"}).encode()
            content = iter([row[:100], row[100:]]) if chunked else row
            path = "/v1/jobs?model=labels&label_field=label"
            return gateway.client.post(path, content=content, headers=gateway.headers(key, name))

        assert kind(send(keys[0], "larger-than-the-quota", 13_000)) == "quota"
        for i in range(20):
            if (answer := send(keys[0], f"file-number-{i}")).status_code != 202:
                break
            gateway.ended(answer.json()["id"])
        assert kind(answer) == "quota"
        for i in range(20, 40):
            if (answer := send(keys[1], f"file-number-{i}")).status_code != 202:
                break
            gateway.ended(answer.json()["id"])
        assert (answer.status_code, kind(answer)) == (503, "spool-full")
        assert int(answer.headers["Retry-After"]) > 0
        assert list((tmp_path / "spool").glob("upload-*")) == []
        gateway.gate.store.write(JOBS.update().values(expires=0.0))
        gateway.gate.worker.sweep()
        assert send(keys[0], "after-all-have-expired").status_code == 202
        assert not gateway.gate.space._uploads.total()  # what was an upload is a job now, or gone


def test_packed_bodies_are_never_unpacked(tmp_path: Path) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    with served(tmp_path) as gateway:
        for path in (
            RELEASE,
            "/v1/models/labels/explain",
            "/v1/accounts",
            "/v1/jobs?model=labels&label_field=label",
            "/v1/synthesize",
        ):
            for coding in ("gzip", "GZIP", "gzip, gzip", "deflate", "br"):
                headers = gateway.headers(**{"Content-Encoding": coding, "Content-Type": "application/json"})
                assert kind(gateway.client.post(path, content=bomb, headers=headers)) == "encoding"


def test_a_ledger_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readiness says so at once where it is gone, soon where it says nothing; no call waits behind that."""
    over = threading.Event()
    with served(tmp_path) as gateway:
        with monkeypatch.context() as silent:
            silent.setattr(app, "PROBE_SECONDS", 0.1)
            silent.setattr(gateway.gate.ledger, "accounts", lambda: over.wait(3))
            assert kind(gateway.client.get("/readyz")) == "ledger"
            over.set()
        gateway.gate.ledger.close()
        gateway.gate.store.close()
        books = (tmp_path / "books.db").rename(tmp_path / "away.db")
        for path in ("/readyz", "/v1/models"):
            answer = gateway.client.get(path, headers=gateway.headers())
            assert (answer.status_code, kind(answer)) == (503, "ledger")
            assert int(answer.headers["Retry-After"]) > 0
        assert gateway.client.get("/healthz").status_code == 200
        books.rename(tmp_path / "books.db")
        assert gateway.client.get("/readyz").json() == {"status": "ok"}
        gateway.gate.worker.close()  # a thread that has ended runs no jobs
        assert kind(gateway.client.get("/readyz")) == "jobs"


def test_pages_elsewhere_may_ask_where_they_are_named(tmp_path: Path) -> None:
    own, other = "https://portal.example", "https://evil.example"
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    allowed = "access-control-allow-origin"
    (tmp_path / "none").mkdir()
    with served(tmp_path / "none") as gateway:
        preflight = gateway.client.options(RELEASE, headers={"Origin": own, **asking})
        assert preflight.status_code >= 400
        answer = gateway.client.get("/v1/models", headers=gateway.headers(Origin=own))
        assert {allowed} & {*preflight.headers, *answer.headers} == set()
    with served(tmp_path, origins=(own,)) as gateway:
        preflight = gateway.client.options(RELEASE, headers={"Origin": own, **asking})
        assert (preflight.status_code, preflight.headers[allowed]) == (200, own)
        for headers in (gateway.headers(Origin=own), {"Origin": own}):  # with a key and without
            found = gateway.client.get("/v1/models", headers=headers).headers
            assert found[allowed] == own
            assert "access-control-allow-credentials" not in found
        assert allowed not in gateway.client.get("/v1/models", headers=gateway.headers(Origin=other)).headers
        assert gateway.client.options(RELEASE, headers={"Origin": other, **asking}).status_code == 400


@pytest.mark.parametrize(
    "wrong",
    [
        {"origins": ("*",)},
        {"origins": ("https://portal.example/path",)},
        {"requests_at_once": 0},
        {"connections": 0},
        {"upload_seconds": 0.0},
        {"spool_bytes": -1},
        {"spool_bytes_of_key": 0},
        {"threads": 0},
        {"threads": 33},
        {"pad_bytes": -1},
        {"step_seconds": -1.0},
    ],
)
def test_limits_are_checked(tmp_path: Path, wrong: dict) -> None:
    with pytest.raises(ConfigError):
        Settings(tmp_path, "books.db", tmp_path, tmp_path / "key", **wrong)


def test_the_command_line_has_every_setting_with_its_default() -> None:
    given = {name: each.default for name, each in inspect.signature(serve).parameters.items()}
    for each in fields(Settings):
        assert each.name in given
        if each.name not in ("models", "ledger", "spool", "key_file"):
            assert (given[each.name] or ()) == (each.default or ()), each.name


def test_a_span_for_the_call_the_wait_the_draw_and_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = traced(monkeypatch)
    with served(tmp_path) as gateway:
        assert gateway.privatize(FEW["records"]).status_code == 200
        name = gateway.job(b'{"text": "secret", "label": "travel"}\n').json()["id"]
        assert gateway.ended(name)["state"] == "done"
    job = ("job", {"model": "labels", "kind": "privatize"})
    assert spans == [("privatize", {"model": "labels"}), ("queue", {}), ("mechanism", {}), job]


PUBLIC = {"/healthz", "/readyz"}


def test_the_description_says_who_may_what_goes_in_and_how_it_ends(tmp_path: Path) -> None:
    with served(tmp_path) as gateway:
        found = gateway.client.get("/openapi.json").json()
    assert found["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    routes = [(path, method, each) for path, ways in found["paths"].items() for method, each in ways.items()]
    assert len(routes) >= 19
    for path, method, each in routes:
        where, answers = f"{method} {path}", each["responses"]
        assert each["summary"], where
        good = [answers[status] for status in answers if status.startswith("2")]
        for answer in good:
            schemas = [kind["schema"] for kind in answer["content"].values()]
            assert all(schema for schema in schemas), where
        assert good, where
        problems = {status for status in answers if not status.startswith("2")}
        for status in problems:
            (media,) = answers[status]["content"]
            assert media == "application/problem+json", (where, status)
            assert {*answers[status]["content"][media]["schema"]["required"]} == {"type", "title", "status", "detail"}
        if path in PUBLIC:
            assert "security" not in each
            continue
        assert each["security"] == [{"HTTPBearer": []}], where
        assert problems >= {"401", "403", "429", "503"}, where
        assert ("404" in problems) == ("{" in path or "model" in str(each.get("parameters"))), where
        if method == "post":
            assert each["requestBody"]["required"], where
            assert each["requestBody"]["content"], where
            assert problems >= {"408", "413", "415", "422"}, where
    for path, method, each in routes:
        needed = {one["name"]: one["required"] for one in each.get("parameters", ())}
        releases = path.endswith(("/privatize", "/synthesize")) or (method, path) == ("post", "/v1/jobs")
        assert needed.get("Idempotency-Key", False) is releases, path
    files = found["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]
    assert {*files} == {"application/jsonl", "text/csv", "application/vnd.apache.parquet"}


def test_a_ledger_that_fails_while_a_key_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: str) -> None:
        raise LedgerError("The ledger secret is away.")

    with served(tmp_path) as gateway:
        monkeypatch.setattr(gateway.gate.keys, "find", away)
        assert kind(gateway.privatize(FEW["records"])) == "ledger"


def test_no_other_telemetry_than_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI tells a configured OpenTelemetry messages of exceptions, which may hold a text."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    told = MagicMock()
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: told.traces)
    monkeypatch.setattr("opentelemetry.metrics.get_meter_provider", lambda: told.metrics)
    monkeypatch.setattr("opentelemetry._logs.get_logger_provider", lambda: told.logs)
    monkeypatch.setattr("dptext_gateway.work.privatize", fails)
    monkeypatch.setattr("gateways._FREE", [])  # an application of its own, made in the sight of these
    with served(tmp_path) as gateway:
        assert gateway.privatize(FEW["records"]).status_code == 503
    assert told.mock_calls == []


JOB = "/v1/jobs?model=labels&label_field=label"
SIZE = 8_000_000  # bytes: more than sockets hold


def whole(url: str, sent: bytes, body: Iterator[bytes]) -> str:
    """The answer that a client reads which sends all that it has before it looks."""
    with opened(url, sent) as connection:
        for each in body:
            connection.sendall(each)
        return answered(connection)


@pytest.mark.slow_cases(
    *(f"True-{status}" for status in (404, 405, 413, 415, 429, 503)), why="each stays with a length, and 401 in chunks"
)
@pytest.mark.slow_cases("404", why="405 and 415 are refused as late")
@pytest.mark.parametrize(
    ("status", "key", "path", "settings"),
    [
        (401, None, JOB, {}),
        (413, "", JOB, {"max_file": SIZE - 1}),
        (413, "", RELEASE, {"max_body": SIZE - 1}),
        (429, "", JOB, {"requests_a_minute": 1}),
        (503, "", JOB, {"spool_bytes": SIZE}),
        (404, "", JOB.replace("labels", "none"), {}),
        (415, "", f"{JOB}&format=xlsx", {}),
        (405, None, "/healthz", {"max_body": 2 * SIZE}),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_refusal_is_read_by_who_still_sends(
    tmp_path: Path, status: int, key: str | None, path: str, settings: dict, chunked: bool
) -> None:
    """A connection that is closed with bytes that nobody has read is reset, and what was answered is lost."""
    block = b"x" * 65_536
    blocks = [block] * (SIZE // len(block) + 1)
    with reached(tmp_path, **settings) as (gateway, url):
        key = gateway.key if key == "" else None
        if status == 429:
            assert httpx.get(f"{url}/v1/key", headers=gateway.headers()).status_code == 200
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(blocks) * len(block)}"
        parts = [b"%x\r\n%b\r\n" % (len(each), each) for each in blocks] + [b"0\r\n\r\n"] if chunked else blocks
        found = whole(url, head(key, path, length), iter(parts))
        assert found.startswith(f"HTTP/1.1 {status}"), found[:200]
        assert "connection: close" in found
        assert found.count("HTTP/1.1") == 1
        assert list((tmp_path / "spool").glob("*-*")) == []


def test_a_refused_body_is_not_read_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "LINGER_SECONDS", 0.1)
    monkeypatch.setattr(guarding, "QUIET_SECONDS", 0.1)
    with reached(tmp_path) as (_, url), opened(url, head(None, JOB, "Content-Length: 100000000")) as endless:
        end = time.monotonic() + PATIENT
        with suppress(ConnectionResetError, BrokenPipeError):
            while time.monotonic() < end:
                endless.sendall(b"x" * 1_000)
                time.sleep(0.02)
        assert time.monotonic() < end


def test_no_trace_of_bytes_that_are_no_chunks_or_of_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no chunk, in the middle of an answer; and requests that the end of the server cuts off."""
    monkeypatch.setattr(guarding, "QUIET_SECONDS", 0.2)
    running = []
    real = server.server
    monkeypatch.setattr("gateways.server", lambda app: running.append(real(app)) or running[-1])
    with served(tmp_path) as gateway, logged() as lines, ExitStack() as held:
        with live(gateway.client.app) as url:
            running[0].config.timeout_graceful_shutdown = 0.05
            with opened(url, head(None, JOB, "Transfer-Encoding: chunked")) as odd:
                assert odd.recv(100).startswith(b"HTTP/1.1 401")
                odd.sendall(b"no chunk\r\n\r\n")
                answered(odd)
            slow = held.enter_context(opened(url, head(gateway.key, RELEASE, "Content-Length: 9")))
            held.enter_context(opened(url, head(gateway.key, JOB, "Content-Length: 9") + b"1"))
            time.sleep(0.2)
        assert answered(slow).startswith("HTTP/1.1 503")
    assert not [each for each in lines if not each.endswith(" None") or "Exception" in each], lines
