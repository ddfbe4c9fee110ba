"""Names of columns in messages, where they are names: the first line of a CSV file without a header is private text."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Final

_NAME: Final = re.compile(r"[^\W\d_][\w.-]*")  # one word: a short text has several
_LONGEST: Final = 32
_USUAL: Final = frozenset({"text", "texts", "review", "comment", "message", "content", "body", "document", "sentence"})


def are_names(found: Sequence[str]) -> bool:
    """Whether all of these look like names of columns: one short word, each once, and no number.

    The first may be empty: pandas writes the index so. A single one may well be a short text: it must be a usual name.
    """
    if len(found) == 1:
        return found[0].lower() in _USUAL
    rest = found[1:] if found and not found[0] else found
    return (
        bool(found)
        and len(set(found)) == len(found)
        and all(len(name) <= _LONGEST and _NAME.fullmatch(name) is not None for name in rest)
    )


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names for a message."""
    if not are_names(names):
        return "names that do not look like those of columns and are not shown"
    shown = ", ".join(map(repr, itertools.islice(names, most)))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def no_column(name: str, names: Sequence[str], found: Sequence[str]) -> str:
    """That a file has not the column, what it has, and the option that names another; the text is first in `names`."""
    return f"no column {name!r} or several, found {listed(found)}: {_remedy(name, names)}, or add a header"


def missing_field(name: str, names: Sequence[str], found: Iterable[object]) -> str:
    """That a row has not the field; as `no_column`."""
    there = listed(list(map(str, found)))
    return f"the field {name!r} is missing (name another if no record has it: found {there}; {_remedy(name, names)})"


def _remedy(name: str, names: Sequence[str]) -> str:
    others = "--label-field, --id-field, --author-field, --subject-field or --keep"
    options, arguments = ("--text-field", "text=") if name == names[0] else (others, "label=, id=, author= or keep=")
    return f"name it with {options} on the command line, {arguments} in Python"
