"""Questions of `dptext init`: an option answers, else the user at a terminal, else the default."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import typer

from dptext.cli import options
from dptext.errors import ConfigError, DataError
from dptext.runs.apart import refuse_same
from dptext.text.formats import Format, file_format
from dptext.text.lines import listed
from dptext.text.plain_text import Portion
from dptext.text.records import TEXT_FIELD
from dptext.text.survey import Survey

Made = TypeVar("Made")
#: Names of columns that may name authors; with s, id or name at their end, too.
_AUTHORS: Final = frozenset(
    ("author", "user", "customer", "client", "patient", "person", "writer", "sender", "speaker", "employee", "member")
) | {"reviewer", "commenter", "student", "respondent", "who"}


def made(told: str | None, question: str, make: Callable[[str], Made], default: str = "") -> Made:
    """Return what `make` makes of an option, or else of the first answer of which it makes something.

    An answer that is refused is asked for again, with the fault shown, and all earlier answers stay. ConfigError: the
    option is refused, or the default without a terminal.
    """
    if told is not None or not at_terminal():
        return make(default if told is None else told)
    found: list[Made] = []
    asked(question, default, lambda answer: found.append(make(answer)))
    return found[-1]


def at_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty()


def author_columns(found: Survey) -> list[str]:
    """Return the columns whose names, not values, say that they may name authors."""
    plain = {name: "".join(letter for letter in name.lower() if letter.isalnum()) for name in found.columns}
    ends = ("", "s", "id", "name")
    if not found.named:
        return []
    return [
        name
        for name, letters in plain.items()
        if any(letters.endswith(end) and letters.removesuffix(end) in _AUTHORS for end in ends)
    ]


def given(told: str | None, question: str, require: Callable[[str], None], default: str = "") -> str:
    """Return the value of an option, or else the first answer that passes the check. ConfigError: the option fails."""
    if told is None:
        return asked(question, default, require)
    require(told)
    return told


def asked(question: str, default: str, require: Callable[[str], None] = lambda _: None) -> str:
    """Return the first answer that passes the check, with the fault of others shown. The default without a terminal."""
    if not at_terminal():
        return default

    def checked(answer: str) -> str:
        try:
            require(answer.strip())
        except (ConfigError, DataError) as error:
            raise typer.BadParameter(str(error)) from None  # click shows the message and asks again
        return answer.strip()

    ask: Callable[..., str] = typer.prompt
    try:
        return ask(question, default=str(default), show_default=bool(default), err=True, value_proc=checked)
    except typer.Abort:
        raise ConfigError(
            "Expected an answer, found the end of the input. Nothing is written. Options give answers, too: "
            "dptext init --help."
        ) from None


def text_field_of(found: Survey) -> str:
    """Return the field `text`, or the user's answer. The field with the longest texts is shown, but never chosen."""
    there = TEXT_FIELD if TEXT_FIELD in found.columns else ""

    longest = f" (the longest texts are in {found.text!r})" if found.named and found.text else ""
    names = listed(list(found.columns)) if found.named else "no names that can be shown"

    def field(told: str) -> str:
        if not told:
            raise ConfigError(f"Expected --text-field NAME with {found.path}, found {names}{longest}.")
        require_field(found, told, "--text-field")
        return told

    return made(None, f"The field of the text, of {names}{longest}", field, there)


def record_of(named: str | None, path: Path) -> str | None:
    """Return the portion of plain text that is one record, as the user says. None for a file with rows, or a folder."""
    if path.is_dir():  # each file of plain text is a record, unless an option says otherwise
        return None if named is None else options.member(Portion, "--record", named)
    if file_format(path, None) is not Format.TEXT:
        return None
    question = f"One record of {path} is the file, a line, or a block of lines between blank ones"
    return made(named, question, lambda told: options.member(Portion, "--record", told) if told else None)


def require_field(found: Survey, told: str, option: str) -> None:
    """Raise ConfigError unless the file has this field."""
    if told and found.columns and told not in found.columns:
        names = f"found {listed(list(found.columns))}" if found.named else "which has no such field"
        raise ConfigError(f"Expected {option} {told!r} to be a field of {found.path}, {names}.")


def require_public(told: str, source: Path) -> None:
    """Raise ConfigError if the public file cannot be read, or is the private one."""
    if not told:
        return
    path = Path(told)
    try:
        path.stat()
    except OSError as error:
        raise ConfigError(
            f"Cannot read the public file {path}: {error.strerror}. Name another one with --public."
        ) from None
    refuse_same(source, path)


def require_epsilon(told: str) -> None:
    """Raise ConfigError unless this is a number above 0."""
    if not 0 < _number(told) < math.inf:
        raise ConfigError(f"Expected --epsilon to be a number above 0, such as 1 or 0.5, found {told!r}.")


def require_about(told: str) -> None:
    """Raise ConfigError unless this is a whole number above 0."""
    if not (told.isdecimal() and int(told) > 0):
        raise ConfigError(f"Expected --about to be about how many there are, such as 5000, found {told!r}.")


def _number(told: str) -> float:
    try:
        return float(told)
    except ValueError:
        return math.nan
