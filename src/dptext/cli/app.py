"""`dptext`: the program. Every deliberate error becomes one line on stderr and an exit code.

Help and completion read a table. A command is imported when it runs. Options that are not given come from
`dptext.toml`, which `dptext init` writes::

    text-field = "review"          # keys are the names of options
    public = "public.csv"
    model = "reviews.model"        # --out of fit, --model of privatize

    [mechanism]                    # instead of --mechanism and --set
    kind = "candidates"
    epsilon = 10.0

    [summary]                      # instead of --labels, --about, --epsilon of summarize
    labels = ["bill", "parcel"]

    [columns]                      # instead of --column
    "priority?" = "low|normal|high"
"""

from __future__ import annotations

import errno
import functools
import gc
import os
import sys
import textwrap
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, NoReturn

import typer
import typer.main
from typer import Option
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from dptext.cli import COMMANDS, SECTIONS
from dptext.cli.grouped import in_sections, spread
from dptext.cli.terminal import Stopped, listen, open_streams, say
from dptext.doors import Command, loaded
from dptext.errors import BudgetExceededError, ConfigError, DataError, DPTextError

HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}
#: Arguments of every group. The plain help starts three times as fast.
_OF_GROUPS: Final[dict[str, Any]] = {"no_args_is_help": True, "rich_markup_mode": None, "context_settings": HELP_NAMES}


FILE: Final = Path("dptext.toml")
_FIELDS: Final = (
    *("text-field", "public-text-field", "label-field", "public-label-field", "id-field", "author-field"),
    *("subject-field", "keep"),
    *("format", "delimiter", "encoding", "record", "public-record", "sheet", "public-sheet"),
    *("empty-nulls", "strip-html", "public", "pool", "with"),
)
_PATH: Final = str | None
_MANY: Final = 16  # options, of which -h lists the names alone
_named: list[Path] = []  # files of --config


@dataclass(frozen=True, slots=True)
class Config:
    """The contents of the file: values by the names of options, without leading dashes, and two tables of settings."""

    path: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)
    mechanism: dict[str, Any] = field(default_factory=dict)
    model: Path | None = None
    summary: dict[str, Any] = field(default_factory=dict)


@functools.cache
def config() -> Config:
    """Return the contents of the file of --config, or else of `dptext.toml` in the current folder, or nothing."""
    path = _named[-1] if _named else FILE
    if not _named and not path.is_file():
        return Config()
    from dptext.runs.specs import read_toml

    data = read_toml(path)
    mechanism, model, columns = data.pop("mechanism", {}), data.pop("model", None), data.pop("columns", {})
    summary = data.pop("summary", {})
    unknown = sorted(data.keys() - set(_FIELDS))
    told = columns.items() if isinstance(columns, dict) else [("", columns)]
    unknown += [f"columns.{name}".rstrip(".") for name, what in told if not name or _no_text(what)]
    if unknown or not (isinstance(mechanism, dict) and isinstance(summary, dict) and isinstance(model, str | None)):
        raise ConfigError(
            f"Expected {path} to hold {', '.join(_FIELDS)}, model (a folder) and the tables [mechanism], [summary] and "
            f"[columns], which is of texts{f', found {unknown[0]!r}' if unknown else ''}."
        )
    if isinstance(columns, dict) and columns:
        data["column"] = [f"{name}: {what}" for name, what in columns.items()]
    say(f"Read: {path}")
    return Config(path, data, mechanism, None if model is None else Path(model), summary)


def _no_text(value: object) -> bool:
    return not isinstance(value, str)


def defaults(command: TyperCommand) -> dict[str, Any]:
    """Return the values that the file gives for a command's parameters, by the names of their options."""
    written = config().options
    if command.name == "fit" and config().model is not None:
        written = {**written, "out": str(config().model)}
    names = {option.lstrip("-"): str(each.name) for each in command.params for option in each.opts}
    return {names[key]: value for key, value in written.items() if key in names}


_TEXTS: Final = ("first", "second")  # options whose value is a text of a pair, which may be empty
#: Options that have no effect without one of others, by the names of their parameters.
_BESIDE: Final = {
    "subject_key": ("subject_field", "by_subject"), "public_label_field": ("label_field",), "dim": ("noise",),
    "clip_norm": ("noise",),
}  # fmt: skip


