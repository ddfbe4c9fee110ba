"""Options that several commands share, and the parsers of their values."""

import functools
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Argument, BadParameter

from dptext import _validate
from dptext._wording import plural
from dptext.cli.grouped import leaves, measures, pays, promises, reads, runs
from dptext.cli.terminal import say, waiting
from dptext.errors import BrokenFileError, ConfigError
from dptext.text.files import Target
from dptext.text.formats import DELIMITED, PACKED, Format, file_format
from dptext.text.plain_text import Portion
from dptext.text.reading import EMPTY, OnError, of_public_files, read_records
from dptext.text.records import TEXT_FIELD, Fields, Record

if TYPE_CHECKING:  # loaded by those who name a ledger
    from dptext.ledger.books import Ledger

Named = TypeVar("Named", bound=StrEnum)


def _checked(text: str, *, file: bool, folder: bool, special: bool) -> Path:
    """Return the path. BadParameter, which never shows the text: something of an unwanted kind exists at the path."""
    if not text:
        raise BadParameter("the path is empty.")
    path = Path(text)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path can hold one of its characters"
        raise BadParameter(f"the path cannot be used: {reason}.") from None
    if stat.S_ISDIR(mode) and not folder:
        raise BadParameter(f"it is a folder; name {'one of its files' if special else 'a file'}.")
    if not stat.S_ISDIR(mode) and not file:
        raise BadParameter("it is a file; name a folder.")
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode) and not special:
        raise BadParameter("it is neither a file nor a folder, but a device or a pipe.")
    return path


def file_path(text: str) -> Path:
    return _checked(text, file=True, folder=False, special=True)


def output_path(text: str) -> Path:
    """Return the path of a file to write. Devices are refused, because the file would replace the device."""
    return _checked(text, file=True, folder=False, special=False)


def folder_path(text: str) -> Path:
    return _checked(text, file=False, folder=True, special=False)


def any_path(text: str) -> Path:
    return _checked(text, file=True, folder=True, special=True)


def place(text: str) -> str:
    if "://" not in text:
        any_path(text)
    return text


def named(check: Callable[[str], Path], text: str, name: str) -> Path:
    """Return the path, checked after parsing. Only then is it known whether it must be a file or a folder."""
    try:
        return check(text)
    except BadParameter as error:
        error.param_hint = f"'{name}'"
        raise


def ledger_location(text: str) -> str:
    """Return the location of the ledger: a file or a URL. The ledger checks a URL, which may hold a password."""
    if "://" not in text:
        output_path(text)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadParameter("the path is not in UTF-8, which the database wants.") from None
    return text


#: Options and arguments that name a file or a folder that is read.
file_option = functools.partial(reads, parser=file_path, metavar="FILE")
file_argument = functools.partial(Argument, parser=file_path)
folder_option = functools.partial(reads, parser=folder_path, metavar="FOLDER")
#: Options and arguments that name a file of records, or a folder of such files.
records_option = functools.partial(reads, parser=any_path, metavar="FILE|FOLDER")
records_argument = functools.partial(Argument, parser=any_path)
#: Options that name a file or a folder that is written.
output_option = functools.partial(leaves, parser=output_path, metavar="FILE")
output_folder_option = functools.partial(leaves, parser=folder_path, metavar="FOLDER")

