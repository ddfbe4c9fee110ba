"""Options that several commands share, and how their values are read."""

import functools
import re
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from dptext import _validate
from dptext.cli.progress import say
from dptext.errors import ConfigError, DataError
from dptext.text.files import Target
from dptext.text.formats import DELIMITED, PACKED, Format, file_format
from dptext.text.reading import OnError, read_records
from dptext.text.records import TEXT_FIELD, Fields, Record

Named = TypeVar("Named", bound=StrEnum)


def _checked(text: str, *, file: bool, folder: bool, special: bool) -> Path:
    """The path, unless something is there that is not of the wanted kind. No message shows the text."""
    if not text:
        raise typer.BadParameter("the path is empty.")
    path = Path(text)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path can hold one of its characters"
        raise typer.BadParameter(f"the path cannot be used: {reason}.") from None
    if stat.S_ISDIR(mode) and not folder:
        raise typer.BadParameter("it is a folder; name a file.")
    if not stat.S_ISDIR(mode) and not file:
        raise typer.BadParameter("it is a file; name a folder.")
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode) and not special:
        raise typer.BadParameter("it is neither a file nor a folder, but a device or a pipe.")
    return path


def file_path(text: str) -> Path:
    """Where a file is read."""
    return _checked(text, file=True, folder=False, special=True)


def output_path(text: str) -> Path:
    """Where a file is written: a device would be replaced by it."""
    return _checked(text, file=True, folder=False, special=False)


def folder_path(text: str) -> Path:
    """Where a folder is read or written."""
    return _checked(text, file=False, folder=True, special=False)


def any_path(text: str) -> Path:
    """Where a file or a folder is read."""
    return _checked(text, file=True, folder=True, special=True)


def place(text: str) -> str:
    """Where records are read or written: a file, a folder, a glob or a URL."""
    if "://" not in text:
        any_path(text)
    return text


def named(check: Callable[[str], Path], text: str, name: str) -> Path:
    """The path, checked later than others are, as only then it was known what it has to be."""
    try:
        return check(text)
    except typer.BadParameter as error:
        error.param_hint = f"'{name}'"
        raise


def ledger_location(text: str) -> str:
    """Where the books are: a file, or a URL. A URL may hold a password, so that the ledger checks it, not this."""
    if "://" not in text:
        output_path(text)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise typer.BadParameter("the path is not in UTF-8, which the database wants.") from None
    return text


#: Options and arguments that name a file that is read, or a file or folder that is written.
file_option = functools.partial(typer.Option, parser=file_path)
file_argument = functools.partial(typer.Argument, parser=file_path)
output_option = functools.partial(typer.Option, parser=output_path)
folder_option = functools.partial(typer.Option, parser=folder_path)

MechanismOption = Annotated[str | None, typer.Option("--mechanism", "-m", help="Mechanism; see `dptext mechanisms`.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", "-s", help="KEY=VALUE, a setting. Repeatable.")]
SpecOption = Annotated[Path | None, file_option("--spec", help="TOML file with the settings, `kind` among them.")]
ModelOption = Annotated[Path | None, folder_option("--model", help="Folder of a model that `dptext fit` wrote.")]
PublicOption = Annotated[Path | None, file_option("--public", help="Public records, none of them private.")]
TextFieldOption = Annotated[str, typer.Option("--text-field", help="Field of the text.")]
PublicTextFieldOption = Annotated[
    str | None, typer.Option("--public-text-field", help="The same in public files; default: --text-field.")
]
PublicLabelFieldOption = Annotated[
    str | None, typer.Option("--public-label-field", help="The same in public files; default: --label-field.")
]
LabelFieldOption = Annotated[str | None, typer.Option("--label-field", help="Field of the label.")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="jsonl, csv, tsv, parquet, text, json or xlsx; default: by the extension."),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        parser=lambda text: "\t" if text == r"\t" else text,
        metavar="CHARACTER",
        help=r"What parts the columns of CSV, as ';' or '\t'; default: a comma.",
    ),
]
EncodingOption = Annotated[
    str | None, typer.Option("--encoding", help="Of the file, as cp1252 or utf-16; default: UTF-8.")
]
EmptyNullsOption = Annotated[bool, typer.Option("--empty-nulls", help="Read null texts as empty ones.")]
StripHtmlOption = Annotated[
    bool, typer.Option("--strip-html", help="Take HTML tags out of the texts first, and decode entities.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Makes the run repeatable.")]
