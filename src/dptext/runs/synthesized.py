"""A synthetic corpus with its certificate, and the files that hold them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Final

from dptext._wording import html_text
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Guarantee
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.specs import synthesis_from_settings
from dptext.synthesis.report import Topics, topics_page
from dptext.text.columns import Columns
from dptext.text.files import Target, sha256_of, writing
from dptext.text.formats import Format, output_format
from dptext.text.records import Release
from dptext.text.writers import APPENDABLE, encode_batch, write_all
from dptext.types import Json

#: Suffixes of the two topic reports beside an output file: JSON, and a page.
REPORT_SUFFIXES: Final = (".topics.json", ".topics.html")


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
    """

    releases: tuple[Release[str], ...]
    report: Topics
    sentences: tuple[str, ...]
    certificate: Certificate
    left: str = ""
    inputs: tuple[Path, ...] = ()
    settle: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    data: bytes = field(default=b"", repr=False)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees of the whole corpus with its report."""
        return self.certificate.guarantees

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
        kind, columns = file_columns(target.path, format, self.certificate.settings)
        page = topics_page(self.report, [self.guarantees[-1].sentence(), *self.sentences]).encode()
        with contextlib.ExitStack() as whole:  # exits run in reverse order: the certificate gets its name first
            file = whole.enter_context(target.opened())
            if self.releases:
                write_all(file, target.path, [self.releases], kind, lambda _: columns)
            else:
                _put(target, file, self.data)
            file.flush()
            named = replace(self.certificate, output=target.path.name, sha256=sha256_of(Path(file.name)))
            contents = self.report.to_json(), page, named.to_json().encode()
            for each, data in zip((*reports, beside), contents, strict=True):
                _put(each, whole.enter_context(each.opened()), data)
            for each in (target, beside, *reports):
                each.check()  # before the charge is settled, and before any file gets its name
            if settle is not None:
                settle()
        return named

    def to_dict(self) -> dict[str, list[str | None]]:
        """Return the columns id, text and label as lists by name, for a data frame."""
        names = {"id": "id", "text": "output", "label": "label"}
        return {name: [getattr(each, its) for each in self.releases] for name, its in names.items()}

    def __repr__(self) -> str:
        return f"Synthesized({self.certificate.settings['kind']}, {len(self.releases):,} texts)"

    def _repr_html_(self) -> str:
        return html_text("\n".join([self.guarantees[-1].sentence(), *self.sentences]))


def paths_of(target: Path) -> tuple[Path, ...]:
    """Return the paths of one output: the corpus, its certificate, the report as JSON, the report as a page."""
    return target, certificate_path(target), *(target.with_name(target.name + end) for end in REPORT_SUFFIXES)


def file_columns(target: Path, format: Format | None, spec: Mapping[str, Json]) -> tuple[Format, Columns]:
    """Return the format and columns of an output, before its charge. ConfigError: these or the path cannot be used."""
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise ConfigError("Expected an output path in UTF-8: the certificate names it.") from None
    wanted = synthesis_from_settings(spec)
    columns = Columns(label=bool(wanted.labels))
    if not wanted.writes:
        if target.suffix != wanted.suffix:
            raise ConfigError(f"Expected OUT{wanted.suffix}, found {str(target)!r}: {wanted.kind} releases no text.")
        return Format.JSON, columns
    kind = output_format(target, format)
    columns.names(kind)
    if kind in APPENDABLE:  # trial of the encoding; other formats fail as they are written
        encode_batch((Release("0", "", wanted.labels[0] if wanted.labels else None),), kind, columns)
    return kind, columns


def _put(target: Target, file: BinaryIO, data: bytes) -> None:
    with writing(target.path):
        file.write(data)
        file.flush()