MechanismOption = Annotated[
    str | None, promises("--mechanism", "-m", metavar="NAME", help="The mechanism; `dptext mechanisms` lists them.")
]
SetOption = Annotated[
    list[str] | None, promises("--set", "-s", metavar="KEY=VALUE", help="A setting of the mechanism. Repeatable.")
]
EpsilonOption = Annotated[
    float | None,
    promises(
        "--epsilon",
        help="Epsilon of the mechanism; the same as --set epsilon=N. `dptext mechanisms NAME` says what it protects.",
    ),
]
SpecOption = Annotated[
    Path | None,
    promises("--spec", parser=file_path, metavar="FILE", help="TOML file with the settings, `kind` among them."),
]
ModelOption = Annotated[
    Path | None,
    promises("--model", parser=folder_path, metavar="FOLDER", help="Folder of a model that `dptext fit` wrote."),
]
PublicOption = Annotated[Path | None, records_option("--public", help="Public records, none of them private.")]
TextFieldOption = Annotated[str | None, reads("--text-field", metavar="NAME", help="Field of the text.")]
PublicTextFieldOption = Annotated[
    str | None,
    reads("--public-text-field", metavar="NAME", help="Field of the text in public files. Default: --text-field."),
]
PublicSheetOption = Annotated[
    str | None, reads("--public-sheet", help="The sheet of public workbooks; default: --sheet.")
]
PublicRecordOption = Annotated[
    str | None,
    reads(
        "--public-record",
        help="How to split public plain text files: file, line or block. Default: --record.",
    ),
]
PublicLabelFieldOption = Annotated[
    str | None,
    reads(
        "--public-label-field",
        metavar="NAME",
        help="Field of the label in public files: a language model is shown it, and `utility` compares with it. "
        "Default: --label-field.",
    ),
]
LabelFieldOption = Annotated[str | None, reads("--label-field", metavar="NAME", help="Field of the label.")]
CarryOption = Annotated[
    str | None,
    leaves(
        "--carry",
        metavar="A,B",
        help="Columns of the pool that leave with its texts, as they are public: slots, a translation, a rating.",
    ),
]
AuthorFieldOption = Annotated[str | None, reads("--author-field", metavar="NAME", help="Field of the author.")]
FormatOption = Annotated[
    str | None,
    reads(
        "--format",
        help="Format of the file: jsonl, csv, tsv, parquet, text, json or xlsx. Default: by its extension.",
    ),
]
DelimiterOption = Annotated[
    str | None,
    reads(
        "--delimiter",
        parser=lambda text: "\t" if text == r"\t" else text,
        metavar="CHARACTER",
        help=r"Character between the columns of CSV, such as ';' or '\t'. Default: a comma.",
    ),
]
EncodingOption = Annotated[
    str | None, reads("--encoding", help="Encoding of the file, such as cp1252 or utf-16. Default: UTF-8.")
]
RecordOption = Annotated[
    str | None, reads("--record", help="How to split a plain text file: file, line or block (of lines).")
]
StripHtmlOption = Annotated[bool, reads("--strip-html", help="Remove HTML tags and decode entities first.")]
SheetOption = Annotated[str | None, reads("--sheet", help="The sheet of an XLSX workbook; default: the only one.")]
SeedOption = Annotated[int | None, runs("--seed", help="Seed that makes the run repeatable.")]
VoidingSeedOption = Annotated[int | None, runs("--seed", help="Seed for experiments. It voids the guarantee.")]
ClassifierOption = Annotated[
    str, measures("--classifier", help="tfidf (linear, quick) or bilstm (the classifier of the ADePT paper).")
]
EncoderOption = Annotated[
    str,
    measures(
        "--encoder",
        metavar="FOLDER",
        help="What compares meanings: sentence, glove, or the folder of a sentence-transformers model, for languages "
        "other than English.",
    ),
]
ForceOption = Annotated[bool, runs("--force", help="Overwrite an existing file. An input is never overwritten.")]
DetailsOption = Annotated[bool, runs("--details", help="Print the details below the answer.")]
JsonOption = Annotated[bool, runs("--json", help="Print the result as JSON.")]
ResumeOption = Annotated[bool, runs("--resume", help="Go on with an unfinished run.")]
WithoutGuaranteeOption = Annotated[
    bool, promises("--without-guarantee", help="Allow a mechanism that guarantees nothing.")
]
DeltaOption = Annotated[float, promises("--delta", help="The delta at which guarantees are stated.")]
_ledger_option = functools.partial(pays, "--ledger", parser=ledger_location, metavar="PLACE")
_named_by_environment = functools.partial(_ledger_option, envvar="DPTEXT_LEDGER", show_envvar=True)
LedgerOption = Annotated[
    str, _named_by_environment(help="The ledger: a file, or postgresql+psycopg://USER@HOST/DATABASE.")
]
PayingLedgerOption = Annotated[
    str | None, _named_by_environment(help="The ledger that holds the account; see `dptext budget`.")
]
CheckedLedgerOption = Annotated[
    str | None,
    _ledger_option(help="Ledger in which the charge of a certificate is looked up, too. Default: DPTEXT_LEDGER."),
]
SubjectKeyOption = Annotated[
    Path | None,
    pays(
        "--subject-key",
        parser=output_path,
        metavar="FILE",
        envvar="DPTEXT_SUBJECT_KEY",
        show_envvar=True,
        help="File of the secret key that hashes the names of subjects. Default: LEDGER.key beside a ledger file.",
    ),
]