ClassifierOption = Annotated[
    str, typer.Option("--classifier", help="tfidf (linear, quick), or bilstm as in the ADePT paper.")
]
OnErrorOption = Annotated[str, typer.Option("--on-error", help="stop, or skip unreadable records.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite a file that is there; never one that is read.")]
DetailsOption = Annotated[bool, typer.Option("--details", help="Print all below the answer.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
WithoutGuaranteeOption = Annotated[
    bool, typer.Option("--without-guarantee", help="Try a mechanism that guarantees nothing.")
]
DeltaOption = Annotated[float, typer.Option("--delta", help="The delta at which guarantees are stated.")]
FirstSetArgument = Annotated[Path, file_argument(metavar="A", help="Texts of one set, such as a sensitive one.")]
SecondSetArgument = Annotated[Path, file_argument(metavar="B", help="Texts of the other, such as a safe one.")]
_ledger_option = functools.partial(typer.Option, "--ledger", parser=ledger_location)
_named_by_environment = functools.partial(_ledger_option, envvar="DPTEXT_LEDGER", show_envvar=True)
LedgerOption = Annotated[
    str, _named_by_environment(help="The books: a file, or postgresql+psycopg://USER@HOST/DATABASE.")
]
PayingLedgerOption = Annotated[str | None, _named_by_environment(help="Books with the account; see `dptext budget`.")]
CheckedLedgerOption = Annotated[
    str | None, _ledger_option(help="With a certificate: look the charge up in these books, too.")
]
SubjectKeyOption = Annotated[
    Path | None,
    output_option(
        "--subject-key",
        envvar="DPTEXT_SUBJECT_KEY",
        show_envvar=True,
        help="File of the secret under which names of subjects are hashed; default: LEDGER.key beside a file.",
    ),
]


def member(kind: type[Named], option: str, text: str, *others: str) -> Named:
    """The member of an enumeration that an option names."""
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"Expected {option} {text!r} to be one of {', '.join([*kind, *others])}.") from None


@dataclass(frozen=True, slots=True)
class Layout:
    """How the files of a command are read, which may be of several formats.

    What speaks of columns parted by a delimiter, or of lines, is not for files of other formats.
    """

    text_field: TextFieldOption = "text"
    public_text_field: PublicTextFieldOption = None
    input_format: FormatOption = None
    delimiter: DelimiterOption = None
    encoding: EncodingOption = None
    empty_nulls: EmptyNullsOption = False
    strip_html: StripHtmlOption = False
    public_label_field: PublicLabelFieldOption = None
    on_error: OnErrorOption = "stop"

    def typed(self) -> list[str]:
        """These options as one types them, but for those of public files."""
        return as_typed(
            text_field=None if self.text_field == TEXT_FIELD else self.text_field,
            format=self.input_format,
            delimiter=self.delimiter,
            encoding=self.encoding,
            empty_nulls=self.empty_nulls,
            strip_html=self.strip_html,
            on_error=None if self.on_error == "stop" else self.on_error,
        )

    def read(
        self, path: Path, *, label: str | None = None, author: str | None = None, id: str | None = None
    ) -> list[Record]:
        """The records of a file, with these fields."""
        return self._records(path, Fields(self.text_field, label=label, author=author, id=id))

    def read_public(self, path: Path | None, *, label: str | None = None) -> list[Record]:
        """The records of a public file, none where there is no file; errors name the options of public files."""
        if path is None:
            return []
        try:
            return self._records(
                path,
                Fields(self.public_text_field or self.text_field, label=label and (self.public_label_field or label)),
            )
        except DataError as error:
            error.args = (re.sub("--(text|label)-field", r"--public-\1-field", str(error)),)
            raise

    def _records(self, path: Path, fields: Fields) -> list[Record]:
        kind = file_format(path, None if self.input_format is None else member(Format, "--format", self.input_format))
        found = read_records(
            path,
            fields,
            format=kind,
            delimiter=self.delimiter if kind in DELIMITED else None,
            encoding=None if kind in PACKED else self.encoding,
            empty_nulls=self.empty_nulls,
            strip_html=self.strip_html,
            on_error=member(OnError, "--on-error", self.on_error),
            on_skip=skipped,
        )
        return list(found)


def as_typed(**given: object) -> list[str]:
    """Options with these values as one types them; a switch that is on has no value, None and False are left out."""
    wanted = ((f"--{name.replace('_', '-')}", value) for name, value in given.items() if value not in (None, False))
    return [part for name, value in wanted for part in ([name] if value is True else [name, str(value)])]


def skipped(number: int, reason: str) -> None:
    """Say that a record was skipped."""
    say(f"skipped record {number}: {reason}")


def seed_of(seed: int | None) -> int:
    """The seed of --seed, in [0, 2^32) as the libraries take it, or one drawn at random."""
    if seed is None:
        return secrets.randbits(32)
    _validate.within(0, 2**32 - 1, seed=seed)
    return seed


def target_of(path: Path | None, *inputs: Path | None, force: bool, private: bool = True) -> Target | None:
    """Where the file of an output option goes, checked before the work; None without the option.

    The inputs are read by the same command. A private file holds numbers computed from originals.
    """
    if path is None:
        return None
    target = Target(path, force, tuple(each for each in inputs if each is not None), private)
    target.check()
    return target
