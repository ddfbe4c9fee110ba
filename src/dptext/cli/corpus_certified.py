"""What the certificate beside a corpus says of it, for `dptext utility corpus`: columns, fields, names of labels."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from dptext.cli import options
from dptext.cli.corpus_options import listed
from dptext.errors import ConfigError, DPTextError
from dptext.mechanism import settings
from dptext.runs.certificate import certificate_path
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.verification import read_certificate, verify
from dptext.synthesis.spec import by_label
from dptext.text.declarations import schema_of, with_files
from dptext.text.formats import Format, detect_format
from dptext.text.labels import meaning
from dptext.text.records import ID_FIELD, LABEL_FIELD, TEXT_FIELD, Fields
from dptext.text.schema import DeclaredColumn
from dptext.text.survey import survey
from dptext.types import Json

if TYPE_CHECKING:
    from dptext.synthesis.summary import SummarySpec

_FEW_LABELS: Final = 4  # labels that an error names


def certified_settings(released: Path) -> Mapping[str, Json]:
    """Return the settings in the certificate beside the corpus; none without one, or if it is of another version."""
    beside = certificate_path(released)
    try:
        return settings(verify(beside).spec) if beside.is_file() else {}
    except DPTextError:
        return {}


def certified_label(released: Path) -> str | None:
    """Return the field of the labels that the certificate beside the corpus names; None if it has no labels."""
    if not certified_settings(released).get("labels"):
        return None
    return read_certificate(certificate_path(released)).fields.get(LABEL_FIELD, LABEL_FIELD)


def measured_together(released: Path, label_field: str | None) -> list[set[str]] | None:
    """Return the pairs of columns that the summary of a corpus measured together; None if it has no summary."""
    found = certified_settings(released)
    if found.get("kind") != "summary":
        return None
    spec = cast("SummarySpec", synthesis_from_settings(found))
    names = (label_field or "", *spec.axes.names[1:])
    return [{names[axis] for axis in each.axes} for each in spec.marginals if len(each.axes) == 2]


def meanings_of(released: Path, labels: Sequence[str], given: str | None) -> dict[str, str]:
    """Return the meaning of each label in words, as `given` or as the certificate beside the corpus names it.

    A label without one means itself. ConfigError: as many names as labels are not given.
    """
    found = certified_settings(released)
    known, names = (cast("list[str]", found.get(each) or []) for each in ("labels", "names"))
    if given is not None:
        told = listed(given, "--names")
        names = [*by_label(told, known or labels)]
        if not known and names == told:  # a list without labels has an order that nobody would know
            each = ",".join(f"{label}=MEANING" for label in labels[:_FEW_LABELS])
            raise ConfigError(f"Expected --names with their labels, as no summary has an order of labels: {each}.")
        known = known or [*labels]
        if len(names) != len(known):
            raise ConfigError(
                f"Expected --names to name each of {len(known)} labels, such as {known[0]}=NAME, found {len(names)}."
            )
    own = dict(zip(map(meaning, known), names, strict=False))
    return {label: own.get(meaning(label), label) for label in labels}


def declared_columns(released: Path, given: Sequence[str] | None) -> tuple[DeclaredColumn, ...]:
    """Return the declared columns; by default those of the certificate beside the corpus, if there is one."""
    if given is None:
        given = cast("list[str]", certified_settings(released).get("columns") or [])
    else:
        given = [with_files(each, lambda path: listed(f"@{path}", "--column")) for each in given]
    return schema_of(given)


def fields_of(
    released: Path, layout: options.Layout, label_field: str | None, judged: tuple[str, ...] = ()
) -> tuple[Fields, list[str]]:
    """Return the fields of a corpus, and its columns that may be more than text, id and label.

    The fields are those that its certificate names, or the user's. No label if there is none.
    """
    if detect_format(released) is Format.TEXT:
        if judged:
            raise ConfigError(f"Expected the column {judged[0]!r} in {released}, found plain text.")
        return Fields(), []
    there, certified = survey(released).columns, dict[str, str]()
    with contextlib.suppress(DPTextError):  # there is none, or one of another version
        certified |= read_certificate(certificate_path(released)).fields
    text, named, own_id = (certified.get(name, name) for name in (TEXT_FIELD, LABEL_FIELD, ID_FIELD))
    text = text if text in there else layout.text_field
    label = next((name for name in (named, label_field) if name in there), None)
    if absent := [name for name in judged if name not in there]:
        raise ConfigError(
            f"{released} has no column {absent[0]!r}, found {', '.join(map(repr, there))}: name it with --column on "
            "the command line, columns= in Python."
        )
    more = [name for name in there if name not in (text, label, own_id)]
    return Fields(text, label=label if label_field is not None else None, measured=judged), more
