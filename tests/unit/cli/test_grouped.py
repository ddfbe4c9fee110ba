"""Options that come together: what typer sees of a command, and what the command gets."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from dptext.cli.grouped import spread

Size = Annotated[int, typer.Option("--size", help="How large.")]


@dataclass(frozen=True)
class Box:
    name: Annotated[str, typer.Argument(help="Its name.")]
    size: Size = 3


@dataclass(frozen=True)
class Lid:
    closed: Annotated[bool, typer.Option("--closed", help="Whether it is closed.")] = False


@spread
def command(box: Box, last: Size = 7, lid: Lid = Lid()) -> tuple[Box, int, Lid]:
    """Take two groups."""
    return box, last, lid


def test_fields_stand_in_the_place_of_their_group() -> None:
    seen = inspect.signature(command).parameters
    assert [*seen] == [*command.__annotations__] == ["name", "size", "last", "closed"]
    assert [each.default for each in seen.values()] == [inspect.Parameter.empty, 3, 7, False]
    assert seen["size"].annotation == Size
    assert command.__doc__ == "Take two groups."


def test_the_command_gets_its_groups() -> None:
    assert command(name="a") == (Box("a"), 7, Lid())
    assert command(name="a", size=1, last=2, closed=True) == (Box("a", 1), 2, Lid(closed=True))
    with pytest.raises(TypeError, match="name"):
        command(size=1)
    with pytest.raises(TypeError, match="other"):
        command(name="a", other=1)


def test_typer_reads_the_options() -> None:
    app = typer.Typer()
    got = []

    @app.command()
    @spread
    def run(box: Box, lid: Lid) -> None:
        got.append((box, lid))

    done = CliRunner().invoke(app, ["a", "--closed", "--size", "5"])
    assert done.exit_code == 0, done.output
    assert got == [(Box("a", 5), Lid(closed=True))]
    assert CliRunner().invoke(app, []).exit_code == 2
