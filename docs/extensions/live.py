"""Parts of the reference that are read off the library while the pages are built, so that they cannot fall behind it.

A page names such a part in a comment of its own line:

* ``<!-- rooms: NAME ... -->``: every public name of these rooms of dptext or of another package, from their docstrings;
* ``<!-- commands -->``: every command with the help that it prints;
* ``<!-- settings -->``: every kind of spec, its settings and their defaults;
* ``<!-- certificate -->``: the certificate of a release that is made for the page.
"""

from __future__ import annotations

import json
import pkgutil
import re
import tempfile
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
import typer.main

import dptext as dp
from dptext.cli.app import LazyGroup, app
from dptext.registry import MECHANISMS
from dptext.runs.certificate import certificate_path

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WIDTH = 88
_PART = re.compile(r"^<!-- (rooms: (?P<rooms>[a-z_. ]+)|commands|settings|certificate) -->$", re.MULTILINE)
#: Code; bullets and emphasis; and what reST would take for a mark of its own: bars, stars, backslashes, a last "_".
_MARK = re.compile(
    r"`+(?P<code>[^`]+)`+(?P<glued>\w?)"
    r"|(?P<kept>^ *\* |(?<![\w*])\*\w[^*`|\n]*(?<=\w)\*(?![\w*]))"
    r"|[|*\\]|(?<=\w)_(?!\w)",
    re.MULTILINE,
)


def modules_of(room: str) -> list[str]:
    """The public modules of a room, the room itself first, at every depth, but for steps of a schema."""
    home = import_module(room)
    below = (module.name for module in pkgutil.iter_modules(getattr(home, "__path__", [])))
    shown = [name for name in below if not name.startswith("_") and name != "migrations"]
    return [room, *(each for name in shown for each in modules_of(f"{room}.{name}"))]


def rooms(names: str) -> str:
    """A section for each module of these rooms, which are of dptext or start with the name of another package."""
    parts = []
    found = (name if name.startswith("dptext_") else f"dptext.{name}" for name in names.split())
    for module in (module for name in found for module in modules_of(name)):
        package = hasattr(import_module(module), "__path__")
        members = "\n   :no-members:" if package else ""  # what a package exports is described where it is made
        parts.append(f"## `{module}`\n\n```{{eval-rst}}\n.. automodule:: {module}{members}\n```\n")
    return "\n".join(parts)


def helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """The name and the help of a command and of all commands below it."""
    yield context.command_path, command.get_help(context)
    for name in sorted(command.list_commands(context)) if isinstance(command, LazyGroup) else []:
        below = command.load(name)
        inner = click.Context(below, info_name=name, parent=context, max_content_width=WIDTH, terminal_width=WIDTH)
        yield from helps(below, inner)


def commands() -> str:
    """A section for each command."""
    top = typer.main.get_command(app)
    found = helps(top, click.Context(top, info_name="dptext", max_content_width=WIDTH, terminal_width=WIDTH))
    return "\n".join(f"## `{name}`\n\n```text\n{text}\n```\n" for name, text in found)


def setting(name: str, default: object) -> str:
    """A line of TOML; what has no default, or none that TOML could write, is a comment."""
    if default is MISSING:
        return f"# {name} must be given"
    return f"# {name} is not set" if default is None else f"{name} = {json.dumps(default)}"


def settings() -> str:
    """A section for each kind of spec."""
    parts = []
    for kind, cls in MECHANISMS.items():
        first = (cls.__doc__ or "").partition("\n")[0]
        lines = [f'kind = "{kind}"', *(setting(one.name, one.default) for one in fields(cls) if one.init)]
        parts.append(
            f"## `{kind}`\n\n{first} ({{py:class}}`~{cls.__module__}.{cls.__name__}`)\n\n```toml\n" + "\n".join(lines)
        )
    return "\n```\n\n".join(parts) + "\n```\n"


def certificate() -> str:
    """A certificate of three sample texts."""
    public = dp.sample_records(40)
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name) / "in.jsonl", Path(name) / "requests.released.jsonl"
        source.write_text("".join(json.dumps({"text": r.text}) + "\n" for r in dp.sample_records(3, seed=1)), "utf-8")
        spec = dp.Candidates(epsilon=8.0, ranker="tfidf")
        dp.privatize_file(source, target, spec.fit(public=public, seed=0))
        return f"```json\n{certificate_path(target).read_text('utf-8')}```\n"


def fill(_: Sphinx, page: str, source: list[str]) -> None:
    """Put the parts in the place of their comments."""

    def part(match: re.Match[str]) -> str:
        if names := match["rooms"]:
            return rooms(names)
        return {"commands": commands, "settings": settings, "certificate": certificate}[match[1]]()

    if page.startswith("reference/"):
        source[0] = _PART.sub(part, source[0])


def guard(_: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Docstrings are plain English with `code`: what reST would read as a mark of its own is escaped."""

    def guarded(match: re.Match[str]) -> str:
        if code := match["code"]:
            return f"``{code}``" + (f"\\ {match['glued']}" if match["glued"] else "")
        return match["kept"] or "\\" + match[0]

    lines[:] = _MARK.sub(guarded, "\n".join(lines)).split("\n")


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Connect to Sphinx."""
    sphinx.connect("source-read", fill)
    sphinx.connect("autodoc-process-docstring", guard, priority=400)  # before napoleon adds marks of its own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