def _require_said(command: TyperCommand | TyperGroup, ctx: Any, args: list[str]) -> None:
    """Refuse arguments that would be ignored: a single value given twice, an empty value, an option without another."""
    if ctx.resilient_parsing:
        return
    found, _, order = command.make_parser(ctx).parse_args(args=args)
    for each, times in Counter(each for each in order if isinstance(each, TyperOption)).items():
        name, values = max(each.opts, key=len), found[each.name]
        if times > 1 and not each.multiple and not (each.is_flag and not each.secondary_opts):
            raise ConfigError(f"Expected {name} once, found it {times} times. Give the one you mean.")
        if each.name not in _TEXTS and "" in (values if each.multiple else [values]):
            raise ConfigError(f"Expected {name} with a value, found an empty one. Say what you mean, or leave it out.")
        beside = [other for other in command.params if other.name in _BESIDE.get(str(each.name), ())]
        if beside and not any(ctx.params[other.name] for other in beside):
            raise ConfigError(f"Expected {' or '.join(other.opts[0] for other in beside)} with {name}.")


class StrictCommand(TyperCommand):
    """A command that ignores no argument, takes its defaults from the file, and groups its options.

    Of many options `-h` lists the names, and `--help` explains them.
    """

    brief = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = [*args]  # the parser empties its list
        self.brief = "-h" in given and "--help" not in given
        if not ctx.resilient_parsing and not {*HELP_NAMES["help_option_names"]} & {*args}:
            ctx.default_map = {} if self.name == "init" else defaults(self)  # it writes the file anew
        rest = super().parse_args(ctx, args)
        _require_said(self, ctx, given)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        shown = [(each, line) for each in self.get_params(ctx) if (line := each.get_help_record(ctx)) is not None]
        arguments = [line for each, line in shown if isinstance(each, TyperArgument)]
        options = [(each, line) for each, line in shown if not isinstance(each, TyperArgument)]  # --help is among them
        self.brief = self.brief and len(options) > _MANY
        if self.brief:
            self._names(ctx, formatter, arguments, [each for each, _ in options])
            return
        headed = [(getattr(each, "rich_help_panel", None), line) for each, line in options]
        for title, lines in {"Arguments": arguments, **in_sections(headed)}.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def _names(self, ctx: Any, formatter: Any, arguments: list[tuple[str, str]], options: list[Any]) -> None:
        """Write the names of the options below their headings."""
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        named = [(getattr(each, "rich_help_panel", None), (max(each.opts, key=len), "")) for each in options]
        for title, lines in in_sections(named).items():
            if lines:
                with formatter.section(title):
                    names = ", ".join(name for name, _ in lines)
                    for line in textwrap.wrap(names, formatter.width - 2, break_on_hyphens=False):
                        formatter.write(f"  {line}\n")
        formatter.write_paragraph()
        formatter.write_text(f"{ctx.command_path} --help explains each, with an example.")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if not self.brief:
            super().format_epilog(ctx, formatter)


