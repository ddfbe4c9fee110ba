"""Groups of options: the headings under which `--help` lists them, and dataclasses whose fields are options.

The function that declares an option names its heading::

    keep: Annotated[list[str] | None, leaves(help="Public field to copy to OUT.")] = None
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_type_hints

from typer import Option

#: Heading of what changes where and how fast something is computed, and no guarantee.
COMPUTED: Final = "How it is computed, not what is promised"
#: Headings in the order of the help.
HEADINGS: Final = (
    *("What is read", "What is promised", "What leaves", "Who pays"),
    *("How it is measured", "What a key may ask", COMPUTED, "How it runs"),
)
#: Functions that call `typer.Option` under each heading.
reads, promises, leaves, pays, measures, limits, computes, runs = (
    functools.partial(Option, rich_help_panel=heading) for heading in HEADINGS
)
_FEW: Final = 9  # up to this many options, --help among them, are listed without headings


def in_sections(options: list[tuple[str | None, tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
    """Group the help lines of options, each a heading and a line, by heading. Few options share one heading."""
    if len(options) <= _FEW:
        return {"Options": [line for _, line in options]}
    return {title: [line for heading, line in options if (heading or HEADINGS[-1]) == title] for title in HEADINGS}


Code = TypeVar("Code")


def spread(command: Callable[..., Code]) -> Callable[..., Code]:
    """Return the command with each dataclass parameter replaced by keyword parameters, one for each of its fields.

    Typer makes options of these.
    """
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    keywords: list[inspect.Parameter] = []
    for own in inspect.signature(command).parameters.values():
        kind = groups.get(own.name)
        found = [own] if kind is None else inspect.signature(kind).parameters.values()
        known = hints if kind is None else get_type_hints(kind, include_extras=True)
        keywords += (each.replace(kind=each.KEYWORD_ONLY, annotation=known[each.name]) for each in found)

    @functools.wraps(command)
    def run(**given: Any) -> Code:
        taken = {
            name: kind(**{each.name: given.pop(each.name) for each in dataclasses.fields(kind) if each.name in given})
            for name, kind in groups.items()
        }
        return command(**taken, **given)

    run.__annotations__ = {each.name: each.annotation for each in keywords}
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # `inspect` reads this attribute
    return run
