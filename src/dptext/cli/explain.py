"""`dptext explain`: say guarantees in plain words, and verify certificates against their files."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from typer import Argument

from dptext.cli import options
from dptext.cli.chosen import SpecOptions
from dptext.cli.grouped import leaves, promises, reads
from dptext.cli.terminal import escaped, say, waiting
from dptext.errors import ConfigError, DataError, MissingExtraError
from dptext.mechanism import HasRemarks, Promise, Remarks, Spec, settings
from dptext.privacy.events import event_to_dict
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.runs.certificate import MANIFEST, Certificate, certificate_path
from dptext.runs.models import MODEL_FILE, model_spec
from dptext.runs.states import unfinished_beside
from dptext.runs.verification import look_up_charge, read_certificate, verify
from dptext.text.files import Target
from dptext.types import Json

_SUFFIX: Final = certificate_path(Path("OUT")).name.removeprefix("OUT")
_COMPUTING: Final = "Computing what is guaranteed."
Reader = StrEnum("Reader", ["LEGAL"])


def explain(
    *,
    certificate: Annotated[
        Path | None,
        Argument(
            parser=options.any_path,
            help="OUT.guarantee.json, or OUT beside it (a file or a folder): OUT is verified, and its certificate "
            "explained. Or the folder of a model.",
        ),
    ] = None,
    named: SpecOptions,
    epsilon: options.EpsilonOption = None,
    unit: Annotated[
        str | None, promises(help="Whom the guarantee protects: token, sentence, document or author.")
    ] = None,
    delta: options.DeltaOption = 0.0,
    ledger: options.CheckedLedgerOption = None,
    wanted_by: Annotated[
        str | None, leaves("--for", metavar="legal", help="Print one page for the person who answers for OUT.")
    ] = None,
    page: Annotated[
        Path | None, options.output_option("--html", help="With --for: write the page as HTML, one sheet of A4.")
    ] = None,
    without_file: Annotated[
        bool, reads("--without-file", help="Without OUT: check the certificate against its own settings alone.")
    ] = False,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
) -> None:
    if certificate is not None:
        _say_unfinished(certificate)
    if certificate is not None and (certificate / MANIFEST).is_file():
        certificate = certificate_path(certificate / MANIFEST)
    is_model = certificate is not None and certificate.is_dir()
    reader = None if wanted_by is None else options.member(Reader, "--for", wanted_by)
    if certificate is not None and (named or epsilon is not None or (unit and not is_model)):
        raise ConfigError("Expected a certificate or a mechanism with settings, not both.")
    if ledger is not None and (certificate is None or is_model):
        raise ConfigError("Expected a certificate with --ledger: the ledger holds charges of releases.")
    if (reader is not None and (certificate is None or is_model or as_json)) or (page is not None and reader is None):
        raise ConfigError("Expected --for legal with OUT.guarantee.json, without --json; and --html FILE only with it.")
    if without_file and (certificate is None or is_model):
        raise ConfigError("Expected OUT.guarantee.json with --without-file.")
    if certificate is None:
        spec = named.chosen_spec("OUT (a release or a model)", epsilon=epsilon)
        with waiting(_COMPUTING):
            found, remarks = _promised(spec, unit, delta), _remarks(spec)
        _show(spec, found, remarks, as_json)
    elif is_model:
        described = certificate / MODEL_FILE
        if not described.is_file():
            raise ConfigError(f"Expected OUT.guarantee.json, or a folder of `dptext fit`: there is no {described}.")
        spec = model_spec(certificate)
        with waiting(_COMPUTING):
            found, remarks = _promised(spec, unit, delta), _remarks_where_possible(spec)
        say(f"Read: {described}, the settings of the model; `privatize --model` verifies its other files.")
        _show(spec, found, remarks, as_json)
    else:
        target = None if page is None else Target(page, force, private=False)
        explain_certificate(certificate, ledger, as_json, reader, target, with_file=not without_file)


def explain_certificate(
    path: Path,
    ledger: str | None,
    as_json: bool,
    reader: Reader | None = None,
    page: Target | None = None,
    *,
    with_file: bool = True,
) -> None:
    """Verify a certificate against its file, its spec, and the ledger that is named, if any. Then print it in words.

    With a `reader`, print one page for this reader. The page is also written as HTML to `page`, if given.
    """
    given = path
    if not path.name.endswith(_SUFFIX) and (beside := certificate_path(path)).is_file():
        say(f"Read: {beside}, beside {path}.")
        path = beside
    try:
        read_certificate(path)
    except ConfigError as error:
        wanted = f" Expected OUT.guarantee.json, or OUT with it beside: there is no {certificate_path(path)}."
        raise ConfigError(str(error) if path.name.endswith(_SUFFIX) else f"{error}{wanted}") from error
    with waiting("Verifying the file, and computing what is guaranteed."):
        found = verify(path, ledger=None if ledger is None else options.opened(ledger), with_file=with_file)
    certificate = found.certificate
    if given != path and Path(certificate.output).name != given.name:
        raise DataError(f"{path} is not the certificate of {given}: it speaks of a file of another name.")
    looked_up = ledger is not None or _looked_up(certificate)
    if as_json:
        follows = {} if with_file else {"follows": True}
        print(json.dumps({"verified": with_file, **follows, **json.loads(certificate.to_json())}, indent=2))
        return
    if r"\n" in certificate.to_json().replace(r"\\", ""):  # JSON writes a line break as \n, a backslash as two
        raise DataError(f"{path} has names with line breaks, which could pass for lines of ours: read it with --json.")
    remarks = _remarks_where_possible(found.spec)
    charged = certificate.charged
    stream = ", which identifies the paid stream, not its bytes" if charged and charged.stream else ""
    paid = f"; its charge is in the ledger{stream}" if looked_up else ""
    verified = found.sentence(paid)
    if reader is not None:
        from dptext.runs.legal import legal_page

        unchanged = None if remarks is None else remarks.numbers.get("unchanged_share")
        told = legal_page(found, verified=verified, unchanged=unchanged)
        if page is not None:
            made = replace(page, inputs=(path, path.with_name(certificate.output)))
            made.write(escaped(told.html()).encode("utf-8", "backslashreplace"))
            say(f"Written: {page.path}.")
        print(told.text())
        return
    print(certificate.explain())
    if remarks is not None:
        print(remarks.text)
    print(f"\n{verified}")


def _looked_up(certificate: Certificate) -> bool:
    """Return whether the charge of a certificate is in the ledger of DPTEXT_LEDGER. A line says why it is not known.

    DataError: the ledger holds the charge, and it did not pay for this release.
    """
    if certificate.charged is None:
        return False
    if not (place := os.environ.get("DPTEXT_LEDGER")):
        say("Its charge was not looked up: --ledger PLACE does that.")
        return False
    try:
        look_up_charge(certificate, options.opened(place))
    except (ConfigError, MissingExtraError) as error:
        say(f"Its charge was not looked up in the ledger of DPTEXT_LEDGER. {error}")
        return False
    except DataError as error:
        raise DataError(f"{error} DPTEXT_LEDGER names that ledger.") from error
    return True


def _say_unfinished(given: Path) -> None:
    """Say whether an unfinished run lies beside the output that is named, itself or by its certificate."""
    output = given.with_name(given.name.removesuffix(_SUFFIX)) if given.name.endswith(_SUFFIX) else given
    output = output.parent if output.name == MANIFEST else output
    if (there := unfinished_beside(output)) is not None:
        say(f"An unfinished run lies beside {output} ({there.name}): the same command with --resume ends it.")


def _promised(spec: Spec, unit: str | None, delta: float) -> list[Guarantee]:
    units = spec.units if unit is None else (options.member(Unit, "--unit", unit),)
    return [spec.guarantee(each, delta) for each in units]


def _show(spec: Spec, found: Sequence[Guarantee], remarks: Remarks | None, as_json: bool) -> None:
    if as_json:
        data: dict[str, Json] = {
            "settings": settings(spec),
            "events": [event_to_dict(event) for event in spec.events(spec.units[0])],
            "guarantees": [guarantee.to_dict() for guarantee in found],
            **({} if remarks is None else remarks.numbers),
        }
        print(json.dumps(data, indent=2))
        return
    print("\n\n".join(guarantee.explain() for guarantee in found))
    if remarks is not None:
        print(remarks.text)


def _remarks(spec: Promise) -> Remarks | None:
    return spec.remarks() if isinstance(spec, HasRemarks) else None


def _remarks_where_possible(spec: Promise) -> Remarks | None:
    """Return the remarks of a certificate or a model. Its settings may name a file that is not on this computer."""
    try:
        return _remarks(spec)
    except ConfigError as error:
        return Remarks(f"What is measured on the vectors or files of these settings is not known here: {error}")
