"""`dptext mechanisms`: all mechanisms in a line each, or one with its settings."""

import json
import math
import re
import textwrap
from dataclasses import MISSING
from typing import Annotated, Final

from typer import Argument

from dptext.cli.options import DetailsOption, JsonOption
from dptext.cli.terminal import say
from dptext.errors import ConfigError
from dptext.mechanism import Learns, Spec, setting_fields
from dptext.mechanisms.registry import SPECS

_NEEDS: Final = {
    Learns.NOTHING: "nothing",
    Learns.PUBLIC: "public texts",
    Learns.PRIVATE: "public, private",
    Learns.EITHER: "any texts",
}
_UNPROTECTED: Final = "none"
_FIRST: Final = "Set first: "


def mechanisms(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Explain this one, with its settings.")] = None,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print a line for each mechanism, or what there is to know of one."""
    known = SPECS.usable(say)
    if name is not None and name not in known:
        raise ConfigError(f"Expected a mechanism, found {name!r}. There are: {', '.join(known)}.")
    if as_json:
        print(json.dumps([_data(kind, cls) for kind, cls in known.items() if name in (None, kind)], indent=2))
    elif name is None:
        _list(known)
    else:
        _explain(name, known[name], details=details)


def _list(known: dict[str, type[Spec]]) -> None:
    rows = [(kind, _unit(cls), _NEEDS[cls.tiny()[0].traits.learns], _use(cls)[0]) for kind, cls in known.items()]
    rows.sort(key=lambda row: row[1] == _UNPROTECTED)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heads = ("NAME", "UNIT", "LEARNS FROM", "TAKE IT")
    for row in (heads, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(
        "\nUNIT is what one epsilon protects; none: nothing is guaranteed. dptext mechanisms NAME explains one.\n"
        "dptext recommend says which measured best."
    )


def _explain(kind: str, cls: type[Spec], *, details: bool) -> None:
    use, first = _use(cls)
    print(f"{kind}: take it {use}.\n")
    _print(f"It learns from {_NEEDS[cls.tiny()[0].traits.learns]}. {_guarantee(cls)}")
    print()
    told, values = _attributes(cls), _settings(cls)
    print("Settings that matter:")
    for name in first:
        _print(f"  {_shown(name, cls, values)}: {told.get(name, '')}")
    rest = [name for name in values if name not in first]
    if details:
        print("\nThe others:")
        for name in rest:
            _print(f"  {_shown(name, cls, values)}: {told.get(name, '')}")
    elif rest:
        print()
        _print(f"The others, which --details explains: {', '.join(_shown(name, cls, values) for name in rest)}.")
    needed = " ".join(f"--set {name}=..." for name in _required(cls))
    learns = cls.tiny()[0].traits.learns is not Learns.NOTHING
    do = "fit" if learns else "privatize IN OUT"
    print(f"\nExample: dptext {do} --mechanism {kind} {needed}{' --public FILE --out MODEL' if learns else ''}")


def _print(text: str) -> None:
    print(textwrap.fill(text, 100, subsequent_indent="    "))


def _shown(name: str, cls: type[Spec], values: dict[str, object]) -> str:
    return name if name in _required(cls) else f"{name} ({json.dumps(values[name], default=str)})"


def _data(kind: str, cls: type[Spec]) -> dict[str, object]:
    use, first = _use(cls)
    return {
        "kind": kind,
        "summary": (cls.__doc__ or "").strip().splitlines()[0],
        "use": use,
        "unit": _unit(cls),
        "learns": cls.tiny()[0].traits.learns,
        "guarantee": _guarantee(cls),
        "first": first,
        "required": _required(cls),
        "settings": _settings(cls),
    }


def _unit(cls: type[Spec]) -> str:
    """The unit of the guarantee: the smallest with the settings that are given if nothing is said."""
    spec = cls.tiny()[0]
    protects = any(math.isfinite(spec.guarantee(unit).effective_epsilon) for unit in spec.units)
    return str(spec.units[0]) if protects else _UNPROTECTED


def _section(cls: type[Spec], title: str) -> str:
    return (cls.__doc__ or "").partition(f"{title}:\n")[2]


def _use(cls: type[Spec]) -> tuple[str, list[str]]:
    use, _, first = " ".join(_section(cls, "Use").partition("\n\n")[0].split()).partition(_FIRST)
    names = [name.strip() for name in first.strip(" .").split(",") if name.strip()]
    return use.removeprefix("Take it ").strip(" ."), names or _required(cls)


def _guarantee(cls: type[Spec]) -> str:
    return " ".join(_section(cls, "Guarantee").partition("\n\n")[0].split()).replace("`", "")


def _attributes(cls: type[Spec]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in re.split(r"\n        (?=\S)", "\n" + _section(cls, "Attributes").partition("\n\n    ")[0]):
        names, _, said = entry.partition(":")
        found |= {name.strip(): " ".join(said.split()).replace("`", "") for name in names.split(",")}
    return found


def _settings(cls: type[Spec]) -> dict[str, object]:
    return {field.name: None if field.default is MISSING else field.default for field in setting_fields(cls)}


def _required(cls: type[Spec]) -> list[str]:
    return [field.name for field in setting_fields(cls) if field.default is MISSING]
