"""The client asks again under one key, whatever fails between, and gets one answer for one charge."""

import csv
import json
import re
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from commands import dptext
from dptext_gateway import client
from dptext_gateway.client import GatewayError
from gateways import Served, add_summary, inbox, served

FEW = [{"text": "secret", "label": "travel"}]
Answer = Callable[[], httpx.Response]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


class Clock:
    """Time that passes only where the client sleeps."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.slept = 0.0, []
        patch.setattr(client.time, "monotonic", lambda: self.now)
        patch.setattr(client.time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def refusing(status: int, *, seconds: str | None = None, problem: dict | None = None) -> httpx.Response:
    headers = {} if seconds is None else {"Retry-After": seconds}
    if problem is not None:
        headers["Content-Type"] = "application/problem+json"
    return httpx.Response(status, json=problem or {}, headers=headers)


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_answers_that_are_lost_on_the_way(gateway: Served, monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    sent: list[str] = []

    def post(url: str, *, content: str, headers: dict, **more: object) -> httpx.Response:
        sent.append(headers["Idempotency-Key"])
        found = gateway.client.post(url.removeprefix("http://gateway"), content=content, headers=headers)
        if len(sent) <= lost:
            raise httpx.ReadError("the answer was lost")
        return httpx.Response(found.status_code, content=found.content)

    monkeypatch.setattr(client.httpx, "post", post)
    Clock(monkeypatch)
    answer = client.privatize("http://gateway", gateway.key, "labels", FEW)
    assert answer["certificate"]
    assert len(sent) == lost + 1
    assert len(set(sent)) == 1
    assert len(gateway.charges()) == 1


def test_a_lost_answer_is_asked_for_by_the_key_of_the_error(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []

    def post(url: str, *, content: str, headers: dict, **more: object) -> httpx.Response:
        found = gateway.client.post(url.removeprefix("http://gateway"), content=content, headers=headers)
        answers.append(found.json())
        if len(answers) == 1:
            raise httpx.ReadError("the answer was lost")
        return httpx.Response(200, json=found.json())

    monkeypatch.setattr(client.httpx, "post", post)
    Clock(monkeypatch)
    with pytest.raises(GatewayError) as failed:
        client.privatize("http://gateway", gateway.key, "labels", FEW, patience=0)
    again = client.privatize("http://gateway", gateway.key, "labels", FEW, idempotency_key=failed.value.idempotency_key)
    assert again == answers[0]
    assert len(gateway.charges()) == 1
    shown = f"{failed.value!r} {failed.value}"
    assert failed.value.idempotency_key in shown
    assert gateway.key not in shown
    assert "secret" not in shown
    assert failed.value.__cause__ is failed.value.__context__ is None  # httpx's errors hold the request


def test_it_waits_for_longer_than_a_lease(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server died in the middle: its attempt blocks the next one until its lease is over."""
    clock, lease = Clock(monkeypatch), gateway.gate.answers.seconds

    def post(url: str, **_: object) -> httpx.Response:
        left = lease - clock.now
        return refusing(409, seconds=str(round(left))) if left > 0 else httpx.Response(200, json={"releases": ""})

    monkeypatch.setattr(client.httpx, "post", post)
    assert client.privatize("http://gateway", "key", "labels", FEW) == {"releases": ""}
    assert clock.slept == [lease]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: refusing(429, seconds="7"),
        lambda: refusing(502),  # of a proxy whose gateway starts anew
        lambda: refusing(504, seconds="Wed, 21 Oct 2026 07:28:00 GMT"),
    ],
)
def test_what_passes_is_waited_for(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    answers, clock = [httpx.Response(200, json={"releases": ""}), answer(), answer()], Clock(monkeypatch)
    monkeypatch.setattr(client.httpx, "post", lambda *_, **__: answers.pop())
    assert client.privatize("http://gateway", "key", "labels", FEW) == {"releases": ""}
    assert clock.slept in ([7, 7], [1, 2])


def test_a_refusal_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"type": "urn:dptext:budget-exhausted", "detail": "Nothing is left.", "missing": "2"}
    monkeypatch.setattr(client.httpx, "post", lambda *_, **__: refusing(403, problem=problem))
    clock = Clock(monkeypatch)
    with pytest.raises(GatewayError, match="Nothing is left") as refused:
        client.privatize("http://gateway", "key", "labels", FEW)
    assert (refused.value.status, refused.value.problem) == (403, problem)
    assert clock.slept == []


@pytest.mark.parametrize("patience", [0.0, 90.0])
def test_it_gives_up(monkeypatch: pytest.MonkeyPatch, patience: float) -> None:
    def post(*_: object, **__: object) -> httpx.Response:
        raise httpx.ConnectError("nobody is there")

    monkeypatch.setattr(client.httpx, "post", post)
    clock = Clock(monkeypatch)
    with pytest.raises(GatewayError, match="Nobody answered"):
        client.privatize("http://gateway", "key", "labels", FEW, patience=patience)
    assert patience / 2 <= clock.now <= patience


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<h1>Sign in</h1>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"status": "ok"}),
        httpx.Response(200, content=b"\x1f\x8b nothing", headers={"Content-Encoding": "identity"}),
    ],
)
def test_what_is_no_answer_is_none(monkeypatch: pytest.MonkeyPatch, answer: httpx.Response) -> None:
    """Such as a proxy's way to sign in; whoever asks again pays once."""
    monkeypatch.setattr(client.httpx, "post", lambda *_, **__: answer)
    Clock(monkeypatch)
    with pytest.raises(GatewayError, match=r"HTTP 200.*idempotency_key=.* asks for the same answer again"):
        client.privatize("http://gateway", "key", "labels", FEW)