def member(kind: type[Named], option: str, text: str, *others: str) -> Named:
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"Expected {option} {text!r} to be one of {', '.join([*kind, *others])}.") from None


@dataclass(frozen=True, slots=True)
class Form:
    """The options for reading a file of records.

    Options about delimiters or lines do not apply to files of other formats.
    """

    text_field: Annotated[str, reads(metavar="NAME", help="Field of the text.")] = TEXT_FIELD
    input_format: FormatOption = None
    delimiter: DelimiterOption = None
    encoding: EncodingOption = None
    record: RecordOption = None
    sheet: SheetOption = None
    empty_nulls: Annotated[bool, reads("--empty-nulls", help="Read null texts as empty texts.")] = False
    strip_html: StripHtmlOption = False
    on_error: Annotated[str, reads(help="What to do at an unreadable record: stop, or skip it.")] = "stop"

    def typed(self, **more: object) -> list[str]:
        """Return these options, and `more` of them, as a user types them."""
        return as_typed(
            text_field=None if self.text_field == TEXT_FIELD else self.text_field,
            **more,
            format=self.input_format,
            delimiter=self.delimiter,
            encoding=self.encoding,
            record=self.record,
            sheet=self.sheet,
            empty_nulls=self.empty_nulls,
            strip_html=self.strip_html,
            on_error=None if self.on_error == "stop" else self.on_error,
        )

    def settings(self) -> dict[str, Any]:
        return {
            "input_format": None if self.input_format is None else member(Format, "--format", self.input_format),
            "on_error": member(OnError, "--on-error", self.on_error),
            "record": None if self.record is None else member(Portion, "--record", self.record),
            **{name: getattr(self, name) for name in ("delimiter", "encoding", "sheet", "empty_nulls", "strip_html")},
        }


