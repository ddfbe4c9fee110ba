"""`dptext mechanisms`: the list of mechanisms."""

from __future__ import annotations

import json
from dataclasses import MISSING

from dptext.cli.options import JsonOption
from dptext.cli.progress import say
from dptext.cli.terminal import plain_console
from dptext.mechanism import Spec, setting_fields
from dptext.mechanisms.registry import SPECS


def _summary(cls: type[Spec]) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


def _guarantee(cls: type[Spec]) -> str:
    """The `Guarantee:` section of the docstring, in one line."""
    text = (cls.__doc__ or "").partition("Guarantee:\n")[2].partition("\n\n")[0]
    return " ".join(text.split()).replace("`", "")


def _settings(cls: type[Spec]) -> dict[str, object]:
    return {field.name: None if field.default is MISSING else field.default for field in setting_fields(cls)}


def _required(cls: type[Spec]) -> list[str]:
    return [field.name for field in setting_fields(cls) if field.default is MISSING]


def mechanisms(as_json: JsonOption = False) -> None:
    """Print each mechanism with its settings and its guarantee, as its docstring states them."""
    if as_json:
        rows = [
            {
                "kind": kind,
                "summary": _summary(cls),
                "guarantee": _guarantee(cls),
                "required": _required(cls),
                "settings": _settings(cls),
            }
            for kind, cls in SPECS.usable(say).items()
        ]
        print(json.dumps(rows, indent=2))
        return
    from rich.table import Table

    table = Table("mechanism", "settings (default)", "guarantee", show_lines=True)
    for kind, cls in SPECS.usable(say).items():
        listed = "\n".join(
            name if name in _required(cls) else f"{name} ({value})" for name, value in _settings(cls).items()
        )
        table.add_row(f"{kind}\n{_summary(cls)}", listed, _guarantee(cls))
    plain_console().print(table, markup=False)
