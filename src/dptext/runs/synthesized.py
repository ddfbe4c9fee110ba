"""A synthetic corpus with its certificate, and the files that hold them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from dptext._wording import html_table, html_text, plural
from dptext.errors import ConfigError, needing
from dptext.privacy.guarantee import Guarantee
from dptext.runs.carried import Carried
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.typed_frames import pandas_columns, polars_frame, to_dataset
from dptext.synthesis.page import topics_page
from dptext.synthesis.report import Topics
from dptext.synthesis.summary import Summary
from dptext.text.column_types import Types, as_number
from dptext.text.columns import TEXTS_ONLY, Columns
from dptext.text.declarations import schema_of
from dptext.text.files import Target, sha256_of, writing
from dptext.text.formats import READ_ONLY, Format, Scalar, detect_format, endings, output_format
from dptext.text.records import LABEL_FIELD, Fields, Release
from dptext.text.writers import APPENDABLE, encode_batch, write_all
from dptext.types import Json

if TYPE_CHECKING:
    from dptext.synthesis.spec import CorpusSpec

#: Suffixes of the two topic reports beside an output file: JSON, and a page.
REPORT_SUFFIXES: Final = (".topics.json", ".topics.html")
_SHOWN: Final = 5  # texts in a notebook


@dataclass(frozen=True, slots=True)
class Synthesized:
    """A synthetic corpus with its certificate.

    Attributes:
        releases: public texts with labels, under ids that belong to nobody.
        report: noisy numbers by label and topic.
        sentences: the report in plain words.
        certificate: certificate of the releases as JSON Lines; `write` returns the certificate of a file.
        left: the balance of the account in words; empty if no account paid.
        inputs: the input files, which `write` never replaces.
        settle: call to settle the charge of a run with settled=False, before anybody sees the corpus; else None.
        data: contents of the output file if no text is released.
        fields: names of the columns of texts and labels.
        carried: types of the columns of the pool that leave with its texts, for formats with types and frames.
    """

    releases: tuple[Release[str], ...]
    report: Topics
    sentences: tuple[str, ...]
    certificate: Certificate
    left: str = ""
    inputs: tuple[Path, ...] = ()
    settle: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    data: bytes = field(default=b"", repr=False)
    fields: Fields = field(default_factory=Fields)
    carried: Types = ()

    @property
    def spec(self) -> CorpusSpec:
        """The settings of what was measured. ConfigError: its mechanism is not installed here."""
        return synthesis_from_settings(self.certificate.settings)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees of the whole corpus with its report."""
        return self.certificate.guarantees

    def __iter__(self) -> Iterator[Release[str]]:
        return iter(self.releases)

    def to_records(self) -> list[Release[str]]:
        """Return all texts that leave."""
        return list(self.releases)

    def json_lines(self) -> bytes:
        """Return the texts as JSON Lines, the bytes whose sha256 `certificate` has; or a report without texts."""
        return encode_batch(self.releases, Format.JSONL, self.columns) if self.releases else self.data

    @property
    def columns(self) -> Columns:
        """The columns of the texts in JSON Lines."""
        label = bool(self.releases) and self.releases[0].label is not None
        label |= self.has_summary and bool(self.certificate.settings["labels"])
        return Columns(label=label, keep=self.fields.keep, fields=self.fields, types=self._label_types)

    @property
    def _label_types(self) -> Types:
        kind = self.certificate.settings.get("label_type")
        return ((self.fields.label or LABEL_FIELD, kind),) if kind else ()

    def joined(self, carried: Carried) -> Synthesized:
        """Return the corpus with these columns of its pool. ConfigError: a text is none of the pool's."""
        releases = carried.joined(self.releases)
        fields = replace(self.fields, keep=(*self.fields.keep, *carried.names))
        found = replace(self, releases=releases, fields=fields, carried=(*self.carried, *carried.types))
        digest = hashlib.sha256(found.json_lines()).hexdigest()
        return replace(found, certificate=replace(self.certificate, sha256=digest, fields=found.columns.renamed))

    def write(
        self,
        path: str | PathLike[str],
        *,
        format: Format | None = None,
        force: bool = False,
        private: bool = False,
        settle: Callable[[], None] | None = None,
    ) -> Certificate:
        """Write the corpus, its certificate and its topic reports; a synthesis without texts writes its report as JSON.

        All files are whole before any file gets its name; `settle` is called in between. Only their owner can read
        `private` files. ConfigError: a path cannot be used.
        """
        target, beside, *reports = (Target(each, force, self.inputs, private) for each in paths_of(Path(path)))
        for each in (target, beside, *reports):
            each.check()
            each.clear()  # delete a leftover of an earlier draw under the same charge
        kind, columns = self._columns(target.path, format)
        page = topics_page(self.report, [self.guarantees[-1].sentence(), *self.sentences]).encode()
        with contextlib.ExitStack() as whole:  # exits run in reverse order: the certificate gets its name first
            file = whole.enter_context(target.opened())
            if self.releases:
                write_all(file, target.path, [self.releases], kind, lambda _: columns)
            else:
                _put(target, file, self.data)
            file.flush()
            named = replace(
                self.certificate, output=target.path.name, sha256=sha256_of(Path(file.name)), fields=columns.renamed
            )
            contents = self.report.to_json(), page, named.to_json().encode()
            for each, data in zip((*reports, beside), contents, strict=True):
                _put(each, whole.enter_context(each.opened()), data)
            for each in (target, beside, *reports):
                each.check()  # before the charge is settled, and before any file gets its name
            if settle is not None:
                settle()
        return named

    def _columns(self, path: Path, format: Format | None) -> tuple[Format, Columns]:
        if self.certificate.writes_from_summary:
            labels = tuple(str(each) for each in cast("list[Json]", self.certificate.settings["labels"]))
            kind, columns = text_columns(path, format, labels, self.fields)
            types = tuple(self.types.items()) if kind is Format.PARQUET else self._label_types
            return kind, replace(columns, types=types)
        kind, columns = file_columns(path, format, self.certificate.settings, self.fields)
        if self.has_summary:
            return kind, replace(columns, fields=self.fields)
        types = tuple(self.types.items()) if kind is Format.PARQUET else self._label_types
        return kind, replace(columns, types=types if self.releases else ())

    @property
    def has_summary(self) -> bool:
        """Whether this is the result of `dptext.summarize`, or of adding summaries."""
        return self.certificate.settings["kind"] == "summary" and bool(self.data)

    @property
    def summary(self) -> Summary:
        """The summary that was measured. ConfigError: this is not the result of `dptext.summarize`."""
        if not self.has_summary:
            raise ConfigError("Expected the result of dptext.summarize, found other results: they hold no summary.")
        return Summary.of_bytes(self.data)

    def to_dict(self) -> dict[str, list[Scalar]]:
        """Return the columns of ids, texts, labels if there are some, and the table as lists, for a data frame."""
        own = self.fields
        names = {own.id or "id": "id", own.text: "output"}
        if any(each.label is not None for each in self.releases):
            names[own.label or "label"] = "label"
        found = {name: [getattr(each, its) for each in self.releases] for name, its in names.items()}
        for name, kind in self._label_types:
            found[name] = [each and as_number(each, kind) for each in found[name]]
        return {**found, **{name: [each.kept[name] for each in self.releases] for name in own.keep}}

    @property
    def types(self) -> dict[str, str]:
        """The names of the Arrow types of columns that hold no texts, as declarations or the public pool say them."""
        columns = self.certificate.settings.get("columns", []) if self.certificate.writes_from_summary else []
        named = ((each.name, each.arrow) for each in schema_of(cast("list[str]", columns)) if each.arrow != "string")
        return dict((*self._label_types, *named, *self.carried)) if self.releases else {}

    def to_pandas(self) -> Any:
        """Return a pandas data frame in the types of `types`. MissingExtraError: pandas is not installed."""
        with needing("A data frame", "dptext[frames]"):
            import pandas as pd  # noqa: PLC0415 (an extra)
        return pd.DataFrame(pandas_columns(self.to_dict(), self.types))

    def to_polars(self) -> Any:
        """Return a polars data frame. MissingExtraError: polars is not installed."""
        return polars_frame(self.to_dict(), self.types)

    def to_dataset(self) -> Any:
        """Return a `datasets.Dataset` of Hugging Face. MissingExtraError: datasets is not installed."""
        return to_dataset(self.to_dict(), self.types, {})

    def __repr__(self) -> str:
        return f"Synthesized({self.certificate.settings['kind']}, {len(self.releases):,} texts)"

    def _repr_html_(self) -> str:
        said = html_text("\n".join([self.guarantees[-1].sentence(), *self.sentences]))
        shown = {name: column[:_SHOWN] for name, column in self.to_dict().items()}
        whole = f"The first of {plural(len(self.releases), 'text')}."
        return said + (html_table(list(shown), zip(*shown.values(), strict=True), whole) if self.releases else "")


