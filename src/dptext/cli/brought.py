"""The commands of installed packages. A package brings a table of them by an entry point of `dptext.commands`::

    [project.entry-points."dptext.commands"]
    theirs = "their_package.doors:COMMANDS"

The table maps "NAME", or "GROUP NAME", to a `dptext.doors.Command`. It is imported when help lists commands, or when a
command is called that is not the library's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dptext.cli import COMMANDS
from dptext.doors import (
    OWN,
    PACKAGES,
    Command,
    absent,
    loaded,
    loaded_from,
    may_bring,
    only,
    package_of,
    points,
    unusable,
)
from dptext.errors import WHEELS, ConfigError, DPTextError, MissingExtraError, install_line

if TYPE_CHECKING:  # slow to import
    from importlib.metadata import EntryPoint

GROUP: Final = "dptext.commands"


@dataclass(frozen=True, slots=True)
class Brought:
    """The commands of packages.

    Attributes:
        commands: those that one package brings, by name, each with the package.
        faults: what is wrong with tables and commands that cannot be used, by the name of the package or the command.
    """

    commands: dict[str, tuple[str, Command]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


@functools.cache
def brought() -> Brought:
    """Read the tables of all installed packages. A package that is broken leaves a fault, and the other ones are read.

    No package can bring a command of the library, or one of our own packages. Two packages that bring one command are a
    fault: none is preferred.
    """
    read, found = Brought(), dict[str, list[tuple[str, Command]]]()
    for point in points(GROUP):
        try:
            table = _table(point)
        except (ConfigError, MissingExtraError) as error:
            read.faults[package_of(point)] = str(error)
            continue
        for name, command in table.items():
            if name not in COMMANDS and may_bring(point, name):
                found.setdefault(name, []).append((package_of(point), command))
    groups = {name for name, each in COMMANDS.items() if not each.place}
    groups |= {name for name, some in found.items() if not some[0][1].place}
    for name, some in found.items():
        (package, _), group = some[0], name.rpartition(" ")[0]
        try:
            read.commands[name] = package, only([(each, command) for each, command in some], f"the command {name!r}")
        except ConfigError as error:
            read.faults[name] = str(error)
        if group and group not in groups:
            del read.commands[name]
            read.faults[name] = f"The package {package} brings the command {name!r}, and {group!r} is no group."
    return read


def _table(point: EntryPoint) -> Mapping[str, Command]:
    table = loaded_from(point, "The table of commands")
    if isinstance(table, Mapping) and all(isinstance(command, Command) for command in table.values()):
        return table
    raise ConfigError(
        f"Expected {point.value!r} of the package {package_of(point)} to map names to commands (dptext.doors.Command)."
    )


def refuse(name: str) -> None:
    """Raise for a known command that cannot be used. ConfigError: a fault. MissingExtraError: its package is absent."""
    faults = brought().faults
    package = PACKAGES.get(OWN[GROUP].get(name, ""), name)
    if fault := faults.get(name) or faults.get(package):
        raise ConfigError(fault)
    if said := absent(GROUP, name):
        raise MissingExtraError(f"The command {name!r} is not installed.{said}")


def more() -> str:
    """Say how to install those of our own packages that are absent, for the commands that they bring; or return ""."""
    found = {OWN[GROUP].get(name) for name in brought().commands}
    faults = brought().faults
    extras = ",".join(extra for extra, package in PACKAGES.items() if extra not in found and package not in faults)
    return f"More commands: {install_line(f'dptext[{extras}]')} ({WHEELS.removesuffix('.')})" if extras else ""


def function_of(name: str) -> Callable[..., int | None]:
    """The function of a package's command. ConfigError: it cannot be imported. MissingExtraError: it needs an extra."""
    package, command = brought().commands[name]
    try:
        found: Callable[..., int | None] = loaded(command.place)
    except DPTextError:
        raise
    except Exception as error:  # foreign packages may fail in any way
        raise ConfigError(unusable(f"The command {name!r}", package, error)) from error
    return found
