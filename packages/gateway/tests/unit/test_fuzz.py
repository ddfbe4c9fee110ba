"""Requests that nobody should send: from the schema, and by hand. No 5xx but 503, and no private byte in an answer."""

import itertools
import json
import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings

from dptext_gateway.store import JOBS, OPEN
from gateways import Served, logged, served, traced

schemathesis = pytest.importorskip("schemathesis")
CANARY = "zebrafish-4711"
#: What the client does not send.
REFUSED = ("InvalidURL", "LocalProtocolError", "UnicodeEncodeError", "ValueError", "TypeError")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, epsilon=1e6, requests_a_minute=10**7, max_body=100_000, max_file=100_000) as found:
        yield found


def require_fine(answer, named: str = "") -> None:
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    assert CANARY not in (answer.text.replace(named, "") if named else answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] in ("application/problem+json", "text/plain; charset=utf-8")
    assert "Traceback" not in answer.text


@pytest.mark.slow  # requests by hand stay, and test_the_description_says_who_may_what_goes_in_and_how_it_ends
@pytest.mark.parametrize("n", [1, 120])
def test_requests_of_the_schema(gateway: Served, n: int) -> None:
    schema = schemathesis.openapi.from_dict(gateway.client.get("/openapi.json").json())
    sent = 0
    headers = gateway.headers(gateway.admin, "schema-request")
    headers_of_team = gateway.headers(None, None)
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events") and "jobs" in operation.path:
            continue  # it may go on for ever

        @settings(
            max_examples=n, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True
        )
        @given(case=operation.as_strategy())
        def send(case) -> None:
            nonlocal sent
            wanted = case.as_transport_kwargs(base_url="http://testserver")
            body = {name: wanted[name] for name in ("json", "content") if wanted.get(name) is not None}
            if wanted.get("data") is not None:
                body["content"] = wanted["data"]
            for own in (headers, {**headers_of_team, "Idempotency-Key": f"schema-request-{sent}"}):
                try:
                    answer = gateway.client.request(
                        wanted["method"], wanted["url"], params=wanted.get("params"), headers=own, **body
                    )
                except Exception as error:
                    if type(error).__name__ not in REFUSED:
                        raise
                    continue
                sent += 1
                assert answer.status_code < 500 or answer.status_code == 503, (case.method, case.path)
                described = {*case.operation.definition.raw["responses"], "404", "405"}  # of a path that is none
                assert str(answer.status_code) in described, (case.method, case.path)

        send()
    assert sent >= 20 * n


ODD = [
    "", " ", "\0", "..", "../../etc/passwd", "%2e%2e%2f", "%00", "a" * 5_000, "'; DROP TABLE gateway_keys; --",
    "{{7*7}}",
    "<script>alert(1)</script>", "\u202e", "\ud83d\ude00", "%ff%fe", "labels/../../books.db", "labels%2f..", "*", "?",
    "NaN", "-1", "1e999", "null", "true", "[]", "{}", "${jndi:ldap://x}", "\r\nX-Odd: 1", "a b", "\t", "~", CANARY,
]  # fmt: skip


