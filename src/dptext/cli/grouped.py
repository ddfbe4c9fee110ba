"""Options that come together: a command takes a dataclass of them, and its caller gives their values one by one."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

Code = TypeVar("Code")


def spread(command: Callable[..., Code]) -> Callable[..., Code]:
    """The command with the fields of its dataclasses as keywords, in their order, as typer reads them."""
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
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # what `inspect` asks for
    return run
