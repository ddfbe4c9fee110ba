"""What `dptext init` reads of both files, or folders: columns, the labels of the public texts, and forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from dptext._wording import plural
from dptext.cli import options
from dptext.cli.app import FILE
from dptext.cli.asking import at_terminal, made, record_of, require_field, require_public
from dptext.cli.check import NOT_BY_TEXTS, NOT_PROTECTED, form_options, stated_options
from dptext.cli.terminal import counted_if_slow
from dptext.errors import ConfigError, DataError
from dptext.text.formats import Format, file_format
from dptext.text.reading import of_public_files
from dptext.text.records import Fields, Record
from dptext.text.survey import Survey, survey
from dptext.text.surveyed import Column
from dptext.types import Json

_MOST_LABELS: Final = 50
_STRIP_HTML: Final = "strip-html"
_HTML_SHARE: Final = 0.05  # least share of texts with tags at which tags are taken out


@dataclass(frozen=True, slots=True)
class InitFiles:
    """What is known of both files, or folders.

    Attributes:
        source, found: the private file, and what is in it.
        text_field: the field of its texts.
        public, like: the public file, and what is in it; None without one.
        public_text_field: the field of its texts.
        public_record: the portion of plain text that is one record of it.
        sheet: the sheet of both files.
        each_text: whether each text is to leave, so that a mechanism learns the public labels.
        others: options of the public file that are written down, by their names.
        label_field: the column of the labels; empty without labels.
        known: the public records.
    """

    source: Path
    found: Survey
    text_field: str
    public: Path | None = None
    like: Survey | None = None
    public_text_field: str = ""
    public_record: str | None = None
    sheet: str | None = None
    each_text: bool = False
    others: tuple[tuple[str, str], ...] = ()
    label_field: str = ""
    known: tuple[Record, ...] = ()

    @classmethod
    def of(
        cls, source: Path, found: Survey, text_field: str, public: str, sheet: str | None,
        public_text_field: str | None, public_record: str | None, *, each_text: bool,
    ) -> InitFiles:  # fmt: skip
        """Look at the public file. ConfigError or DataError: it is missing, or cannot be read like the private one."""
        if not public:
            if each_text:
                return cls(source, found, text_field, sheet=sheet, each_text=True)
            raise ConfigError("Expected public texts of the same kind, from which a corpus is written: --public FILE.")
        require_public(public, source)
        path, others = Path(public), {"public-text-field": public_text_field, "public-record": public_record}
        record = record_of(public_record or found.record, path)
        workbook = _sheet_of(path, sheet)
        like, own = _surveyed_public(path, public_text_field or text_field, record=record, sheet=workbook)
        if own not in (text_field, public_text_field):
            others["public-text-field"] = own
        if not each_text and found.format is like.format:
            _require_alike(found, like)
        said = tuple((name, value) for name, value in others.items() if value is not None)
        return cls(source, found, text_field, path, like, own, record, sheet, each_text, said)

    def labelled(self, label_field: str, public_label_field: str | None) -> InitFiles:
        """Return these files with a field of labels, and read the public one.

        ConfigError: the private file lacks the field, or a mechanism cannot learn its labels from the public one.
        """
        require_field(self.found, label_field, "--label-field")
        Fields(self.text_field, label=label_field or None)  # ConfigError: one field cannot be both
        others = {**dict(self.others)}
        if self.public is None or self.like is None:
            return replace(self, label_field=label_field)
        label = (public_label_field or label_field) if label_field or public_label_field else ""
        if label and label not in self.like.columns:
            if self.each_text and at_terminal() and public_label_field is None:
                label = self._asked_label(label_field)
                label_field = label_field if label else ""
            elif self.each_text:
                raise ConfigError(
                    f"Expected the field {label!r} in {self.public}, whose labels the mechanism learns: name it with "
                    "--public-label-field, or leave --label-field out."
                )
            else:
                label = ""  # the pool of a corpus needs no labels
        if public_label_field is not None or label not in ("", label_field):
            others["public-label-field"] = public_label_field or label
        layout = options.Layout(
            self.public_text_field, delimiter=self.like.delimiter, encoding=self.like.encoding,
            record=self.like.record, sheet=_sheet_of(self.public, self.sheet), empty_nulls=True,
            on_error="skip" if self.like.bad else "stop",
        )  # fmt: skip
        known = tuple(layout.read_public(self.public, label=label or None))
        found = replace(self, label_field=label_field, known=known, others=tuple(others.items()))
        if self.each_text and label_field and not 1 < len(found.labels) <= _MOST_LABELS:
            raise ConfigError(
                f"Expected {label!r} of the public texts to hold 2 to {_MOST_LABELS} labels, found "
                f"{len(found.labels)}. Name another field with --label-field, or leave it out."
            )
        return found

    def _asked_label(self, label_field: str) -> str:
        """Return the field of the labels in the public file, as the user says; empty for none."""
        like = self.like or self.found

        def field(told: str) -> str:
            require_field(like, told, "--public-label-field")
            return told

        names = ", ".join(map(repr, like.columns)) if like.named else "names that cannot be shown"
        return made(
            None, f"{self.public} has no {label_field!r}. Its field of labels, of {names} (return: none)", field
        )

    @property
    def fields(self) -> dict[str, Json]:
        """Options that are written down, by their names: of the private file, and the form of the public one."""
        chosen = (("record", self.found.record), ("sheet", self.sheet))
        own: dict[str, Json] = {"text-field": self.text_field, **{name: each for name, each in chosen if each}}
        return own if self.like is None else own | form_of(self.like, self.found.format, self.public_text_field)

    @property
    def form(self) -> list[str]:
        """Options by which the public file is read, and that are not written down."""
        if self.like is None:
            return []
        own = form_options(self.like, {"record": self.public_record, **self.fields})
        return [*own, *options.as_typed(on_error="skip" if self.like.bad else None)]

    @property
    def labels(self) -> list[str]:
        """The labels of the public texts, if they have some. Labels of the private texts are private."""
        return sorted({record.label for record in self.known if record.label is not None})

    @property
    def stem(self) -> str:
        """The name of the private file without its endings."""
        return self.source.name.partition(".")[0]

    def taken(self) -> list[str]:
        """Return lines about settings that were taken from the public file, and on tags that stay."""
        if self.like is None:
            return []
        column, own = self.like.columns.get(self.public_text_field, Column()), self.fields
        share = f"{column.tags / max(1, column.rows):.1%} look like HTML"
        why = {
            _STRIP_HTML: f"{share}: tags are taken out",
            "empty-nulls": f"{plural(column.nulls, 'text')} null: read as empty",
            "delimiter": repr(self.like.delimiter),
            "encoding": str(self.like.encoding),
        }
        found = [f"{name} ({reason})" for name, reason in why.items() if name in own]
        said = [f"Taken from {self.public}, for both files: {', '.join(found)}."] if found else []
        if column.tags and _STRIP_HTML not in own:
            said.append(
                f"Tags stay in the texts: {share} in {self.public}, fewer than {_HTML_SHARE:.0%}. With "
                f"strip-html = true in {FILE} they are taken out of both files."
            )
        return said

    def suggested(self, fields: dict[str, Json]) -> str:
        """Return what the private file suggests besides what is written, and how to decide it."""
        column = self.found.columns.get(self.text_field, Column())
        found = [each for each in stated_options(self.found, column) if each.removeprefix("--") not in fields]
        if not _is_html(column):
            found = [each for each in found if each != f"--{_STRIP_HTML}"]
        if not found and not form_options(self.found, fields):
            return ""
        said = f" {self.source} also suggests {' '.join(found)}." if found else ""
        return f"\n{NOT_PROTECTED}{said}\n{NOT_BY_TEXTS}"


def surveyed(source: Path, **how: Any) -> Survey:
    """Survey a file or a folder; arguments and errors are those of `survey`."""
    with counted_if_slow("reading", "rows") as tell:
        how |= {"on_rows": lambda n: tell(n, None)}
        if not source.is_dir():
            return survey(source, **how)
        from dptext.batch.contents import survey_dataset  # folders alone need it

        return survey_dataset(str(source), **how)


def _surveyed_public(public: Path, text_field: str, **how: Any) -> tuple[Survey, str]:
    """Survey the public file, and return the field of its texts: at a terminal an answer, if it lacks the usual one."""
    try:
        with of_public_files():
            return surveyed(public, text=text_field, **how), text_field
    except (ConfigError, DataError):
        if not at_terminal():
            raise
        like = surveyed(public, **how)
        if text_field in like.columns or not like.named:
            raise
    names = ", ".join(map(repr, like.columns))

    def field(told: str) -> tuple[Survey, str]:
        if not told:
            raise ConfigError(f"Expected --public-text-field NAME with {public}, found {names}.")
        require_field(like, told, "--public-text-field")
        return surveyed(public, text=told, **how), told

    return made(None, f"{public} has no {text_field!r}. Its field of the text, of {names}", field)


def _sheet_of(path: Path, sheet: str | None) -> str | None:
    return sheet if path.is_dir() or file_format(path, None) is Format.XLSX else None


def _is_html(column: Column) -> bool:
    return column.tags > 0 and column.tags >= _HTML_SHARE * column.rows


def form_of(public: Survey, private: Format, text_field: str) -> dict[str, Json]:
    """Return the options by which both files are read, from the public file.

    A delimiter and an encoding are among them only if both files have the public file's format.
    """
    column = public.columns.get(text_field, Column())
    form = {"delimiter": public.delimiter, "encoding": public.encoding} if public.format is private else {}
    usual = (None, False, "\t" if public.format is Format.TSV else ",", "utf-8")
    said: dict[str, Json] = {**form, "empty-nulls": bool(column.nulls), _STRIP_HTML: _is_html(column)}
    return {name: value for name, value in said.items() if value not in usual}


def _require_alike(private: Survey, public: Survey) -> None:
    """Raise ConfigError unless `summarize` can read both files by one delimiter.

    Their encodings may differ: which one a file has is guessed from its texts.
    """
    one, other = private.delimiter, public.delimiter
    if None not in (one, other) and one != other:
        raise ConfigError(
            f"Expected both files to have one delimiter, as --delimiter is of both: found {one!r} in {private.path} "
            f"and {other!r} in {public.path}. Save one of them anew."
        )