@pytest.mark.parametrize(
    ("url", "key", "idempotency_key"),
    [("{}", "key", None), ("http://{}", "ke\ny", None), ("http://{}", "key", "12345678\n")],
)
def test_what_cannot_be_asked_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, url: str, key: str, idempotency_key: str | None
) -> None:
    clock = Clock(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = url.format(f"127.0.0.1:{there.getsockname()[1]}")
        with pytest.raises(GatewayError, match="Expected an address like https://HOST") as refused:
            client.privatize(address, key, "labels", FEW, idempotency_key=idempotency_key)
    assert clock.slept == []
    assert "secret" not in f"{refused.value!r}"
    assert refused.value.__cause__ is refused.value.__context__ is None


class Wire:
    """What the client asks reaches a gateway in this process; the first answers are lost on the way back."""

    def __init__(self, gateway: Served, patch: pytest.MonkeyPatch, lost: int = 0) -> None:
        self.gateway, self.lost, self.asked = gateway, lost, list[str]()
        patch.setattr(client.httpx, "post", partial(self.request, "POST"))
        patch.setattr(client.httpx, "get", partial(self.request, "GET"))
        patch.setattr(client, "LOOK", 0.02)

    def request(self, method: str, url: str, *, timeout: float, verify: object, **more: Any) -> httpx.Response:
        self.asked.append(url.removeprefix("http://gateway"))
        if "content" in more:
            more["content"] = more["content"].read()
        found = self.gateway.client.request(method, self.asked[-1], **more)
        self.lost -= 1
        if self.lost >= 0:
            raise httpx.ReadError("the answer was lost")
        return httpx.Response(found.status_code, content=found.content, headers={"Retry-After": "0"})


def columns(folder: Path) -> Path:
    """A CSV file whose columns have names of their own."""
    rows = [json.loads(line) for line in inbox().splitlines()]
    with (folder / "mail.CSV").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["body", "topic", "channel"], *([e["text"], e["label"], e["channel"]] for e in rows)])
    return folder / "mail.CSV"


@pytest.mark.parametrize("lost", [0, 1])
def test_a_file_is_measured_once_and_written_from_again_and_again(
    gateway: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    add_summary(tmp_path / "models")
    wire, file = Wire(gateway, monkeypatch, lost), columns(tmp_path)
    summary = client.summarize("http://gateway/", gateway.key, "inbox", file, text="body", label="topic")
    assert wire.asked.count("/v1/synthesize") == lost + 1
    assert len(gateway.charges()) == 1
    corpora = [
        client.write("http://gateway", gateway.key, summary, tmp_path / "corpora", size=40, mix=mix, format=kind)
        for kind, mix in (("csv", None), ("jsonl", {"travel": 1.0}))
    ]
    for corpus, suffix in zip(corpora, (".csv", ".jsonl"), strict=True):
        assert corpus.suffix == suffix
        explained = dptext("explain", corpus, "--ledger", tmp_path / "books.db")
        assert explained.returncode == 0, explained.stderr
    rows = [json.loads(line) for line in corpora[1].read_text("utf-8").splitlines()]
    assert {each["topic"] for each in rows} == {"travel"}
    assert len(gateway.charges()) == 1


def test_the_example_of_the_readme_writes_a_corpus(
    gateway: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines run in this process, with a model that has a column more. `make test-all` runs them in a shell."""
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    (example,) = re.findall(r"python - <<'END'\n(.+?)\nEND\n", readme, re.DOTALL)
    add_summary(tmp_path / "models")
    wire = Wire(gateway, monkeypatch)
    (tmp_path / "private.jsonl").write_text(inbox(), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY", gateway.key)
    exec(example.replace("http://127.0.0.1:8000", "http://gateway"), {})  # noqa: S102  # our own page
    assert wire.asked.count("/v1/synthesize") == 1
    written = Path(capsys.readouterr().out.removeprefix("Written: ").strip())
    assert len(written.read_text("utf-8").splitlines()) == 90
    assert {each.name.removeprefix(written.name) for each in (tmp_path / "corpora").iterdir()} >= {
        "",
        ".guarantee.json",
    }


def test_a_summary_that_fails_says_why_and_asks_for_nothing_again(
    gateway: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_summary(tmp_path / "models")
    Wire(gateway, monkeypatch)
    with pytest.raises(GatewayError, match=r"lacks a column.*Nothing was charged\.$") as failed:
        client.summarize("http://gateway", gateway.key, "inbox", columns(tmp_path), label="topic")
    assert failed.value.problem["state"] == "failed"
    with pytest.raises(GatewayError, match="no such job") as refused:
        client.write("http://gateway", gateway.key, "0" * 32, tmp_path)
    assert (refused.value.status, refused.value.idempotency_key) == (404, "")
    with pytest.raises(GatewayError, match=r"has not ended yet.*asks for the same answer again"):
        client.summarize(
            "http://gateway", gateway.key, "inbox", columns(tmp_path), text="body", label="topic", patience=0
        )


def test_a_text_that_no_encoding_has_is_refused_without_it(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def post(url: str, *, content: str, headers: dict, **more: object) -> httpx.Response:
        return gateway.client.post(url.removeprefix("http://gateway"), content=content, headers=headers)

    monkeypatch.setattr(client.httpx, "post", post)
    with pytest.raises(GatewayError) as refused:
        client.privatize(
            "http://gateway/", f"{gateway.key}\n", "labels", [{"text": "secret \ud800", "label": "travel"}]
        )
    assert refused.value.status == 422
    assert "secret" not in f"{refused.value!r}"
    assert gateway.charges() == []
