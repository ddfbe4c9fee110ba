"""The client of a server that speaks the protocol of OpenAI, with servers that misbehave."""

from __future__ import annotations

import gc
import io
import logging
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openai")

from dptext.errors import ConfigError, ServerError, ServerRefusedError
from dptext.language.server import KEY, Address, Server
from fake_server import FakeServer, serving

PROMPT, SECRET = "a secret prompt of mine", "sk-secret-key"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nothing is there
    with serving() as found:
        yield found


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What all loggers say, the most talkative ones too."""
    found = io.StringIO()
    handler, root = logging.StreamHandler(found), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def client(fake: FakeServer, seconds: float = 30.0, retries: int = 2) -> Server:
    return Server(Address.of(f"{fake.address}#tiny"), seconds=seconds, retries=retries)


@pytest.mark.parametrize("doing", ["looks", "connects", "reads"])
def test_a_closed_client_ends_what_is_being_asked(
    doing: str, fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connects, goes_on, connect = threading.Event(), threading.Event(), socket.create_connection
    at_once, said = [True] * (doing == "connects"), list[str]()  # the client looks first if somebody listens

    def slowly(*args: Any, **named: Any) -> socket.socket:
        if not at_once:
            connects.set()
            goes_on.wait()
        at_once.clear()
        return connect(*args, **named)

    def ask() -> None:
        try:
            server.completed(PROMPT, tokens=7, temperature=0.5)
        except ServerError as error:
            said.append(str(error))

    if doing != "reads":
        monkeypatch.setattr(socket, "create_connection", slowly)
    fake.faults.append("hangs")
    server = client(fake, retries=0)
    asking = threading.Thread(target=ask)
    asking.start()
    if doing != "reads":
        connects.wait()
    while doing == "reads" and not fake.asked:
        asking.join(0.01)
    server.close()
    goes_on.set()
    asking.join(30)
    assert not asking.is_alive()  # the server has not answered yet
    assert len(fake.asked) == (doing == "reads")
    if doing == "looks":
        assert said == [f"{server.address.origin} is asked nothing more."]
    gc.collect()  # a socket that nobody closed warns, and fails


def test_a_client_that_nobody_uses_is_closed(fake: FakeServer) -> None:
    server = client(fake)
    server.completed(PROMPT, tokens=7, temperature=0.5)
    kept = weakref.ref(server)
    del server
    gc.collect()
    assert kept() is None


def test_a_completion_and_an_answer(fake: FakeServer) -> None:
    server = client(fake)
    found = server.completed(PROMPT, tokens=7, temperature=0.5, stop="\n", logit_bias={"5": 1.5})
    assert found.text.startswith(" a ")
    assert (found.read, found.written) == (40, 9)
    path, headers, body = fake.asked[0]
    assert path == "/v1/completions"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert body == {
        "model": "tiny", "prompt": PROMPT, "max_tokens": 7, "temperature": 0.5, "stop": ["\n"],
        "logit_bias": {"5": 1.5},
    }  # fmt: skip
    assert server.answered("Why?", tokens=7, temperature=0.5).text.startswith(" a ")
    assert fake.asked[1][2]["messages"] == [{"role": "user", "content": "Why?"}]


@pytest.mark.parametrize("fault", ["429", "500", "503", "cut", "json", "html", "type", "slow"])
def test_a_fault_that_passes_is_tried_again(fault: str, fake: FakeServer) -> None:
    fake.faults.append(fault)
    server = client(fake, seconds=0.6 if fault == "slow" else 30.0)
    assert server.completed(PROMPT, tokens=7, temperature=0.5).text.startswith(" a ")
    assert len(fake.asked) == 2


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("401", ServerError, f"refused the key in {KEY} (status 401): set another"),
        ("403", ServerError, f"refused the key in {KEY} (status 403)"),
        ("404", ServerRefusedError, "may know no model 'tiny', have no such path (most addresses end with /v1)"),
        ("400", ServerRefusedError, "(status 400): it may know no model 'tiny', have too small a context"),
        ("long", ServerRefusedError, "(status 400), which is longer than its context: start the server with a larger"),
        ("422", ServerRefusedError, "status 422"),
        ("429", ServerError, "failed 2 times (status 429): ask for less at once (--set at_once=1)"),
        ("500", ServerError, "failed 2 times (status 500): look into its log"),
        ("cut", ServerError, "breaks off its answers: look into its log"),
        ("json", ServerError, "no completions"),
        ("html", ServerError, "no completions"),
        ("type", ServerError, "no completions"),
        ("slow", ServerError, "did not answer in 1 seconds, several times: ask for less at once"),
        ("307", ServerError, "(status 307): it leads to another address"),
    ],
)
def test_a_fault_that_stays_is_told_without_texts_and_keys(
    fault: str, error: type[Exception], said: str, fake: FakeServer, logged: io.StringIO
) -> None:
    fake.faults.extend([fault] * 40)
    server = client(fake, seconds=0.6 if fault == "slow" else 30.0, retries=1)
    with pytest.raises(error) as caught:
        server.completed(PROMPT, tokens=7, temperature=0.5)
    assert said in str(caught.value)
    told = [str(caught.value), repr(caught.value), repr(server), logged.getvalue()]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert not any(PROMPT in each or SECRET in each for each in told)


def test_a_server_that_is_not_there(fake: FakeServer) -> None:
    with pytest.raises(ServerError) as caught:
        Server(Address.of("http://127.0.0.1:9/secret/v1#tiny"), retries=0).completed(PROMPT, tokens=7, temperature=0.5)
    assert str(caught.value) == (
        "http://127.0.0.1:9 cannot be reached: start the server, and check the address, with its port and its /v1."
    )


@pytest.mark.parametrize("place", ["http://127.0.0.1:9/v1", "http://localhost:9/v1", "https://127.0.0.1:9/v1"])
def test_where_nobody_listens_on_this_machine_is_said_at_once(place: str, fake: FakeServer) -> None:
    began = time.monotonic()
    with pytest.raises(ServerError, match="cannot be reached: start the server"):
        Server(Address.of(f"{place}#tiny")).completed(PROMPT, tokens=7, temperature=0.5)
    assert time.monotonic() - began < 5  # the client's own tries take at least 11 seconds


def test_localhost_has_two_addresses(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one may be of a network that is off."""

    def refused(*_: Any, **__: Any) -> None:
        raise ExceptionGroup("", [ConnectionRefusedError("refused"), OSError("no such address")])

    monkeypatch.setattr(socket, "create_connection", refused)
    with pytest.raises(ServerError, match="cannot be reached: start the server"):
        Server(Address.of("http://localhost:9/v1#tiny")).completed(PROMPT, tokens=7, temperature=0.5)


