"""Progress on stderr: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dptext.cli.terminal import bars, escaped
from dptext.embeddings.encoders import Encoder
from dptext.types import Floats

#: Called with what is done, what there is to do, and in what: "texts", "epochs, loss 2.31".
Told = Callable[[int, int, str], None]

LINE_EVERY_SECONDS = 10.0


def say(line: str) -> None:
    """One line on stderr, whatever names are in it."""
    print(line.replace("\n", "\\n"), file=sys.stderr, flush=True)


@contextlib.contextmanager
def counted(title: str, *, every: float = LINE_EVERY_SECONDS) -> Iterator[Told]:
    """A bar, or a line every so many seconds; `every=0` gives one at each call. One at a time."""
    if not sys.stderr.isatty():
        yield _lines(title, every)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=bars()) as bar:
        task = bar.add_task(escaped(title), total=None, what="")
        yield lambda done, total, what: bar.update(task, completed=done, total=total, what=what)


def _lines(title: str, every: float) -> Told:
    began = last = time.monotonic()

    def tell(done: int, total: int, what: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every:
            last = now
            say(f"{title}: {done:,} of {total:,} {what}, {now - began:.0f} s")

    return tell


@dataclass(frozen=True, slots=True)
class WatchedEncoder:
    """A sentence encoder that tells how far it is; an `Embedder`."""

    encoder: Encoder

    @property
    def name(self) -> str:
        """The encoder's."""
        return self.encoder.name

    @property
    def dim(self) -> int:
        """The encoder's."""
        return self.encoder.dim

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors `(n_texts, dim)`."""
        total = len(set(texts))
        with counted("embedding") as tell:
            return self.encoder.embed(texts, on_progress=lambda done: tell(done, total, "texts"))