class LazyGroup(TyperGroup):
    """The program, or a group of it, whose commands stand in the tables of `dptext.cli` and of installed packages.

    `commands` holds a stand-in for each command, with its name and its help, which is enough for lists: first those of
    the library alone. Tables of packages are read for a list, and for a command that the library does not have. typer
    calls `resolve_command` for a command that runs, or whose options are completed. Only this command is imported.
    """

    def __init__(self, *, group: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.above = f"{group} " if group else ""
        self.table: dict[str, Command] = {}
        self._add(COMMANDS)

    def _add(self, table: Mapping[str, Command]) -> None:
        """Add a table's commands of this group, and a stand-in for each."""
        for whole, command in table.items():
            name = whole.removeprefix(self.above)
            if whole.startswith(self.above) and " " not in name:
                self.table[name], self.commands[name] = command, TyperCommand(name, help=command.help)

    def _bring(self) -> tuple[str, ...]:
        """Add the commands of packages. Return what is wrong with those that cannot be used."""
        from dptext.cli.brought import brought

        self._add({whole: command for whole, (_, command) in brought().commands.items()})
        return tuple(brought().faults.values())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = [*args]
        rest = super().parse_args(ctx, args)
        _require_said(self, ctx, given)
        return rest

    def list_commands(self, ctx: Any) -> list[str]:
        self._bring()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in self.table and name not in self.list_commands(ctx) and not ctx.resilient_parsing:
            from dptext.cli.brought import refuse

            refuse(self.above + name)
            for fault in self._bring():
                say(fault)
        return super().get_command(ctx, name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.list_commands(ctx)
        for fault in self._bring():
            say(fault)
        titles = {name: "Commands" if self.above else self.table[name].section or "Other" for name in names}
        for title in dict.fromkeys((*SECTIONS, *titles.values())):
            if some := [name for name in names if titles[name] == title]:
                with formatter.section(title):
                    formatter.write_dl([(name, self.commands[name].get_short_help_str(64)) for name in some])
        if not self.above:
            from dptext.cli.brought import more

            if said := more():
                formatter.write_paragraph()
                formatter.write_text(said)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stand_in, others = super().resolve_command(ctx, args)
        return name, stand_in and self.load(str(name)), others

    @functools.cache  # noqa: B019 (the group lives as long as the process)
    def load(self, name: str) -> TyperCommand | TyperGroup:
        """Import a command of the group; KeyError if there is none of this name."""
        if name not in self.table:
            self._bring()
        entry = self.table[name]
        if not entry.place:
            return LazyGroup(group=self.above + name, name=name, help=entry.help, **_OF_GROUPS)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        epilog = f"Example:\n\n{entry.example}" if entry.example else None
        command: Callable[..., int | None] = spread(self._function(name))

        @functools.wraps(command)
        def ending(**options: Any) -> None:
            if code := command(**options):
                raise typer.Exit(code)

        alone.command(name, cls=StrictCommand, help=entry.help, epilog=epilog, context_settings=HELP_NAMES)(ending)
        return typer.main.get_command(alone)  # type: ignore[return-value]  # a command or a group

    def _function(self, name: str) -> Callable[..., int | None]:
        whole = self.above + name
        if whole in COMMANDS:
            found: Callable[..., int | None] = loaded(COMMANDS[whole].place)
            return found
        from dptext.cli.brought import function_of

        return function_of(whole)


INTERNAL_ERROR = 70
#: Errors of the system for a path or a disk that cannot be used.
_REFUSALS: Final = frozenset(
    (
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP),
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
        *(errno.EBUSY, errno.ETXTBSY, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.EMFILE, errno.ENFILE),
    )
)

app = typer.Typer(
    cls=LazyGroup,
    name="dptext",
    help="Share what private texts say, under differential privacy, and say exactly what was guaranteed.",
    epilog="The flow: check, summarize, summary show, write, explain. COMMAND --help has an example of each.",
    pretty_exceptions_enable=False,
    **_OF_GROUPS,
)


def _version(asked: bool) -> None:
    if asked:
        from dptext.version import __version__

        print(f"dptext {__version__}")
        raise typer.Exit


def _config(path: Path | None) -> None:
    if path is not None:
        _named.append(path)


@app.callback()
def root(
    config: Annotated[
        Path | None,
        Option(parser=Path, callback=_config, metavar="FILE", help="Read this file instead of dptext.toml."),
    ] = None,
    _: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Accept the options before the command. Their callbacks read them."""


def exit_code(error: DPTextError) -> int:
    match error:
        case BudgetExceededError():
            return 3
        case DataError():
            return 4
        case _:
            return 2


def _withhold(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    _tell(kind, trace)
    os._exit(INTERNAL_ERROR)  # an exception would end with status 1, which means that an audit refuted a claim


def _withhold_unraisable(found: sys.UnraisableHookArgs) -> None:
    """Report an error in an object's finalizer, which Python would print whole. A signal may arrive there, too."""
    if isinstance(found.exc_value, Stopped):
        print(f"dptext: {found.exc_value}", file=sys.stderr, flush=True)
        os._exit(found.exc_value.code)
    _tell(found.exc_type, found.exc_traceback)


def _tell(kind: type[BaseException], trace: TracebackType | None) -> None:
    """Report an unexpected error without its message, which might hold private text."""
    last = [*traceback.walk_tb(trace)][-1:]
    where = "".join(f" at {Path(frame.f_code.co_filename).name}:{line}" for frame, line in last)
    print(f"dptext: internal error {kind.__name__}{where}; its message is withheld.", file=sys.stderr, flush=True)


def main() -> None:
    gc.freeze()  # modules imported so far live as long as the process: no garbage collection visits them
    sys.excepthook = _withhold
    sys.unraisablehook = _withhold_unraisable
    threading.excepthook = lambda found: _tell(found.exc_type, found.exc_traceback)
    open_streams()
    listen()
    try:
        try:
            typer.main.get_command(app)()  # calling app itself would put typer's own excepthook in place
        finally:
            sys.stdout.flush()
    except (DPTextError, OSError) as error:
        problem = error if isinstance(error, DPTextError) else refusal(error)
        if problem is None:
            raise
        _end(str(problem), exit_code(problem))
    except Stopped as stopped:
        _end(str(stopped), stopped.code)


def refusal(error: OSError) -> ConfigError | None:
    """Return the error for a path or a disk that the system refuses. None if the OSError has another cause."""
    if error.errno not in _REFUSALS:
        return None
    path = "a file" if error.filename is None else repr(error.filename)
    return ConfigError(
        f"Cannot use {path}: {os.strerror(error.errno)}. Look at the paths of the command, what you may "
        "read and write there, and the room on the disk."
    )


def _end(message: str, code: int) -> NoReturn:
    print("dptext: " + message.replace("\n", "\\n"), file=sys.stderr, flush=True)
    raise SystemExit(code) from None