def test_a_server_that_wants_a_key_where_none_is_set(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY)
    fake.faults.append("401")
    with pytest.raises(ServerError, match=rf"wants a key \(status 401\): set {KEY}\.$"):
        client(fake).completed(PROMPT, tokens=7, temperature=0.5)


def test_what_is_too_long_is_not_asked_again(fake: FakeServer) -> None:
    fake.faults.append("long")
    server = client(fake)
    with pytest.raises(ServerRefusedError, match="longer than its context") as caught:
        server.answered("Why?", tokens=7, temperature=0.5)
    assert (caught.value.too_long, len(fake.asked), server.again) == (True, 1, 0)


@pytest.mark.parametrize("fault", ["429", "500", "cut", "json", "type"])
def test_what_is_sent_again_is_counted(fault: str, fake: FakeServer) -> None:
    server = client(fake)
    fake.faults.extend([fault, fault])
    server.completed(PROMPT, tokens=7, temperature=0.5)
    assert (len(fake.asked), server.again) == (3, 2)
    fake.newer = True
    server.answered("Why?", tokens=7, temperature=0.5)
    assert (len(fake.asked), server.again) == (5, 3)


def test_an_empty_text_is_an_answer(fake: FakeServer) -> None:
    fake.faults.append("empty")
    assert client(fake).completed(PROMPT, tokens=7, temperature=0.5).text == ""
    assert len(fake.asked) == 1


def test_tokens_by_the_server(fake: FakeServer) -> None:
    assert client(fake).tokens(" cinema") == [fake.token(" cinema")]
    assert client(fake).tokens("\n cinema") == [fake.token("\n"), fake.token(" cinema")]
    fake.tokenizes = False
    assert client(fake).tokens(" cinema") is None


@pytest.mark.parametrize(
    "place",
    [
        *("", "http://127.0.0.1:8080/v1", "#tiny", "127.0.0.1:8080/v1#tiny", "ftp://127.0.0.1/v1#tiny", "http:///v1#m"),
        *("http://[::1/v1#m", "http://h:abc/v1#m", "http://h:80800/v1#m"),
    ],
)
def test_what_is_no_address_is_refused(place: str) -> None:
    with pytest.raises(ConfigError, match="Expected endpoint:BASE_URL#MODEL"):
        Address.of(place)


@pytest.mark.parametrize("place", ["http://me:word@h/v1#m", "https://h/v1?key=word#m"])
def test_an_address_with_a_secret_is_refused_without_repeating_it(place: str) -> None:
    with pytest.raises(ConfigError, match="without user, password and query") as caught:
        Address.of(place)
    assert "word@" not in str(caught.value)
    assert "key=word" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("localhost", True), ("[::1]", True), ("192.168.1.7", False),
        ("example.org", False), ("localhost.example.org", False), ("10.0.0.1", False),
    ],
)  # fmt: skip
def test_which_hosts_are_this_machine(host: str, here: bool) -> None:
    assert Address.of(f"http://{host}:80/v1#m").is_here is here


@pytest.mark.parametrize(
    ("place", "key", "said"),
    [
        ("http://example.org/v1#m", SECRET, f"https:// for example.org, as the key in {KEY} goes there"),
        ("http://127.0.0.1:80/v1#m", "sk-\u00e9", "plain characters"),
        ("http://127.0.0.1:80/v1#m", "sk-a\nb", "plain characters"),
        ("https://example.org/v1#m", SECRET, ""),
        ("http://example.org/v1#m", "", ""),
        ("http://127.0.0.1:80/v1#m", f"{SECRET}\n", ""),
    ],
)
def test_a_key_goes_nowhere_unencrypted(place: str, key: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, key)
    if not said:
        Server(Address.of(place)).close()
        return
    with pytest.raises(ConfigError, match=said) as caught:
        Server(Address.of(place))
    assert not key or key not in str(caught.value)


def test_a_model_that_takes_the_newer_settings_alone(fake: FakeServer) -> None:
    fake.newer = True
    server = client(fake)
    for _ in range(2):
        assert server.answered("Why?", tokens=7, temperature=0.5).text.startswith(" a ")
    assert [body.get("max_completion_tokens") for _, _, body in fake.asked] == [None, 7, 7]
    with pytest.raises(ServerRefusedError, match="asked for chats alone"):
        server.completed(PROMPT, tokens=7, temperature=0.5)


def test_a_refused_question_is_asked_twice_and_the_first_answer_told(fake: FakeServer) -> None:
    fake.faults.extend(["400", "422"])
    server = client(fake)
    with pytest.raises(ServerRefusedError, match="status 400"):
        server.answered("Why?", tokens=7, temperature=0.5)
    assert server.answered("Why?", tokens=7, temperature=0.5).text
    assert "max_tokens" in fake.asked[-1][2]
