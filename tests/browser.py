"""Chromium without a window, driven over a pipe by its own protocol: nothing but the browser itself is needed."""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60.0


def chromium() -> str:
    """The browser, or an error that says how to get one: what was not looked at must not pass."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise FileNotFoundError(
            f"Expected one of {', '.join(NAMES)} on the path: apt-get install chromium. No test but the slow needs it."
        )
    return found


class Browser:
    """One page, and what it told its console or asked of the network."""

    def __init__(self, requests: int, answers: int) -> None:
        self._out, self._in = requests, answers
        self._number, self._rest, self._session = 0, b"", None
        self.loaded = False
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict:
        """Ask for something and wait for the answer."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        os.write(
            self._out, json.dumps({"id": self._number, "method": method, "params": params, **session}).encode() + b"\0"
        )
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            message = self._read(end)
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return message["result"]
        raise TimeoutError(method)

    def _read(self, end: float) -> dict:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("the browser said nothing, or ended")
            self._rest += data
        line, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict) -> None:
        if method == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.console.append(json.dumps(params))
        elif method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, page: Path, *, width: int, scheme: str = "light") -> None:
        """Load a page without JavaScript, as on a screen of this width and in light or dark."""
        self.visit(page.resolve().as_uri(), width=width, scheme=scheme, scripts=False)

    def visit(self, url: str, *, width: int = 1000, scheme: str = "light", scripts: bool = True) -> None:
        """Load what is at a URL."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.loaded = False
        self.call("Page.navigate", url=url)
        self._until_loaded()

    def reload(self) -> None:
        """Load the page again."""
        self.loaded = False
        self.call("Page.reload")
        self._until_loaded()

    def _until_loaded(self) -> None:
        end = time.monotonic() + SECONDS
        while not self.loaded:
            self._read(end)

    def value(self, expression: str) -> object:
        """What an expression is in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = 30.0) -> object:
        """What an expression is in the page, as soon as that is true."""
        end = time.monotonic() + seconds
        while not (found := self.value(expression)):
            assert time.monotonic() < end, (expression, self.value("document.body.innerText"))
            time.sleep(0.05)
        return found

    def screenshot(self, target: Path, *, top: float = 0, height: float | None = None) -> None:
        """A picture of the page, or of a part of it."""
        width = self.value("document.documentElement.clientWidth")
        clip = {
            "x": 0,
            "y": top,
            "width": width,
            "height": height or self.value("document.documentElement.scrollHeight"),
        }
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={**clip, "scale": 1})["data"]
        target.write_bytes(base64.b64decode(data))

    def pdf(self, target: Path) -> None:
        """The page as it is printed."""
        target.write_bytes(base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"]))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser whose profile lies in `folder`; it ends with the block."""
    command = [
        chromium(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--remote-debugging-pipe",
    ]
    command += ["--disable-dev-shm-usage", "--disable-background-networking", f"--user-data-dir={folder / 'profile'}"]
    theirs_in, requests = os.pipe()
    answers, theirs_out = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD, 50) for end in (theirs_in, theirs_out)]

    def places() -> None:  # the browser reads from 3 and writes to 4
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(
        command,
        preexec_fn=places,  # noqa: PLW1509  (no thread of ours holds a lock)
        pass_fds=(3, 4),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (theirs_in, theirs_out, *high):
        os.close(end)
    try:
        yield Browser(requests, answers)
    finally:
        process.terminate()
        process.wait(30)
        os.close(requests)
        os.close(answers)