def by_hand(key: str) -> Iterator[tuple[str, str, dict, bytes]]:
    """Method, path, headers, body."""
    bodies = [
        b"",
        b"\xff" * 100,
        f'{{"records": [{{"text": "{CANARY}"}}]}}'.encode(),
        f'{{"records": [{{"text": "{CANARY}", "label": "{CANARY}"}}]}}'.encode(),
        b'{"records": ' + b"[" * 50_000,
        b'{"records": [{"text": "' + b"x" * 99_000 + b'", "label": "travel"}]}',
        f'{{"records": [{{"text": 1, "{CANARY}": 2}}]}}'.encode(),
        b'{"records": [{"text": "a", "label": "travel", "id": "1"}, {"text": "b", "label": "travel", "id": "1"}]}',
        b'{"records": [{"text": "a", "label": "travel"}], "max_per_author": 1}',
        b'{"records": [{"text": "a", "label": "travel"}], "delta": 1e-400}',
    ]
    own = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    for odd, path in itertools.product(ODD, ("/v1/models/{}", "/v1/jobs/{}", "/v1/accounts/{}", "/{}")):
        yield "GET", path.format(odd), own, b""
    for number, odd in enumerate(ODD):
        yield "GET", "/v1/models", {"Authorization": f"Bearer {odd}"}, b""
        yield "GET", f"/v1/events?last={odd}", own, b""
        yield "GET", f"/v1/topics/{odd}", own, b""
        yield "DELETE", f"/v1/jobs/{odd}", own, b""
        yield "GET", f"/v1/jobs/{odd}/legal", own, b""
        yield "GET", f"/v1/summaries/{odd}", own, b""
        yield "POST", f"/v1/summaries/{odd}/write", own, b"{}"
        yield "POST", f"/v1/summaries/{'0' * 32}/write", own, f'{{"mix": {{"{CANARY}": {number}}}}}'.encode()
        yield "GET", f"/v1/models/labels/cost?max_per_author={odd}", own, b""
        yield "GET", "/v1/models", {**own, "X-Forwarded-For": odd, "Host": "odd", "Cookie": odd}, b""
        yield "GET", "/v1/models", {"Authorization": odd}, b""
        yield "POST", "/v1/models/labels/privatize", {**own, "Idempotency-Key": odd}, bodies[3]
        for i, query in enumerate(("model=labels&text_field={}", "model={}", "model=labels&format={}")):
            headers = {**own, "Idempotency-Key": f"odd-{i}-number-{number}"}  # its own: each is a job where it can be
            yield "POST", f"/v1/jobs?label_field=label&{query.format(odd)}", headers, bodies[2]
        yield "POST", "/v1/accounts", own, f'{{"name": "{CANARY}", "epsilon": "{len(odd)}"}}'.encode()
    methods = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE")
    for method, path in itertools.product(methods, ("/v1/models", "/v1/jobs", "/metrics", "/healthz", "/", "/nothing")):
        yield method, path, own, b"x"
    for i, (body, path) in enumerate(
        itertools.product(
            bodies, ("models/labels/privatize", "models/labels/explain", "accounts", "jobs", "synthesize")
        )
    ):
        yield "POST", f"/v1/{path}", {**own, "Idempotency-Key": f"body-number-{i}"}, body
    kinds = ("text/plain", "application/xml", "multipart/form-data", "application/json; charset=utf-16", "", "odd")
    for i, kind in enumerate(kinds):
        headers = {**own, "Content-Type": kind, "Idempotency-Key": f"kind-number-{i}"}
        yield "POST", "/v1/models/labels/privatize", headers, bodies[3]
    for length in ("-1", "abc", "99999999999999999999", "1"):
        yield "POST", "/v1/models/labels/explain", {**own, "Content-Length": length}, b"{}"
    for coding in ("gzip", "deflate", "br", "gzip, gzip", "odd"):
        yield (
            "POST",
            "/v1/jobs?model=labels",
            {**own, "Content-Encoding": coding, "Idempotency-Key": "coded-body"},
            b"x",
        )


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_requests_by_hand(gateway: Served, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Each request; or each sixteenth, those that may draw, and those with the canary in their path."""
    sent, spans = 0, traced(monkeypatch)
    with logged() as lines:
        for i, (method, path, headers, body) in enumerate(by_hand(gateway.key)):
            if i % step and not path.endswith("/privatize") and CANARY not in path:
                continue
            try:
                answer = gateway.client.request(method, path, headers=headers, content=body)
            except Exception as error:
                if type(error).__name__ not in REFUSED:
                    raise
                continue
            sent += 1
            # A list of jobs says how whoever sent them called a field.
            require_fine(answer, f"'{CANARY}'" if (method, path) == ("GET", "/v1/jobs") else "")
    assert sent >= 500 // step
    assert CANARY not in "".join(lines)
    assert {name for name, _ in spans} >= {"privatize", "queue", "mechanism"}
    assert CANARY not in str(spans)
    told = gateway.client.get("/metrics", headers=gateway.headers(gateway.admin)).text
    assert 'dptext_released_total{model="labels"}' in told
    assert CANARY not in told
    # A stored name is what a caller called a field; the word is in no other column of any table, nor beside the books.
    named = [row for row in gateway.gate.store.rows(sa.select(JOBS)) if CANARY in row.settings]
    assert [json.loads(row.settings)["text_field"] for row in named] == [CANARY]
    while gateway.gate.store.rows(sa.select(JOBS.c.id).where(JOBS.c.state.in_(OPEN))):
        time.sleep(0.05)
    with sqlite3.connect(gateway.folder / "books.db") as books:
        books.text_factory = bytes
        tables = [name.decode() for (name,) in books.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = set()
        for table in tables:
            rows = books.execute(f'SELECT * FROM "{table}"')  # noqa: S608  # names of our tables
            columns = [each[0] for each in rows.description]
            found |= {
                (table, name)
                for row in rows
                for name, value in zip(columns, row, strict=True)
                if isinstance(value, bytes) and CANARY.encode() in value
            }
    assert {("gateway_jobs", "settings")} <= found <= {("gateway_jobs", "settings"), ("gateway_jobs", "problem")}


def test_random_bytes_as_files(gateway: Served) -> None:
    rng = random.Random(4)
    for i in range(6):
        kind = ("jsonl", "csv", "parquet")[i % 3]
        data = rng.randbytes(rng.randrange(0, 3_000)) + CANARY.encode()
        answer = gateway.job(data, f"random-file-{i}", format=kind)
        require_fine(answer)
        found = gateway.ended(answer.json()["id"])
        assert found["state"] == "failed"
        assert CANARY not in str(found)
