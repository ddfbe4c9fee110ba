"""`dptext.toml`: what the commands read where an option is not given. `dptext init` writes it.

text-field = "review"          # as the options of the same names
public = "public.csv"
model = "reviews.model"        # --out of fit, --model of privatize

[mechanism]                    # instead of --mechanism and --set
kind = "candidates"
epsilon = 10.0
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from dptext.cli.terminal import say
from dptext.errors import ConfigError
from dptext.runs.specs import read_toml

FILE: Final = Path("dptext.toml")
_FIELDS: Final = (
    *("text-field", "public-text-field", "label-field", "public-label-field", "id-field", "author-field"),
    *("subject-field", "keep"),
    *("format", "delimiter", "encoding", "empty-nulls", "strip-html", "public", "pool"),
)
_named: list[Path] = []  # by --config


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says: values by the names of options (without dashes before them), and settings with `kind`."""

    path: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)
    mechanism: dict[str, Any] = field(default_factory=dict)
    model: Path | None = None


def use(path: Path) -> None:
    """Read this file in the place of `dptext.toml`."""
    _named.append(path)


@cache
def config() -> Config:
    """The file of --config, or `dptext.toml` in the current folder, or nothing."""
    path = _named[-1] if _named else FILE
    if not _named and not path.is_file():
        return Config()
    data = read_toml(path)
    mechanism, model = data.pop("mechanism", {}), data.pop("model", None)
    unknown = sorted(data.keys() - set(_FIELDS))
    if unknown or not isinstance(mechanism, dict) or not isinstance(model, str | None):
        raise ConfigError(
            f"Expected {path} to hold {', '.join(_FIELDS)}, model (a folder) and the table [mechanism]"
            f"{f', found {unknown[0]!r}' if unknown else ''}."
        )
    say(f"Read: {path}")
    return Config(path, data, mechanism, None if model is None else Path(model))


def defaults(command: str, options: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """The values of a command's parameters that the file gives, by the options of each, as `--text-field`."""
    found: dict[str, Any] = {}
    if command == "fit" and config().model is not None:
        found["target"] = str(config().model)
    for name, opts in options:
        for each in opts:
            if (key := each.lstrip("-")) in config().options:
                found[name] = config().options[key]
    return found