@dataclass(frozen=True, slots=True)
class Layout(Form):
    """The options for reading the files of a command, which may be of several formats."""

    public_text_field: PublicTextFieldOption = None
    public_label_field: PublicLabelFieldOption = None
    public_record: PublicRecordOption = None
    public_sheet: PublicSheetOption = None

    def read(
        self,
        path: Path,
        *,
        label: str | None = None,
        author: str | None = None,
        id: str | None = None,
        measured: tuple[str, ...] = (),
    ) -> list[Record]:
        fields = Fields(self.text_field, label=label, author=author, id=id, measured=measured)
        return self._records(path, fields, self.record, self.sheet)

    def read_public(self, path: Path | None, *, label: str | None = None, keep: tuple[str, ...] = ()) -> list[Record]:
        """Return the records of a public file; without a file, none. Errors name the options of public files."""
        if path is None:
            return []
        with of_public_files(), waiting(f"Reading {path}."):  # of a private file it would tell that it is large
            fields = Fields(
                self.public_text_field or self.text_field, label=label and (self.public_label_field or label), keep=keep
            )
            return self._records(path, fields, self.public_record or self.record, self.public_sheet or self.sheet)

    def public_label(self, path: Path, label: str | None) -> str | None:
        """Return the label field of a public file. None if no record has the field, and no option names it.

        Errors name the options of public files.
        """
        if label is None or self.public_label_field is not None:
            return label
        kind = self.settings()["input_format"]
        with of_public_files(), waiting(f"Looking for {label!r} in {path}."):
            return label if self._has_public(path, kind, label) else None

    def _has_public(self, path: Path, kind: Format | None, label: str) -> bool:
        """Return whether a row of a public file, or of the files of a folder, has a field."""
        from dptext.text.survey import sheet_of  # few commands need these
        from dptext.text.survey_parts import has_column, part_of

        sheet = self.public_sheet or self.sheet
        if path.is_dir():
            from dptext.batch.contents import dataset_parts  # folders alone need it

            parts, _ = dataset_parts(
                str(path), format=kind, delimiter=self.delimiter, encoding=self.encoding,
                record=self.public_record or self.record, sheet=sheet,
            )  # fmt: skip
            return any(has_column(part, label) for part in parts)
        kind = file_format(path, kind)
        if kind is Format.TEXT:
            return False
        if kind is Format.XLSX:
            sheet_of(path, sheet)  # its errors name the sheets
        part = part_of(
            path,
            format=kind,
            delimiter=self.delimiter if kind in DELIMITED else None,
            encoding=None if kind in PACKED else self.encoding,
            sheet=sheet if kind is Format.XLSX else None,
        )
        return has_column(part, label)

    def _records(self, path: Path, fields: Fields, record: str | None, sheet: str | None) -> list[Record]:
        if path.is_dir():
            return self._of_folder(path, fields, record, sheet)
        reading = self.settings()
        kind = file_format(path, reading.pop("input_format"))
        reading["delimiter"] = self.delimiter if kind in DELIMITED else None
        reading["encoding"] = None if kind in PACKED else self.encoding
        reading["record"] = record if kind is Format.TEXT else None
        reading["sheet"] = sheet if kind is Format.XLSX else None
        return list(read_records(path, fields, format=kind, **reading, on_skip=skipped))

    def _of_folder(self, folder: Path, fields: Fields, record: str | None, sheet: str | None) -> list[Record]:
        """Return the records of all files of a folder, by name. Records without ids are numbered through."""
        from dptext.batch.shards import as_read, read, shards_of  # folders alone need it
        from dptext.runs.plan import Plan

        shards = shards_of(folder, format=self.settings()["input_format"], options={})
        plan = as_read(folder, shards, Plan(fields, **{**self.settings(), "record": record, "sheet": sheet}))
        lost: dict[str, int] = {}
        found = [each for shard in shards for batch in read(shard, plan, {}, lost, allow_empty=True) for each in batch]
        for reason, times in lost.items():
            say(f"skipped {plural(times, 'record')} of {folder}: {reason}")
        if not found:
            raise BrokenFileError(f"{folder}: {EMPTY.reason}.")
        return found if fields.id is not None else [replace(each, id=str(i)) for i, each in enumerate(found)]


def as_typed(**given: object) -> list[str]:
    """Return options with these values as a user types them. True gives a switch; None and False are left out."""
    wanted = ((f"--{name.replace('_', '-')}", value) for name, value in given.items() if value not in (None, False))
    return [part for name, value in wanted for part in ([name] if value is True else [name, str(value)])]


def skipped(number: int, reason: str) -> None:
    say(f"skipped record {number}: {reason}")


def seed_of(seed: int | None) -> int:
    """Return the seed of --seed, or one drawn at random. ConfigError: not in [0, 2^32), the range of the libraries."""
    if seed is None:
        return secrets.randbits(32)
    _validate.within(0, 2**32 - 1, seed=seed)
    return seed


def target_of(path: Path | None, *inputs: Path | None, force: bool, private: bool = True) -> Target | None:
    """Return the target of an output option, checked before the work. None without the option.

    `inputs` are the files that the same command reads. A `private` file holds numbers computed from originals.
    """
    if path is None:
        return None
    target = Target(path, force, tuple(each for each in inputs if each is not None), private)
    target.check()
    return target


def opened(location: str) -> "Ledger":
    from dptext.ledger.books import Ledger

    return Ledger.at(location)


def default_key(ledger: "Ledger") -> Path | None:
    """Return the path of the subject key of a ledger in a file. The key lies beside the ledger, never in it."""
    return None if ledger.path is None else ledger.path.with_name(ledger.path.name + ".key")
