"""`dptext report`: what `dptext compare` measured, as one HTML page or as Markdown."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dptext.compare.report import Written, markdown, read_results, write_page, write_private_page
from dptext.errors import ConfigError
from dptext.text.files import Target

PAGE = "report.html"


def run(folder: Path, target: Path | None, *, show_private: bool, force: bool, as_json: bool) -> None:
    """Write the page of a comparison, at `target` or in its folder, and tell what is in it."""
    path = target or folder / PAGE
    page = Target(path, force)
    written = write_private_page(folder, page) if show_private else write_page(folder, page)
    if show_private:
        told = (
            f"Warning: {path} shows {written.private} private texts and what was made of them; do not hand it on."
            if written.private
            else "No private samples were kept: `dptext compare --keep-private-samples` keeps them."
        )
        print(told, file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps({"path": str(path), **asdict(written)}, indent=2))
        return
    print(_line(path, written))


def show_markdown(folder: Path, metrics: Sequence[str], *, others: bool) -> None:
    """Print the table, one for each corpus; `others` says that options of the page were given, too."""
    if others:
        raise ConfigError("Expected --markdown without --out, --show-private or --json: it prints a table and no text.")
    print(markdown(read_results(folder), metrics), end="")


def _line(path: Path, written: Written) -> str:
    open_cells = written.total - written.done - written.failed
    counts = [
        f"{written.done} of {written.total} cells",
        *([f"{written.failed} failed"] if written.failed else []),
        *([f"{open_cells} not done yet"] if open_cells > 0 else []),
        f"corpora {written.corpora}",
        f"rows {written.rows}",
        f"metrics {written.metrics}",
        f"figures {written.figures}",
        f"warnings {written.warnings}",
    ]
    return f"{path}: {', '.join(counts)}."
