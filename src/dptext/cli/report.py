"""`dptext report`: what `dptext compare` measured, as one HTML page or as Markdown."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dptext.cli.options import ForceOption, JsonOption, folder_path, output_option
from dptext.cli.progress import say
from dptext.errors import ConfigError
from dptext.text.files import Target

PAGE = "report.html"


def report(
    folder: Annotated[Path, Argument(metavar="DIR", parser=folder_path, help="Folder that `dptext compare` wrote.")],
    target: Annotated[Path | None, output_option("--out", help="The page; default: DIR/report.html.")] = None,
    show_private: Annotated[
        bool, Option("--show-private", help="Also show samples of private records, where they were kept.")
    ] = False,
    as_markdown: Annotated[
        bool, Option("--markdown", help="Print a table for each corpus instead of the page.")
    ] = False,
    metric: Annotated[
        list[str] | None, Option(help="A column of --markdown, such as fidelity.cosine. Repeatable.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the page of a comparison and say what is in it, or print its tables."""
    from dptext.compare.report import markdown, read_results, write_page, write_private_page

    if as_markdown:
        if target is not None or show_private or as_json:
            raise ConfigError(
                "Expected --markdown without --out, --show-private or --json: it prints a table and no text."
            )
        print(markdown(read_results(folder), metric or []), end="")
        return
    if metric:
        raise ConfigError("Expected --metric with --markdown: the page shows every metric.")
    path = target or folder / PAGE
    page = Target(path, force)
    written = write_private_page(folder, page) if show_private else write_page(folder, page)
    if show_private:
        say(
            f"Warning: {path} shows {written.private} private texts and what was made of them; do not hand it on."
            if written.private
            else "No private samples were kept: `dptext compare --keep-private-samples` keeps them."
        )
    if as_json:
        print(json.dumps({"path": str(path), **asdict(written)}, indent=2))
        return
    open_cells = written.total - written.done - written.failed
    counts = [
        f"{written.done} of {written.total} cells",
        *([f"{written.failed} failed"] if written.failed else []),
        *([f"{open_cells} not done yet"] if open_cells > 0 else []),
        f"{written.warnings} warnings",
    ]
    print(*written.verdict, f"{path}: {', '.join(counts)}.", sep="\n")