def paths_of(target: Path) -> tuple[Path, ...]:
    """Return the paths of one output: the corpus, its certificate, the report as JSON, the report as a page."""
    return target, certificate_path(target), *(target.with_name(target.name + end) for end in REPORT_SUFFIXES)


def file_columns(
    target: Path, format: Format | None, spec: Mapping[str, Json], fields: Fields | None = None
) -> tuple[Format, Columns]:
    """Return the format and columns of an output, before its charge. ConfigError: these or the path cannot be used."""
    wanted = synthesis_from_settings(spec)
    if wanted.writes:
        return text_columns(target, format, wanted.labels, fields)
    _require_utf8(target)
    if target.suffix != wanted.suffix:
        raise ConfigError(f"Expected OUT{wanted.suffix}, found {str(target)!r}: {wanted.kind} releases no text.")
    return Format.JSON, Columns(label=bool(wanted.labels))


def text_columns(
    target: Path, format: Format | None, labels: tuple[str, ...], fields: Fields | None = None
) -> tuple[Format, Columns]:
    """Return the format and columns of a file of texts with these labels. ConfigError: the path cannot be used."""
    _require_utf8(target)
    own = fields or Fields()
    columns = Columns(label=bool(labels), keep=own.keep, fields=own)
    if format is None:
        _require_ending(target, columns)
    kind = output_format(target, format)
    columns.names(kind)
    if kind in APPENDABLE:  # trial of the encoding; other formats fail as they are written
        encode_batch((Release("0", "", labels[0] if labels else None, dict.fromkeys(own.keep)),), kind, columns)
    return kind, columns


def _require_ending(target: Path, columns: Columns) -> None:
    """Raise ConfigError unless the name of a file ends as one that can hold the columns."""
    refused = READ_ONLY | (TEXTS_ONLY if columns.label else set())
    with contextlib.suppress(ConfigError):
        if detect_format(target) not in refused:
            return
    ends = endings({*Format} - refused)
    raise ConfigError(
        f"Expected {str(target)!r} to end in one of {ends} (each but .parquet also with .gz): what is written is of "
        f"such a format{', with labels' if columns.label else ''}."
    )


def _require_utf8(target: Path) -> None:
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise ConfigError("Expected an output path in UTF-8: the certificate names it.") from None


def _put(target: Target, file: BinaryIO, data: bytes) -> None:
    with writing(target.path):
        file.write(data)
        file.flush()
