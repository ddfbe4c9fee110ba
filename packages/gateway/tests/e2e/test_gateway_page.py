"""The page of the gateway in a real browser: sign in, release, refuse, a file with progress, reload, download."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import dptext as dp
from commands import dptext
from dptext_gateway import worker
from dptext_gateway.store import ANSWERS, JOBS
from gateway_pages import Page
from many_files import rows

pytestmark = pytest.mark.slow
PICTURES = Path(__file__).parents[4] / "build" / "page"


def test_a_visit(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, reloaded, run = page.shown, threading.Event(), worker.privatize_file
    monkeypatch.setattr(worker, "privatize_file", lambda *given, **more: (reloaded.wait(120), run(*given, **more))[1])
    page.sign_in("dptext_000000000000_" + "x" * 43)
    page.status("This key is wrong, has expired or was revoked.")
    assert shown.value("document.getElementById('signed-in').hidden")
    page.sign_in(page.key)
    page.status("Signed in. 2 models")
    assert page.key not in str(shown.value("document.documentElement.outerHTML"))
    shown.until("document.getElementById('budget').textContent.includes('0 of 9 spent')")
    shown.until("document.getElementById('cost').textContent.includes('epsilon 2')")
    page.type("texts", "my secret trip\nanother one <b>bold</b>\n")
    page.press("#texts-form button")
    page.status("Released 2 texts")
    assert "my secret trip" in page.text("pairs")
    assert "<b>bold</b>" in page.text("pairs")  # as text
    assert "epsilon 2" in page.text("certificate")
    shown.until("document.getElementById('budget').textContent.includes('2 of 9 spent')")
    page.press("#save-releases")
    page.press("#save-certificate")
    page.downloaded("releases-1.jsonl")
    page.downloaded("releases-1.jsonl.guarantee.json")
    told = dptext("explain", tmp_path / "downloads" / "releases-1.jsonl", "--ledger", tmp_path / "books.db")
    assert told.returncode == 0, told.stderr

    # A file, with a reload in the middle.
    lines = "".join(json.dumps(row) + "\n" for row in rows(400))
    page.drop(lines)
    page.type("label-field", "label")
    page.press("#file-form button")
    shown.until("location.hash.length > 10")
    page.until("job-state", "is running")
    shown.reload()
    shown.until("document.readyState === 'complete' && !document.getElementById('sign-in').hidden")
    page.sign_in(page.key)
    page.until("job-state", "is running")
    reloaded.set()
    page.status("The job is done")
    shown.until("document.getElementById('job-words').textContent.includes('400 records')")
    page.press("#job-result")
    page.press("#job-certificate")
    page.downloaded("result-2.jsonl")
    page.downloaded("result-2.jsonl.guarantee.json")
    told = dptext("explain", tmp_path / "downloads" / "result-2.jsonl", "--ledger", tmp_path / "books.db")
    assert told.returncode == 0, told.stderr
    assert "400 records" in told.stdout
    PICTURES.mkdir(parents=True, exist_ok=True)
    shown.screenshot(PICTURES / "light.png")

    # The topics of a corpus.
    page.choose("model", "topics")
    page.drop("".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in dp.sample_records(300)))
    page.type("label-field", "label")
    page.press("#file-form button")
    shown.until("!document.getElementById('topics').hidden", 60)
    page.status("The job is done")
    assert shown.value("document.querySelectorAll('#bars .bar').length") == 4
    assert {line for line in page.text("labels").split("\n") if line.isalpha()} >= {
        "health",
        "travel",
        "money",
        "leisure",
    }
    assert "records so far" not in page.text("job-state")  # how many there are is private here
    page.press("#job-report")
    assert page.downloaded("result-3.json.topics.html").startswith(b"<!doctype html>")
    shown.screenshot(PICTURES / "topics.png")
    labels = {"numbers": [40, 0], "low": [20, 0], "high": [60, 30]}
    topics = {"numbers": [30, 10, 0], "low": [0, 0, 0], "high": [120, 100, 60]}
    noisy = {"labels": ["x", "y"], "estimates": {"by_label": labels, "by_topic": topics},
             "topics": [{"words": [each]} for each in "abc"], "warnings": ["The pool does not fit."]}  # fmt: skip
    shown.value(f"showTopics({json.dumps(noisy)}), 0")
    assert page.text("warnings") == "The pool does not fit."
    shares = shown.value("[...document.querySelectorAll('#bars .bar')].map((each) => each.lastChild.textContent)")
    assert shares == ["30 (0 to 120)", "10 (0 to 100)", "0 (0 to 60)"]
    widths = "[...document.querySelectorAll('#GROUP .share')].map((each) => Number(each.getAttribute('width')))"
    both = [shown.value(widths.replace("GROUP", each)) for each in ("labels", "bars")]  # of one picture
    assert [[round(width) for width in each] for each in both] == [[33, 0], [25, 8, 0]]

    # Both are in the list, and an address that is gone back to shows its job.
    shown.until("document.querySelectorAll('#jobs-list a').length === 2")
    ids = shown.value("[...document.querySelectorAll('#jobs-list a')].map((each) => each.hash.slice(1))")
    assert shown.value("location.hash") == f"#{ids[0]}"
    shown.value("document.getElementById('status').textContent = '', history.back(), 0")
    page.until("job-state", "The job (labels) is done")
    page.status("The job is done")
    page.press(".skip")
    assert shown.value("location.hash") == f"#{ids[1]}"
    assert shown.value("document.activeElement.id") == "main"

    # What is left pays for two more.
    page.choose("model", "labels")
    for _ in range(5):
        shown.until("!document.querySelector('#texts-form button').disabled")
        page.type("texts", "again")
        shown.value("document.getElementById('status').textContent = '', 0")
        page.press("#texts-form button")
        page.charge_again()
        shown.until("document.getElementById('status').textContent.match(/Released|above the limit/)")
    page.status("above the limit")
    assert len(list(page.ledger.log("reviews"))) == 5
    rows_of = (
        "[...document.querySelectorAll('#charges tr')].map((row) => [...row.cells].map((each) => each.textContent))"
    )
    history = shown.value(rows_of)
    assert [(row[0], row[2], row[3], row[4]) for row in history] == [
        ("5", "label_only", "2", "released"),
        ("4", "label_only", "2", "released"),
        ("3", "topics", "1", "released"),
        ("2", "label_only", "2", "released"),
        ("1", "label_only", "2", "released"),
    ]


KEYS = [  # scopes, what they see, and models
    (("privatize",), {"few"}, ["labels"]),
    (("jobs",), {"whole"}, ["labels"]),
    (("synthesize",), {"whole"}, ["topics"]),
    (("accounts",), {"history"}, []),
    (("admin",), {"history", "account-box"}, []),
    (("admin", "privatize"), {"few", "history", "account-box"}, ["labels"]),
    (("metrics",), set(), []),
]


def test_a_key_sees_what_it_may(page: Page) -> None:
    limit = dp.Guarantee(3.0, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)
    page.ledger.open_account("before it by name", limit)
    for scopes, parts, models in KEYS:
        account = None if scopes == ("admin",) else "reviews"
        page.sign_in(page.gate.keys.create("one", account=account, scopes=scopes))
        page.status(f"Signed in. {len(models)} model")
        page.until("budget", f"Account {account or 'before it by name'},")
        assert page.shown.value("[...document.getElementById('model').options].map((each) => each.value)") == models
        assert page.seen("use") is bool(models)
        page.shown.until("document.getElementById('account').options.length > 1" if "account-box" in parts else "true")
        assert {each for each in ("few", "whole", "history", "account-box") if page.seen(each)} == parts
        if models:
            page.until("cost", "left 9")
        if "account-box" in parts:
            page.choose("account", "reviews")
            page.until("budget", "of 9 spent")
        page.shown.loaded = False
        page.press("#sign-out")
        page.shown.until("document.readyState === 'complete' && !document.getElementById('sign-in').hidden")


@contextmanager
def single_sign_on(url: str, key: str, stranger: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """A proxy that demands its cookie and gives the gateway a key: its address, and what it answered.

    Strangers get the `status`, `headers` and `body` of `stranger`.
    """
    answered: list[tuple[str, int]] = []
    hop = {"connection", "content-length", "date", "server", "transfer-encoding"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/sign-on":
                self.answer(302, {"Set-Cookie": "who=ann; HttpOnly; SameSite=Lax; Path=/", "Location": "/"})
            elif "who=ann" not in self.headers.get("Cookie", ""):
                self.answer(**{"status": 401, "headers": {}, **stranger})
            else:
                given = {name: self.headers[name] for name in ("Content-Type", "Idempotency-Key") if self.headers[name]}
                given["Authorization"] = f"Bearer {key}"
                found = httpx.request(self.command, url + self.path[1:], content=body, headers=given, timeout=60)
                headers = {name: value for name, value in found.headers.items() if name not in hop}
                self.answer(found.status_code, headers, found.content)

        do_POST = do_OPTIONS = do_GET  # noqa: N815  # names of http.server

        def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
            answered.append((self.command, status))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # the browser went on
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{proxy.server_port}/", answered
    proxy.shutdown()
    thread.join()
    proxy.server_close()


ELSEWHERE = """(() => { window.barred = 0;
    const ask = (path, more) => fetch(URL + path, { method: "POST", credentials: "include", ...more })
        .catch(() => window.barred++);
    const headers = { "Content-Type": "application/json", "Idempotency-Key": "a-page-elsewhere" };
    ask("v1/models/labels/privatize", { headers, body: '{"records": [{"text": "mine", "label": "travel"}]}' });
    ask("v1/jobs?model=labels&label_field=label", { mode: "no-cors", body: '{"text": "mine", "label": "travel"}' });
    })(), 0"""


def test_a_proxy_that_knows_its_visitors_by_a_cookie(page: Page) -> None:
    shown = page.shown
    stranger: dict[str, Any] = {}
    with single_sign_on(page.url, page.key, stranger) as (url, answered):
        page.hosts += [url, "https://sign-in.example/"]  # where the proxy redirects to
        shown.visit(f"{url}sign-on")
        page.status("Signed in. 2 models")
        page.until("budget", "of 9 spent")
        page.type("texts", "my secret trip")
        page.press("#texts-form button")
        page.status("Released 1 text")
        page.until("budget", "2 of 9 spent")

        # The session ends in the middle of a release, in each way in which proxies say so, and begins again elsewhere.
        ways = [{}, {"status": 302, "headers": {"Location": "https://sign-in.example/"}}]
        ways.append({"status": 200, "headers": {"Content-Type": "text/html"}, "body": b"<h1>Sign in</h1>"})
        for spent, way in zip("468", ways, strict=True):
            stranger.clear()
            stranger.update(way)
            shown.call("Network.clearBrowserCookies")
            page.type("texts", f"my secret trip {spent}")
            page.press("#texts-form button")
            page.status("Your session with the proxy has ended. Open this address in another tab and sign in.")
            shown.value("fetch('/sign-on').then(() => 0)")
            page.status("Released 1 text")
            page.until("budget", f"{spent} of 9 spent")

        # The browser has the cookie still, and sends it for a page at another port of the host; nothing is released.
        stranger.clear()
        answered.clear()
        shown.call("Page.setBypassCSP", enabled=True)
        shown.visit(page.url)
        shown.value(ELSEWHERE.replace("URL", json.dumps(url)))
        shown.until("window.barred === 2")
        posted = sorted(each for each in answered if each[0] != "GET")
        assert posted == [("OPTIONS", 401), ("POST", 400)]  # a job without Idempotency-Key
        assert len(list(page.ledger.log("reviews"))) == 4
    shown.console.clear()  # the browser says there what it barred


def test_jobs_by_a_key_for_jobs_alone(page: Page) -> None:
    page.sign_in(page.gate.keys.create("one", account="reviews", scopes=("synthesize",)))
    page.status("Signed in. 1 model")
    page.drop("".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in dp.sample_records(50)))
    page.type("label-field", "label")
    page.press("#file-form button")
    page.status("The job is done")
    assert page.seen("topics")


def test_how_much_of_a_file_was_sent_is_shown(page: Page) -> None:
    shown = page.shown
    page.sign_in(page.key)
    page.status("Signed in")
    assert not page.seen("sent")
    texts = [f"{i} " + "x" * 10_000 for i in range(60)]
    page.drop("".join(json.dumps({"text": text, "label": "travel"}) + "\n" for text in texts))
    page.type("label-field", "label")
    shown.value("""(() => { window.shares = []; const bar = document.getElementById("sent");
        new MutationObserver(() => { if (!bar.hidden) window.shares.push(bar.value); })
            .observe(bar, { attributes: true }); })(), 0""")
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 300_000}
    shown.call("Network.emulateNetworkConditions", **limits)
    page.press("#file-form button")
    page.status("The job is done")
    shares = shown.value("window.shares")
    assert isinstance(shares, list)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert any(0 < share < 1 for share in shares)
    assert not page.seen("sent")

    # A key that ended: the file does not leave.
    page.gate.keys.revoke(page.key.split("_")[1])
    page.press("#file-form button")
    page.status("was revoked")
    assert len(list(page.ledger.log("reviews"))) == 1
    assert not page.seen("sent")


def test_a_file_that_would_be_refused_is_not_sent(page: Page) -> None:
    page.sign_in(page.key)
    page.status("Signed in")
    page.shown.value("window.posted = 0, window.sent = () => { window.posted++; throw new TypeError(); }, patience = 0")
    page.type("label-field", "label")
    page.drop("text,label", "mine.xlsx")
    page.press("#file-form button")
    page.status("Expected a file that ends in one of .jsonl, .csv, .parquet.")
    page.shown.value("me.max_file = 1_000")
    page.drop("x" * 1_001)
    page.press("#file-form button")
    page.status("Expected at most 1,000 bytes; this file has 1,001.")
    assert page.shown.value("window.posted") == 0
    for model in ("labels", "topics"):
        page.choose("model", model)
        for line in ('{"text": "a", "lable": "travel"}', '{"text": "a"}', '\n{"lable": "b", "text": "b"}\n'):
            page.shown.value("document.getElementById('status').textContent = '', 0")
            page.drop(f"{line}\n")
            page.press("#file-form button")
            page.status("The first record has no column label. Nothing was sent.")
    assert page.shown.value("window.posted") == 0
    page.choose("model", "labels")
    page.drop("x" * 1_000, "MINE.CSV")
    page.press("#file-form button")
    page.shown.until("window.posted === 1")
    page.status("Press the button again")


def test_a_result_can_be_had_without_words_for_it(page: Page) -> None:
    """The words of a result cannot be had, because the model of its job is gone."""
    page.sign_in(page.key)
    page.status("Signed in")
    page.shown.value("""(() => { const real = window.fetch; window.fetch = (path, options) =>
        real(path.endsWith("/words") ? "/v1/jobs/none/words" : path, options); })(), 0""")
    page.drop("".join(json.dumps(row) + "\n" for row in rows(5)))
    page.type("label-field", "label")
    page.press("#file-form button")
    page.status("The job is done")
    page.until("job-state", "There is no certificate in words: There is no such job")
    assert not page.seen("job-words")
    page.press("#job-result")
    page.press("#job-certificate")
    assert len(page.downloaded("result-1.jsonl").splitlines()) == 5
    assert json.loads(page.downloaded("result-1.jsonl.guarantee.json"))
    page.until("budget", "2 of 9 spent")


def test_an_account_per_author(page: Page) -> None:
    page.ledger.open_account("people", dp.Guarantee(20.0, 0.0, dp.Unit.AUTHOR, dp.Relation.REPLACE_ONE))
    scopes = ("privatize", "jobs", "accounts")
    page.sign_in(page.gate.keys.create("one", account="people", scopes=scopes, models=("labels",)))
    page.status("Signed in")
    page.until("cost", "costs epsilon 2 per author,")
    page.choose("most", "3")
    page.until("cost", "costs epsilon 6 per author,")
    page.choose("most", "")
    page.until("cost", "Say how many texts one author has at most")
    page.choose("most", "3")
    page.until("cost", "costs epsilon 6 per author,")
    page.type("texts", "my secret trip\nanother one")
    page.type("author", "Ann")
    page.press("#texts-form button")
    page.status("Released 2 texts")
    page.until("budget", "per author: epsilon 6 of 20 spent")
    page.drop("".join(json.dumps({**row, "author": f"author {i // 3}"}) + "\n" for i, row in enumerate(rows(30))))
    page.type("label-field", "label")
    page.press("#file-form button")
    page.status("The job is done")
    page.until("job-words", "no author has more than 3 records")
    page.until("budget", "12 of 20 spent")


def test_a_key_that_is_revoked_in_the_middle_leads_back_to_the_form(page: Page) -> None:
    page.sign_in(page.key)
    page.status("Signed in")
    page.until("cost", "left 9")
    page.gate.keys.revoke(page.key.split("_")[1])
    page.type("texts", "my secret trip")
    page.press("#texts-form button")
    page.status("was revoked. Ask your administrator for one.")
    assert page.seen("sign-in")
    assert not page.seen("signed-in")
    page.sign_in(page.gate.keys.create("next", account="reviews", scopes=("privatize",)))
    page.status("Signed in")
    page.press("#texts-form button")
    page.status("Released 1 text")


def test_a_reload_before_the_answer_pays_once(page: Page) -> None:
    """What is kept for it is random: no text and no key."""
    shown = page.shown
    page.sign_in(page.key)
    page.status("Signed in")
    shown.value("""(() => { const real = window.fetch; window.fetch = async (path, options) => {
        const found = await real(path, options);
        return options.method === "POST" ? (window.answered = true, new Promise(() => {})) : found; }; })(), 0""")
    page.type("texts", "my secret trip")
    page.press("#texts-form button")
    shown.until("window.answered")
    kept = json.loads(str(shown.value("JSON.stringify(sessionStorage)")))
    assert list(kept) == ["/v1/models/labels/privatize"]
    assert set(kept["/v1/models/labels/privatize"]) <= set("0123456789abcdef")
    for spent in ("2", "4"):  # with its answer the key is over
        shown.reload()
        shown.until("document.readyState === 'complete' && !document.getElementById('sign-in').hidden")
        page.sign_in(page.key)
        page.status("Signed in")
        page.type("texts", "my secret trip")
        page.press("#texts-form button")
        page.status("Released 1 text")
        page.until("budget", f"{spent} of 9 spent")
    shown.value("sessionStorage.setItem('/v1/models/labels/privatize', 'used-for-another'), 0")
    shown.reload()
    shown.until("document.readyState === 'complete' && !document.getElementById('sign-in').hidden")
    page.sign_in(page.key)
    page.status("Signed in")
    page.gate.answers.attempt(page.gate.keys.find(page.key), "used-for-another", b"another payload")
    page.type("texts", "my secret trip")
    page.press("#texts-form button")
    page.status("Released 1 text")
    page.until("budget", "6 of 9 spent")

    # The answer is gone: the next press asks for another, which too little is left for.
    body = {"records": [{"text": "my secret trip", "label": "travel"}]}
    headers = {"Authorization": f"Bearer {page.key}", "Idempotency-Key": "used-and-expired"}
    assert httpx.post(f"{page.url}v1/models/labels/privatize", json=body, headers=headers).status_code == 200
    page.gate.store.write(ANSWERS.update().values(expires=0.0))
    page.gate.answers.sweep()
    shown.value("sessionStorage.setItem('/v1/models/labels/privatize', 'used-and-expired'), 0")
    shown.reload()
    shown.until("document.readyState === 'complete' && !document.getElementById('sign-in').hidden")
    page.sign_in(page.key)
    page.status("Signed in")
    page.type("texts", "my secret trip")
    for said in ("is spent and its answer is gone", "above the limit"):
        page.press("#texts-form button")
        page.status(said)
    shown.console.clear()  # the browser says there that it asked nobody whether to leave


LOSING = """window.keys = [], window.lost = 1e9, [window.fetch, window.sent] = [window.fetch, window.sent].map((real) =>
    async (path, options) => { const found = await real(path, options);
        if (options.method !== "POST") return found;
        window.keys.push(options.headers["Idempotency-Key"]);
        if (window.keys.length <= window.lost) throw new TypeError("The network went away.");
        return found; }), 0"""


@pytest.mark.parametrize("what", ["texts", "file"])
def test_answers_that_are_lost_on_the_way(page: Page, what: str) -> None:
    shown = page.shown
    page.sign_in(page.key)
    page.status("Signed in")
    shown.value(LOSING)
    shown.value("patience = 0")
    page.type("texts", "my secret trip")
    page.drop("".join(json.dumps(row) + "\n" for row in rows(5)))
    page.type("label-field", "label")
    page.press(f"#{what}-form button")
    page.status("it is charged once")
    shown.value("window.lost = 2, patience = 60")  # the second loss is made good by the page itself
    page.press(f"#{what}-form button")
    page.status("Released 1 text" if what == "texts" else "The job is done")
    asked = shown.value("window.keys")
    assert len(asked) == 3
    assert len(set(asked)) == 1
    assert len(list(page.ledger.log("reviews"))) == 1
    page.type("texts", "my secret trip")
    page.press(f"#{what}-form button")  # after an answer the same again is a release of its own, if that is meant
    shown.until("document.getElementById('again').open")
    page.press("#again-send")
    shown.until("window.keys.length === 4")
    assert len(set(shown.value("window.keys"))) == 2
    shown.until("!sending")


def test_what_was_sent_is_charged_again_only_if_that_is_meant(page: Page) -> None:
    shown = page.shown
    page.sign_in(page.key)
    page.status("Signed in")
    page.type("texts", "my secret trip")
    page.drop("".join(json.dumps(row) + "\n" for row in rows(5)))
    page.type("label-field", "label")
    page.press("#file-form button")
    page.status("The job is done")
    page.press("#texts-form button")
    page.status("Released 1 text")
    page.until("budget", "4 of 9 spent")
    job = shown.value("location.hash")
    for form, said, buttons in (
        ("file", r"mine\.jsonl was sent with these settings at \S+ \S+ UTC\. Its job is done\.", 3),
        ("texts", r"This text was sent with these settings at \S+ \S+ UTC\. What left was shown here\.", 2),
    ):
        page.press(f"#{form}-form button")
        page.press(f"#{form}-form button")  # a double click
        shown.until("document.getElementById('again').open")
        assert re.match(said, page.text("again-said"))
        assert "Sent again it has a charge of its own: epsilon 2 per document." in page.text("again-said")
        visible = "[...document.querySelectorAll('#again button')].filter((each) => each.checkVisibility()).length"
        assert shown.value(visible) == buttons
        assert shown.value("document.activeElement.id") == "again-no"  # Enter charges nothing
        page.press("#again-no")
        page.status("was not sent again. No charge.")
    shown.value("location.hash = '', 0")
    page.press("#file-form button")
    shown.until("document.getElementById('again').open")
    page.press("#again-job")
    shown.until(f"location.hash === {job!r}")
    page.until("job-title", "mine.jsonl")
    shown.until("!document.getElementById('again').open")
    assert len(list(page.ledger.log("reviews"))) == 2

    # Other settings, another file, or another text is no repetition.
    page.choose("model", "topics")
    page.press("#file-form button")
    page.status("is there, and its job is in the list")
    page.until("budget", "in 3 charges")
    page.choose("model", "labels")
    page.type("texts", "another trip")
    page.press("#texts-form button")
    page.until("budget", "in 4 charges")

    # The job is gone, and it is meant.
    page.choose("model", "labels")
    page.gate.store.write(JOBS.delete())
    page.press("#file-form button")
    shown.until("document.getElementById('again').open")
    assert "Its job is gone." in page.text("again-said")
    page.press("#again-send")
    page.until("budget", "in 5 charges")


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (400, "dark"), (1200, "dark")])
def test_it_fits_and_can_be_read(page: Page, width: int, scheme: str) -> None:
    shown = page.shown
    PICTURES.mkdir(parents=True, exist_ok=True)
    shown.visit(page.url, width=width, scheme=scheme)
    page.sign_in(page.key)
    page.status("Signed in")
    page.type("texts", "a text with averyveryverylongwordthatnobodywouldeverwriteinarequestbutsomebodypastesanyway")
    page.press("#texts-form button")
    page.status("Released 1 text")
    assert shown.value("document.documentElement.scrollWidth") <= width
    shown.value("for (const each of document.querySelectorAll('details')) each.open = true")
    page.until("charges", "released")
    narrow = "[...document.querySelectorAll('.wide')].filter((each) => each.scrollWidth > each.clientWidth).length"
    assert shown.value(narrow) == 0
    unnamed = """[...document.querySelectorAll('input, select, textarea, button')].filter((each) => each.offsetParent
        && !each.labels?.length && !each.textContent.trim() && !each.getAttribute('aria-label')).length"""
    assert shown.value(unnamed) == 0
    colours = """(() => { const look = getComputedStyle(document.body);
        const light = (text) => { const [r, g, b] = text.match(/[0-9.]+/g).map((n) => { n /= 255;
            return n <= .03928 ? n / 12.92 : ((n + .055) / 1.055) ** 2.4; });
            return .2126 * r + .7152 * g + .0722 * b; };
        const [a, b] = [light(look.color), light(look.backgroundColor)].sort((x, y) => y - x);
        return (a + .05) / (b + .05); })()"""
    assert shown.value(colours) >= 7
    shown.screenshot(PICTURES / f"{width}-{scheme}.png")


def test_by_keyboard_alone(page: Page) -> None:
    shown = page.shown

    def stroke(key: str, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            shown.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode={"Tab": 9, "Enter": 13}.get(key, 0),
            )

    def go(where: str) -> None:
        """By Tab to what an expression in the page is true of."""
        for _ in range(20):
            stroke("Tab")
            if shown.value(f"((here) => {where})(document.activeElement)"):
                return
        raise AssertionError(where)

    shown.value("document.body.focus(), 0")
    go("here.className === 'skip'")
    go("here.id === 'key'")
    shown.call("Input.insertText", text=page.key)
    stroke("Enter", "\r")
    page.status("Signed in")
    shown.until("document.activeElement.id === 'model'")
    go("here.id === 'texts'")
    shown.call("Input.insertText", text="my secret trip")
    go("here.textContent === 'Privatize'")
    stroke("Enter", "\r")
    page.status("Released 1 text")
    status = "document.getElementById('status')"
    assert shown.value(f"[{status}.role, {status}.ariaLive]") == ["status", "polite"]  # so it is read out
    go("here.id === 'save-releases'")
    stroke("Enter", "\r")
    assert b"my secret trip" not in page.downloaded("releases-1.jsonl")
