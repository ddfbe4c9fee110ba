"""Pictures of the gateway's page, over the models of gateway_demo.py: they are in the guide.

    python packages/gateway/experiments/gateway_pictures.py [--out docs/guides/figures]

Chromium is needed, and Pillow, which makes each picture small. The private texts are built-in ones.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import gateway_demo
import httpx
from PIL import Image

import dptext as dp

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser, browser  # noqa: E402

COLOURS = 64
FEW = "I need to move my doctor's appointment in Lisbon to Friday\nplease book me a table for two tonight"


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """The URL of a gateway, and a key."""
    key = gateway_demo.main(folder)["you"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    command = [str(Path(sys.executable).with_name("dptext")), "serve", "--models", str(folder / "models")]
    server = subprocess.Popen([*command, "--ledger", str(folder / "books.db"), "--port", port])
    try:
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/readyz").raise_for_status()
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/", key
    finally:
        server.terminate()
        server.wait()


class Camera:
    """A browser at the page."""

    def __init__(self, shown: Browser, url: str, key: str, out: Path) -> None:
        self.shown, self.url, self.key, self.out = shown, url, key, out

    def do(self, script: str, until: str = "true") -> None:
        """Run a script, and wait."""
        self.shown.value(f"(() => {{ {script} }})(), 0")
        self.shown.until(until, 120)

    def sign_in(self, *, width: int, scheme: str = "light") -> None:
        """Load the page anew and sign in."""
        self.shown.visit(self.url, width=width, scheme=scheme)
        self.do(
            f"$('key').value = '{self.key}'; document.querySelector('#sign-in button').click();",
            "balance && price && document.activeElement.id === 'model'",
        )

    def privatize(self) -> None:
        """Release a few texts."""
        self.do(
            f"$('texts').value = {json.dumps(FEW)}; document.querySelector('#texts-form button').click();",
            "!$('result').hidden && "
            "$('budget').textContent.includes(answer.balance_in_words.match(/left ([0-9.,]*[0-9])/)[1])",
        )

    def choose(self, model: str, n: int) -> None:
        """Choose a model and a file for it, and wait until the page offers the columns of the file."""
        found, channels = dp.sample_records(n, seed=7), ("web", "web", "phone", "shop")
        # Only there a text that is sent twice is refused: a charge pays for one release of it.
        texts = [f"{e.text} (order {e.id})" if model == "requests" else e.text for e in found]
        rows = "".join(
            json.dumps({"text": text, "label": e.label, "channel": channels[i % 4]}) + "\n"
            for i, (e, text) in enumerate(zip(found, texts, strict=True))
        )
        self.do(
            f"$('columns-found').textContent = ''; $('model').value = '{model}';"
            "$('model').dispatchEvent(new Event('change'));"
            f"const all = new DataTransfer(); all.items.add(new File([{json.dumps(rows)}], '{model}.jsonl'));"
            "$('file').files = all.files; $('file').dispatchEvent(new Event('change'));",
            "$('columns-found').textContent && $('text-field').value === 'text' && price",
        )

    def send(self, model: str, n: int, until: str) -> None:
        """Send a file."""
        self.choose(model, n)
        self.do("document.querySelector('#file-form button').click();", until)

    def write(self, times: int) -> None:
        """Write corpora from the summary that is shown."""
        for n in range(1, times + 1):
            self.do(
                "$('size').value = 400; document.querySelector('#write-form button').click();",
                f"$('written').children.length === {n} && !document.querySelector('#write-form button').disabled",
            )

    def take(self, name: str, first: str = "header", last: str = "footer") -> None:
        """A picture from the top of one element to the bottom of another."""
        self.shown.value("document.activeElement.blur(), scrollTo(0, 0)")
        top, bottom = (
            float(str(self.shown.value(f"document.querySelector({each!r}).getBoundingClientRect().{end} + scrollY")))
            for each, end in ((first, "top"), (last, "bottom"))
        )
        path, data = self.out / f"{name}.png", io.BytesIO()
        self.shown.screenshot(path, top=max(0.0, top - 8), height=bottom - top + 16)
        Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(data, "PNG", optimize=True)
        path.write_bytes(data.getvalue())
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB", flush=True)


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "guides" / "figures")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (url, key), browser(Path(name)) as shown:
        camera = Camera(shown, url, key, out)
        shown.call("Emulation.setScrollbarsHidden", hidden=True)
        shown.visit(url, width=800)
        camera.take("gateway-sign-in")
        camera.sign_in(width=1280)
        camera.choose("tickets", 2_000)
        camera.take("gateway-measure", "#model-title", "#whole")
        camera.do("document.querySelector('#file-form button').click();", "$('status').textContent.includes('is done')")
        camera.write(2)
        camera.take("gateway-summary", "#job", "#topics")
        summary = shown.value("location.hash")
        camera.sign_in(width=800)
        camera.do(
            "$('model').value = 'requests'; $('model').dispatchEvent(new Event('change'));",
            "price && price.epsilon === '10'",
        )
        camera.do("$('words').parentElement.open = true;")
        camera.take("gateway-models", last="#cost")
        camera.do("$('words').parentElement.open = false;")
        camera.privatize()
        camera.take("gateway-result", "#few", "#result")
        camera.do("$('history').open = true;")
        camera.send("requests", 20_000, "/[1-9].* records so far/.test($('job-state').textContent)")
        camera.take("gateway-job", "#whole", "#job")
        camera.do("$('job-cancel').click();", "$('job-state').textContent.includes('cancelled')")
        camera.send("synthetic", 2_000, "!$('topics').hidden && $('status').textContent.includes('done')")
        camera.take("gateway-topics", "#job", "#topics")
        camera.take("gateway-charges", "header", "#history")
        camera.sign_in(width=400)
        camera.choose("tickets", 2_000)
        camera.do(f"location.hash = '{summary}';", "$('status').textContent.includes('is done')")
        camera.write(1)
        camera.take("gateway-400", "header", "#topics")
        camera.sign_in(width=800, scheme="dark")
        camera.do("location.hash = '';")
        camera.do(f"location.hash = '{summary}';", "$('status').textContent.includes('is done')")
        camera.write(1)
        camera.take("gateway-dark", "#job", "#job-told")


if __name__ == "__main__":
    main()
