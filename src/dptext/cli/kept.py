"""Vectors of public texts that stay beside their file between commands."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dptext.cli.terminal import say
from dptext.embeddings.encoders import PublicVectors
from dptext.embeddings.kept_vectors import KeptVectors
from dptext.text.records import Record


@contextmanager
def kept_beside(public: Path | None, records: Sequence[Record]) -> Iterator[None]:
    """Read vectors of the records of the file or folder `public` beside it, and write them there if they took long.

    Within the context all that is embedded is public, or computed for the owner of the private texts alone. Vectors of
    other texts than those of `records` are not written. Without a file vectors are remembered until the end.
    """
    kept = None if public is None else KeptVectors(public, [record.text for record in records])
    with PublicVectors(kept=kept).learning():
        yield
    if kept is not None and kept.written is not None:
        say(f"The vectors of the public texts stay in {kept.written} for the next command. You can delete it.")
