"""`dptext explain`: guarantees in plain words, and certificates held against their files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dptext.cli.privatize import chosen_spec
from dptext.cli.progress import say
from dptext.errors import ConfigError, DataError
from dptext.mechanism import HasRemarks, Remarks, Spec, settings
from dptext.privacy.events import event_to_dict
from dptext.privacy.guarantee import (
    Guarantee,
    Unit,
)
from dptext.runs.certificate import certificate_path
from dptext.runs.models import MODEL_FILE, model_spec
from dptext.runs.verification import read_certificate, verify
from dptext.types import Json

if TYPE_CHECKING:
    from dptext.ledger.books import Ledger

_OLDER: Final = (
    "\nThis certificate is of an older version, which did not say two things that it takes for granted: that "
    "no document stands in more than one record, and that an author's name is spelled alike in all records. A text in "
    "five records costs five times epsilon."
)
_SUFFIX: Final = certificate_path(Path("OUT")).name.removeprefix("OUT")


def explain_certificate(path: Path, ledger: str | None, as_json: bool) -> None:
    """Verify a certificate against its file, the spec in it and the ledger if one is named, then say it in words.

    Raises:
        ConfigError: there is no certificate, neither here nor beside a released file.
        DataError: the certificate does not hold, or its names could pass for what is said of it.
    """
    given, path = path, _beside(path)
    try:
        read_certificate(path)
    except ConfigError as error:
        raise ConfigError(f"{error}{_wanted(path)}") from error
    found = verify(path, ledger=_books(ledger))
    certificate = found.certificate
    if given != path and Path(certificate.output).name != given.name:
        raise DataError(f"{path} is not the certificate of {given}: it speaks of a file of another name.")
    if as_json:
        older = {"also_assumed": list(found.also_assumed)} if found.also_assumed else {}
        said = {**json.loads(certificate.to_json()), "schema": certificate.schema, **older}
        print(json.dumps({"verified": True, **said}, indent=2))
        return
    if _breaks_lines(json.loads(certificate.to_json())):
        raise DataError(f"{path} has names with line breaks, which could pass for lines of ours: read it with --json.")
    print(certificate.explain())
    if found.also_assumed:
        print(_OLDER)
    if (remarks := _remarks_where_possible(found.spec)) is not None:
        print(remarks.text)
    paid = "; its charge is in the books" if ledger is not None else ""
    print(
        "\nVerified: the file has the bytes and the number of records that were certified, and the guarantees follow "
        f"from the settings in the certificate{paid}. It is not signed: whoever can edit both files can forge both."
    )


def _breaks_lines(value: Json) -> bool:
    if isinstance(value, str):
        return "\n" in value
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return any(map(_breaks_lines, parts))


def _beside(path: Path) -> Path:
    """The certificate that is meant: of a released file the one beside it."""
    beside = certificate_path(path)
    if path.name.endswith(_SUFFIX) or not beside.is_file():
        return path
    say(f"Read: {beside}, beside {path}.")
    return beside


def _wanted(path: Path) -> str:
    if path.name.endswith(_SUFFIX):
        return ""
    return f" Expected OUT.guarantee.json, or OUT with it beside: there is no {certificate_path(path)}."


def _unit(name: str | None) -> Unit | None:
    if name is None:
        return None
    try:
        return Unit(name)
    except ValueError:
        raise ConfigError(f"Expected --unit {name!r} to be one of {', '.join(Unit)}.") from None


def explain_spec(
    mechanism: str | None, pairs: list[str], path: Path | None, *, unit: str | None, delta: float, as_json: bool
) -> None:
    """Say what a mechanism with these settings guarantees, before anything is spent."""
    spec = chosen_spec(mechanism, pairs, path)
    found = _promised(spec, unit, delta)
    _show(spec, found, _remarks(spec), as_json)


def explain_model(folder: Path, *, unit: str | None, delta: float, as_json: bool) -> None:
    """Say what a model that `dptext fit` wrote guarantees; only its settings are read.

    Raises:
        ConfigError: the folder holds no model, or one whose settings were edited.
    """
    if not (folder / MODEL_FILE).is_file():
        raise ConfigError(
            f"Expected OUT.guarantee.json, or a folder that `dptext fit` wrote: there is no {folder / MODEL_FILE}."
        )
    spec = model_spec(folder)
    found = _promised(spec, unit, delta)
    say(f"Read: {folder / MODEL_FILE}, the settings of the model; `privatize --model` verifies its other files.")
    _show(spec, found, _remarks_where_possible(spec), as_json)


def _promised(spec: Spec, unit: str | None, delta: float) -> list[Guarantee]:
    asked = _unit(unit)
    return [spec.guarantee(each, delta) for each in (spec.units if asked is None else (asked,))]


def _show(spec: Spec, found: Sequence[Guarantee], remarks: Remarks | None, as_json: bool) -> None:
    if as_json:
        numbers: Mapping[str, float | None] = {} if remarks is None else remarks.numbers
        data: dict[str, Json] = {
            "settings": settings(spec),
            "events": [event_to_dict(event) for event in spec.events(spec.units[0])],
            "guarantees": [guarantee.to_dict() for guarantee in found],
            "unchanged_share": None,
            "unchanged_share_of_vocabulary": None,
            **numbers,
        }
        print(json.dumps(data, indent=2))
        return
    print("\n\n".join(guarantee.explain() for guarantee in found))
    if remarks is not None:
        print(remarks.text)


def _remarks(spec: Spec) -> Remarks | None:
    return spec.remarks() if isinstance(spec, HasRemarks) else None


def _remarks_where_possible(spec: Spec) -> Remarks | None:
    """The same for a certificate or a model, which may be read where what its settings name is not."""
    try:
        return _remarks(spec)
    except ConfigError:
        return None


def _books(ledger: str | None) -> Ledger | None:
    if ledger is None:
        return None
    from dptext.ledger.books import Ledger

    return Ledger.at(ledger)
