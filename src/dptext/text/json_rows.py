"""Rows of JSON: one object of a line, or the objects of an array.

Of a row whose braces, keys and commas are in order, a value that cannot be read is a `Bad` in its column, and the other
columns stay: NaN, a key that is there twice, a number of thousands of digits, arrays within arrays by the thousand.
Bytes that are not UTF-8 become lone surrogates, as in CSV. Python reads most rows at once. A row that it refuses is
read value by value.
"""

import json
import re
from collections import Counter
from typing import Final

from dptext.text.lines import LONE_RETURNS, Bad, Broken, Row

_TWICE: Final = Bad("a key of an object is there twice")
_NOT_FINITE: Final = Bad("a number is NaN or infinite, which JSON does not have (null is read as none)")
_DEEP: Final = Bad("arrays or objects lie too deep in each other")
_DIGITS: Final = Bad("a number has more digits than are read")
_NO_JSON: Final = Bad("the line is not valid JSON")
_NO_UTF8: Final = Bad("the line is not UTF-8")
_NO_ARRAY: Final = Broken("the file is no valid JSON array (where each line is an object, name it with --format jsonl)")
_GAP: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)'
_PIECE: Final = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)  # a string, which may be open, or a bracket
_WORD: Final = re.compile(r'[^\s,:"\[\]{}]+')


class _BrokenError(ValueError):
    """The braces, keys and commas of a row are not in order. Its message holds nothing of the file."""


def _marked(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # Python keeps the last value of a repeated key, other readers the first. Two readers would see two texts.
    row = dict(pairs)
    if len(row) < len(pairs):
        several = Counter(name for name, _ in pairs)
        row = {name: value if several[name] == 1 else _TWICE for name, value in row.items()}
    return row


_JSON: Final = json.JSONDecoder(object_pairs_hook=_marked, parse_constant=lambda _: _NOT_FINITE)


def json_row(line: bytes) -> Row:
    """Return the object of a line, or the fault of the row."""
    try:
        found = _JSON.decode(line.decode())
    except (ValueError, RecursionError):
        found = _NO_JSON
    if found is _NO_JSON:
        text = line.decode("utf-8", "surrogateescape")
        try:
            found = _apart(text)
        except _BrokenError:
            return _NO_UTF8 if not _is_utf8(text) else Bad(LONE_RETURNS) if b"}\r{" in line else _NO_JSON
    return found if isinstance(found, dict | Bad) else Bad("the line is not a JSON object")


def json_array(data: bytes) -> list[Row]:
    """Return the rows of an array of objects. After an item that is not in order, the start of the next is unknown."""
    try:
        found = _JSON.decode(data.decode())
    except (ValueError, RecursionError):
        found = _NO_JSON
    if found is _NO_JSON:
        text = data.decode("utf-8", "surrogateescape")
        try:
            found = _items(text)
        except _BrokenError:
            return [_NO_ARRAY if _is_utf8(text) else Broken("the file is not UTF-8")]
    if not isinstance(found, list):
        return [_NO_ARRAY]
    return [row if isinstance(row, dict | Bad) else Bad("the item is not a JSON object") for row in found]


def _is_utf8(text: str) -> bool:
    """Return whether the bytes of a text, decoded with "surrogateescape", are UTF-8."""
    return re.search("[\udc80-\udcff]", text) is None


def _items(text: str) -> list[object]:
    """Return the items of an array, each read by itself. _BrokenError: it is no array, or a part is not in order."""
    found: list[object] = []
    at = _gap(text, 0)
    if text[at : at + 1] != "[":
        raise _BrokenError
    at = _gap(text, at + 1)
    while text[at : at + 1] != "]" or found:
        end = _end(text, at)
        item = text[at:end]
        try:
            found.append(_JSON.decode(item))
        except (ValueError, RecursionError):
            found.append(_apart(item))
        at = _gap(text, end)
        if text[at : at + 1] == "]":
            break
        at = _gap(text, _after(text, at, ","))
    if _gap(text, at + 1) < len(text):
        raise _BrokenError
    return found


def _apart(text: str) -> object:
    """Return the value of a document that Python does not read at once, or its fault; an object value by value.

    _BrokenError: the document is not in order.
    """
    start = _gap(text, 0)
    found, end = _object(text, start) if text[start : start + 1] == "{" else _value(text, start)
    if _gap(text, end) < len(text):
        raise _BrokenError
    return found


def _object(text: str, at: int) -> tuple[dict[str, object], int]:
    """Return the object that begins at this place, and where it ends. A key that is there twice has a `Bad` value."""
    row: dict[str, object] = {}
    at = _gap(text, at + 1)
    while text[at : at + 1] != "}" or row:
        key, end = _value(text, at)
        if not isinstance(key, str):
            raise _BrokenError
        value, end = _value(text, _gap(text, _after(text, _gap(text, end), ":")))
        row[key] = _TWICE if key in row else value
        at = _gap(text, end)
        if text[at : at + 1] == "}":
            break
        at = _gap(text, _after(text, at, ","))
    return row, at + 1


def _value(text: str, at: int) -> tuple[object, int]:
    """Return the value that begins at this place, or its fault, and where it ends."""
    fault = _NO_JSON
    end = _end(text, at)
    try:
        return _JSON.decode(text[at:end]), end
    except RecursionError:
        fault = _DEEP
    except json.JSONDecodeError:
        pass
    except ValueError:
        fault = _DIGITS
    return fault, end


def _end(text: str, at: int) -> int:
    """Return where a value ends, by its quotes and brackets alone. _BrokenError: it has no end, or none begins."""
    first = text[at : at + 1]
    depth, end = 0, 0
    if first and first in '"[{':
        for piece in _PIECE.finditer(text, at):
            mark = text[piece.start()]
            if mark == '"' and not piece[1]:
                break
            depth += (mark in "[{") - (mark in "]}")
            if depth == 0:
                end = piece.end()
                break
    elif word := _WORD.match(text, at):
        end = word.end()
    if not end:
        raise _BrokenError
    return end


def _gap(text: str, at: int) -> int:
    """Return the place after the blanks that begin at this place."""
    found = _GAP.match(text, at)
    return at if found is None else found.end()


def _after(text: str, at: int, mark: str) -> int:
    """Return the place after the mark. _BrokenError: another stands there."""
    if text[at : at + 1] != mark:
        raise _BrokenError
    return at + 1
