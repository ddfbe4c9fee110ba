"""The page of a gateway in a browser, for tests in e2e."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from browser import Browser, browser
from dptext_gateway.app import create_app
from gateways import prepare


class Page:
    """A gateway on a port of this computer, and a browser at its page."""

    def __init__(self, url: str, gate, ledger, shown: Browser, folder: Path) -> None:
        self.url, self.gate, self.ledger, self.shown, self.folder = url, gate, ledger, shown, folder
        self.hosts = [url, "data:", "blob:"]
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

    def choose(self, name: str, value: str) -> None:
        self.type(name, value)
        self.shown.value(f"document.getElementById({name!r}).dispatchEvent(new Event('change')), 0")

    def drop(self, text: str, name: str = "mine.jsonl") -> None:
        """Choose a file of this content."""
        self.shown.value(f"""(() => {{ const all = new DataTransfer();
            all.items.add(new File([{json.dumps(text)}], {json.dumps(name)}, {{ lastModified: 1 }}));
            document.getElementById("file").files = all.files; }})(), 0""")

    def pick(self, text: str, name: str = "mine.jsonl") -> None:
        """Choose a file of this content, as a person does: the page hears of it."""
        self.shown.value("document.getElementById('columns-found').textContent = '', 0")
        self.drop(text, name)
        self.shown.value("document.getElementById('file').dispatchEvent(new Event('change')), 0")
        self.shown.until("document.getElementById('columns-found').textContent")

    def charge_again(self) -> None:
        """Confirm that what was sent before is charged again, if the page asks."""
        self.shown.until(
            "document.getElementById('again').open || /Released|above the limit/.test($('status').textContent)"
        )
        self.shown.value("document.getElementById('again').open && document.getElementById('again-send').click(), 0")

    def until(self, name: str, part: str) -> None:
        """Wait until an element says so."""
        self.shown.until(f"document.getElementById({name!r}).innerText.includes({part!r})")

    def seen(self, name: str) -> bool:
        return bool(self.shown.value(f"document.getElementById({name!r}).checkVisibility()"))

    def downloaded(self, name: str) -> bytes:
        path, end = self.folder / "downloads" / name, time.monotonic() + 30
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.1)
        return path.read_bytes()


@contextmanager
def opened(tmp_path: Path) -> Iterator[Page]:
    """A gateway on a port, and a browser at its page, which asks nobody else for anything."""
    import uvicorn

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
        made = Page(f"http://127.0.0.1:{port}/", app.state.gate, ledger, shown, tmp_path)
        yield made
        assert all(url.startswith(tuple(made.hosts)) for url in shown.requests)
        odd = [each for each in shown.console if "status of 4" not in each]  # refusals that the test asked for
        assert odd == [], odd
    server.should_exit = True
    thread.join(timeout=20)
    ledger.close()
