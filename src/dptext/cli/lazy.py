"""Groups of commands. Help and completion read a table; a command is imported when it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup


class LazyGroup(TyperGroup):
    """A group whose commands stand in the table `COMMANDS` of its package.

    `commands` holds a stand-in for each command, with its name and its help. That is enough to list them. typer calls
    `resolve_command` for the command that runs, or whose options are completed: that one alone is imported.
    """

    def __init__(self, *, package: str = "dptext.cli", **settings: Any) -> None:
        super().__init__(**settings)
        self.package = package
        table = import_module(package).COMMANDS
        self.commands = {name: TyperCommand(name, help=told) for name, (_, told) in table.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The name and the command that the first argument means, and the other arguments."""
        name, stand_in, others = super().resolve_command(ctx, args)
        return name, None if name is None or stand_in is None else self.load(name), others

    def load(self, name: str) -> TyperCommand | TyperGroup:
        """Import a command, or a group."""
        return _load(self.package, name)


@functools.cache
def _load(package: str, name: str) -> TyperCommand | TyperGroup:
    place, told = import_module(package).COMMANDS[name]
    module, _, function = place.partition(":")
    if not function:
        return LazyGroup(
            package=f"{package}.{module}", name=name, help=told, no_args_is_help=True, rich_markup_mode=None
        )
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, help=told)(_ending(getattr(import_module(f"{package}.{module}"), function)))
    return typer.main.get_command(alone)  # type: ignore[return-value]  # one of the two


def _ending(command: Callable[..., int | None]) -> Callable[..., None]:
    """The command, which returns its exit code, as typer wants it."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        if code := command(**options):
            raise typer.Exit(code)

    return run
