"""Groups of commands. Help and completion read a table; a command is imported when it runs."""

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from dptext.cli import COMMANDS, GROUPS, SECTIONS

HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}


class LazyGroup(TyperGroup):
    """The program, or a group of it, whose commands stand in the tables of `dptext.cli`.

    `commands` holds a stand-in for each command, with its name and its help. That is enough to list them. typer calls
    `resolve_command` for the command that runs, or whose options are completed: that one alone is imported.
    """

    def __init__(self, *, group: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.table: Mapping[str, tuple[str, ...]] = GROUPS[group] if group else COMMANDS
        self.sections = {"Commands": tuple(self.table)} if group else SECTIONS
        self.commands = {name: TyperCommand(name, help=told) for name, (_, told, *_) in self.table.items()}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands by their sections, each with its first sentence."""
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(64)) for name in names])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The name and the command that the first argument means, and the other arguments."""
        name, stand_in, others = super().resolve_command(ctx, args)
        if name is None or stand_in is None:
            return name, None, others
        command = self.load(name)
        asks = set(HELP_NAMES["help_option_names"]) & set(others)
        if not isinstance(command, LazyGroup) and not ctx.resilient_parsing and not asks:
            from dptext.cli.config import defaults

            ctx.default_map = {name: defaults(name, [(str(each.name), each.opts) for each in command.params])}
        return name, command, others

    @functools.cache  # noqa: B019 (it lives as long as the process)
    def load(self, name: str) -> TyperCommand | TyperGroup:
        """Import a command, or a group."""
        place, told, *example = self.table[name]
        if not place:
            return LazyGroup(
                group=name,
                name=name,
                help=told,
                no_args_is_help=True,
                rich_markup_mode=None,
                context_settings=HELP_NAMES,
            )
        module, _, function = place.partition(":")
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        epilog = f"Example:\n\n{example[0]}" if example else None
        command = _ending(getattr(import_module(f"dptext.cli.{module}"), function))
        alone.command(name, help=told, epilog=epilog, context_settings=HELP_NAMES)(command)
        return typer.main.get_command(alone)  # type: ignore[return-value]  # one of the two


def _ending(command: Callable[..., int | None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(**options: Any) -> None:
        if code := command(**options):
            raise typer.Exit(code)

    return run
