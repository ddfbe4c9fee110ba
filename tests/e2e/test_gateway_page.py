"""The page of the gateway in a real browser: sign in, release, refuse, a file with progress, reload, download."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dptext as dp
from browser import Browser, browser
from dptext.runs.verification import verify
from dptext.service.app import create_app
from gateways import prepare
from many_files import rows

uvicorn = pytest.importorskip("uvicorn")
pytestmark = pytest.mark.slow
PICTURES = Path(__file__).parents[2] / "build" / "page"


class Page:
    """A gateway on a port of this computer, and a browser at its page."""

    def __init__(self, url: str, gate, ledger, shown: Browser, folder: Path) -> None:
        self.url, self.gate, self.ledger, self.shown, self.folder = url, gate, ledger, shown, folder
        scopes = ("privatize", "jobs", "synthesize", "accounts")
        self.key = gate.keys.create("team", account="reviews", scopes=scopes)

    def type(self, name: str, text: str) -> None:
        self.shown.value(f"document.getElementById({name!r}).value = {json.dumps(text)}, 0")

    def press(self, selector: str) -> None:
        self.shown.value(f"document.querySelector({selector!r}).click(), 0")

    def sign_in(self, key: str) -> None:
        self.type("key", key)
        self.press("#sign-in button")

    def status(self, part: str) -> str:
        return str(self.shown.until(f"document.getElementById('status').textContent.includes({part!r})"))

    def text(self, name: str) -> str:
        return str(self.shown.value(f"document.getElementById({name!r}).innerText"))

    def downloaded(self, name: str) -> bytes:
        path, end = self.folder / "downloads" / name, time.monotonic() + 30
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.1)
        return path.read_bytes()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    settings, ledger = prepare(tmp_path, str(tmp_path / "books.db"), epsilon=9.0)
    app = create_app(settings)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    (tmp_path / "downloads").mkdir()
    with browser(tmp_path) as shown:
        where = str(tmp_path / "downloads")
        shown.call("Page.setDownloadBehavior", behavior="allow", downloadPath=where)
        shown.visit(f"http://127.0.0.1:{port}/")
        yield Page(f"http://127.0.0.1:{port}/", app.state.gate, ledger, shown, tmp_path)
        assert all(url.startswith((f"http://127.0.0.1:{port}/", "data:", "blob:")) for url in shown.requests)
        odd = [each for each in shown.console if "status of 40" not in each]  # refusals that the test asked for
        assert odd == []
    server.should_exit = True
    thread.join(timeout=20)
    ledger.close()


def test_a_visit(page: Page, tmp_path: Path) -> None:
    shown = page.shown
    page.sign_in("dptext_000000000000_" + "x" * 43)
    page.status("with a key that holds")
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
    page.downloaded("releases.jsonl")
    page.downloaded("releases.jsonl.guarantee.json")
    verify(tmp_path / "downloads" / "releases.jsonl.guarantee.json", ledger=page.ledger)

    # A file, with a reload in the middle.
    lines = "".join(json.dumps(row) + "\n" for row in rows(400))
    script = f"""(() => {{ const all = new DataTransfer();
        all.items.add(new File([{json.dumps(lines)}], "mine.jsonl"));
        document.getElementById("file").files = all.files; }})(), 0"""
    shown.value(script)
    page.type("label-field", "label")
    page.press("#file-form button")
    shown.until("location.hash.length > 10")
    shown.loaded = False
    shown.call("Page.reload")
    shown.until("document.readyState === 'complete' && !document.getElementById('sign-in').hidden")
    page.sign_in(page.key)
    page.status("The job is done")
    shown.until("document.getElementById('job-words').textContent.includes('400 records')")
    page.press("#job-result")
    page.press("#job-certificate")
    page.downloaded("result.jsonl")
    page.downloaded("result.jsonl.guarantee.json")
    assert verify(tmp_path / "downloads" / "result.jsonl.guarantee.json", ledger=page.ledger).certificate.records == 400
    PICTURES.mkdir(parents=True, exist_ok=True)
    shown.screenshot(PICTURES / "light.png")

    # The topics of a corpus.
    shown.value("document.getElementById('model').value = 'topics', 0")
    shown.value("document.getElementById('model').dispatchEvent(new Event('change')), 0")
    corpus = "".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in dp.sample_records(300))
    shown.value(script.replace(json.dumps(lines), json.dumps(corpus)))
    page.type("label-field", "label")
    page.press("#file-form button")
    shown.until("!document.getElementById('topics').hidden", 60)
    assert shown.value("document.querySelectorAll('.bar').length") == 4
    shown.screenshot(PICTURES / "topics.png")

    # What is left pays for two more.
    shown.value("document.getElementById('model').value = 'labels', 0")
    shown.value("document.getElementById('model').dispatchEvent(new Event('change')), 0")
    for _ in range(5):
        shown.until("!document.querySelector('#texts-form button').disabled")
        page.type("texts", "again")
        shown.value("document.getElementById('status').textContent = '', 0")
        page.press("#texts-form button")
        shown.until("document.getElementById('status').textContent.match(/Released|missing/)")
    page.status("missing")
    assert len(list(page.ledger.log("reviews"))) == 5


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

    shown.value("document.body.focus(), 0")
    seen = []
    for _ in range(4):
        stroke("Tab")
        seen.append(shown.value("document.activeElement.id || document.activeElement.className"))
    assert "key" in seen
    shown.value("document.getElementById('key').focus(), 0")
    shown.call("Input.insertText", text=page.key)
    stroke("Enter", "\r")
    page.status("Signed in")
    shown.until("document.activeElement.id === 'model'")
