"""The client asks again under one key, whatever fails between, and gets one answer for one charge."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dptext.service import client
from gateways import Served, served

FEW = [{"text": "secret", "label": "travel"}]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_answers_that_are_lost_on_the_way(gateway: Served, monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    sent: list[str] = []

    def post(url: str, *, json: dict, headers: dict, timeout: float) -> httpx.Response:
        sent.append(headers["Idempotency-Key"])
        found = gateway.client.post(url.removeprefix("http://gateway"), json=json, headers=headers)
        if len(sent) <= lost:
            raise httpx.ReadError("the answer was lost")
        return httpx.Response(found.status_code, content=found.content, request=httpx.Request("POST", url))

    monkeypatch.setattr(client.httpx, "post", post)
    monkeypatch.setattr(client.time, "sleep", lambda _: None)
    answer = client.privatize("http://gateway", gateway.key, "labels", FEW)
    assert answer["certificate"]
    assert len(sent) == lost + 1
    assert len(set(sent)) == 1
    assert len(gateway.charges()) == 1


def test_a_refusal_is_raised_at_once(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def post(url: str, **_: object) -> httpx.Response:
        return httpx.Response(403, json={}, request=httpx.Request("POST", url))

    monkeypatch.setattr(client.httpx, "post", post)
    with pytest.raises(httpx.HTTPStatusError):
        client.privatize("http://gateway", gateway.key, "labels", FEW)


def test_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def post(*_: object, **__: object) -> httpx.Response:
        raise httpx.ConnectError("nobody is there")

    monkeypatch.setattr(client.httpx, "post", post)
    monkeypatch.setattr(client.time, "sleep", lambda _: None)
    with pytest.raises(httpx.ConnectError):
        client.privatize("http://gateway", "key", "labels", FEW, tries=3)
