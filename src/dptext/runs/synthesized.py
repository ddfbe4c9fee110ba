"""A synthetic corpus with its certificate, and the files that hold them."""

from __future__ import annotations

import contextlib
import json
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

#: What the names of the topic report end with, which lies beside an output file: as JSON, and as a page.
REPORT_SUFFIXES: Final = (".topics.json", ".topics.html")


@dataclass(frozen=True, slots=True)
class Synthesized:
    """A synthetic corpus with its certificate.

    Attributes:
        releases: public texts with labels, under ids that belong to nobody.
        report: noisy numbers by label and topic.
        sentences: the report in plain words.
        certificate: of the releases as JSON Lines; `write` gives the one of a file.
        left: what the account has left in words, where one paid.
        inputs: the files that it was made from, which `write` never replaces.
        settle: of a run with settled=False, settles the charge: before anybody sees what was drawn.
    """

    releases: tuple[Release[str], ...]
    report: Topics
    sentences: tuple[str, ...]
    certificate: Certificate
    left: str = ""
    inputs: tuple[Path, ...] = ()
    settle: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What the whole of it guarantees."""
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
        """Write the corpus (a report alone: as JSON), its certificate, and a topic report where there is one.

        All are whole before any has its name; `settle` is called in between. `private` files are for their owner alone.
        ConfigError: a path cannot be used.
        """
        target, beside, *reports = (Target(each, force, self.inputs, private) for each in paths_of(Path(path)))
        for each in (target, beside, *reports):
            each.check()
            each.clear()  # another draw under the same charge
        kind, columns = file_columns(target.path, format, self.certificate.settings)
        page = topics_page(self.report, [self.guarantees[-1].sentence(), *self.sentences]).encode()
        with contextlib.ExitStack() as whole:  # left in the other order: the certificate has its name first
            file = whole.enter_context(target.opened())
            if self.releases:
                write_all(file, target.path, [self.releases], kind, lambda _: columns)
            else:
                _put(target, file, as_json(self.report))
            file.flush()
            named = replace(self.certificate, output=target.path.name, sha256=sha256_of(Path(file.name)))
            contents = as_json(self.report), page, named.to_json().encode()
            for each, data in zip((*reports, beside), contents, strict=True):
                _put(each, whole.enter_context(each.opened()), data)
            for each in (target, beside, *reports):
                each.check()  # before it is settled, and before any has its name
            if settle is not None:
                settle()
        return named

    def to_dict(self) -> dict[str, list[str | None]]:
        """The columns id, text and label, as a data frame takes them."""
        names = {"id": "id", "text": "output", "label": "label"}
        return {name: [getattr(each, its) for each in self.releases] for name, its in names.items()}

    def __repr__(self) -> str:
        return f"Synthesized({self.certificate.settings['kind']}, {len(self.releases):,} texts)"

    def _repr_html_(self) -> str:
        return html_text("\n".join([self.guarantees[-1].sentence(), *self.sentences]))


def paths_of(target: Path) -> tuple[Path, ...]:
    """The files of one output: the corpus, its certificate, the report as JSON, the report as a page."""
    return target, certificate_path(target), *(target.with_name(target.name + end) for end in REPORT_SUFFIXES)


def file_columns(target: Path, format: Format | None, spec: Mapping[str, Json]) -> tuple[Format, Columns]:
    """The format and the columns of an output; ConfigError where they do not fit, to be raised before a run is paid."""
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise ConfigError("Expected an output path in UTF-8: the certificate names it.") from None
    wanted = synthesis_from_settings(spec)
    columns = Columns(label=bool(wanted.labels))
    if not wanted.writes:
        if target.suffix != ".json":
            raise ConfigError(f"Expected OUT.json, found {str(target)!r}: {wanted.kind} writes a report alone.")
        return Format.JSON, columns
    kind = output_format(target, format)
    columns.names(kind)
    if kind in APPENDABLE:  # what is written at once is tried as it is written
        encode_batch((Release("0", "", wanted.labels[0] if wanted.labels else None),), kind, columns)
    return kind, columns


def _put(target: Target, file: BinaryIO, data: bytes) -> None:
    with writing(target.path):
        file.write(data)
        file.flush()


def as_json(report: Topics) -> bytes:
    """A report as it is written."""
    return json.dumps(report.to_dict(), indent=2, ensure_ascii=False).encode()
