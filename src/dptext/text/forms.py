"""Recognize by its first lines a text file in another format than its name says.

A record that is no object of JSON, or an odd header, does not make a file one of another format: of JSON Lines, all of
the first lines have to fit the other format. What is found so is said of a private file, too, before anything of it is
charged: else a run would skip all of its records, and be charged.
"""

from pathlib import Path
from typing import Final

from dptext.text.formats import DELIMITED, Format
from dptext.text.inputs import Opener, beginning, open_input

_FIRST_LINES: Final = 1 << 16  # bytes
_NAMES: Final = {Format.JSONL: "JSON Lines", Format.JSON: "a JSON array"}
_SEVERAL: Final = "JSON over several lines"


def other_form(path: Path, kind: Format, encoding: str | None, opener: Opener = open_input) -> str | None:
    """Return "Expected ..., found ..." if the first lines of a file are of another format. None if they may fit.

    The sentence names formats alone. Of plain text, Parquet and workbooks nothing is said. UTF-16 without an `encoding`
    may fit: what reads the file says so.
    """
    if kind not in (Format.JSONL, Format.JSON, *DELIMITED):
        return None
    first = beginning(path, encoding, _FIRST_LINES, opener)
    lines = [line for line in (each.strip("\ufeff \t\r") for each in first.split("\n")) if line]
    found = None if "\0" in first or not lines else _of_lines(lines) if kind is Format.JSONL else _of_first(lines, kind)
    named = _NAMES.get(kind, kind.upper())
    if found is None:
        return None
    remedy = next((f": name it with --format {form.value}" for form, name in _NAMES.items() if name == found), "")
    return f"Expected {named}, as its name or --format says, found {found}{remedy}."


def _of_lines(lines: list[str]) -> str | None:
    if not any(line.startswith("{") for line in lines):
        return "a JSON array" if lines[0].startswith("[") else "lines that are no objects of JSON, as in CSV or text"
    followed = zip(lines, [*lines[1:], ""], strict=True)
    whole = any(_is_object(line) and not after.startswith("]") for line, after in followed)
    if whole or not (lines[0].startswith("[") or lines[0] == "{"):
        return None
    return "a JSON array" if lines[0].startswith("[") else _SEVERAL


def _of_first(lines: list[str], kind: Format) -> str | None:
    """Return what the first line says of a file of columns, or of an array."""
    if kind is Format.JSON:
        return None if lines[0].startswith("[") else "JSON Lines" if _is_object(lines[0]) else "another format"
    if _is_object(lines[0]):
        return "JSON Lines"
    return "a JSON array" if lines[0] == "[" or lines[0].startswith('[{"') else None


def _is_object(line: str) -> bool:
    return line.startswith("{") and line.endswith("}")
