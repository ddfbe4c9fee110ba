"""`dptext explain`: guarantees in plain words, and certificates held against their files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Final

from dptext.cli.privatize import chosen_spec
from dptext.cli.progress import say
from dptext.embeddings.embedder import HIDDEN
from dptext.errors import BrokenFileError, ConfigError, DataError, MissingExtraError
from dptext.mechanism import releases_text, settings
from dptext.mechanisms.erae import ErAe
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy import accounting
from dptext.privacy.events import MetricEvent, event_to_dict
from dptext.privacy.guarantee import (
    ONE_RECORD,
    ONE_SPELLING,
    RECORD_COUNT,
    Basis,
    Guarantee,
    Unit,
    format_epsilon,
)
from dptext.privacy.names import COMPARED
from dptext.runs.certificate import SCHEMA, Certificate, certificate_path
from dptext.runs.models import MODEL_FILE, model_spec
from dptext.runs.specs import AnySpec, spec_from_settings
from dptext.runs.streaming import guarantees
from dptext.sampling.randomness import secure, seeded
from dptext.sampling.selection import TruncatedExponential
from dptext.text.formats import read_whole
from dptext.text.records import ID_FIELD, TEXT_FIELD, Fields, read_records
from dptext.types import Json

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
        text = read_whole(path).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a certificate that dptext wrote.{_wanted(path)}") from error
    try:
        certificate = Certificate.from_json(text)
    except ConfigError as error:
        raise ConfigError(f"{error}{_wanted(path)}") from error
    if given != path and Path(certificate.output).name != given.name:
        raise DataError(f"{path} is not the certificate of {given}: it speaks of a file of another name.")
    certificate.verify(path.parent)
    spec = _recompute(certificate)
    _count_records(certificate, path.parent, TEXT_FIELD if releases_text(spec) else ID_FIELD)
    if ledger is not None:
        _look_up(certificate, ledger)
    if as_json:
        older = {"also_assumed": [ONE_RECORD, ONE_SPELLING]} if certificate.schema < SCHEMA else {}
        said = {**json.loads(certificate.to_json()), "schema": certificate.schema, **older}
        print(json.dumps({"verified": True, **said}, indent=2))
        return
    if _breaks_lines(json.loads(certificate.to_json())):
        raise DataError(f"{path} has names with line breaks, which could pass for lines of ours: read it with --json.")
    print(certificate.explain())
    if certificate.schema < SCHEMA:
        print(_OLDER)
    if isinstance(spec, WordMetric):
        print(_unchanged_line(spec, _unchanged_where_possible(spec)))
    if isinstance(spec, ErAe):
        print(_per_word(spec))
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


def _look_up(certificate: Certificate, ledger: str) -> None:
    """Refuse a certificate whose charge is not in the books, or paid for another release."""
    from dptext.ledger.books import Ledger

    if certificate.charged is None:
        raise DataError("Expected a certificate that names a charge, to look it up: this release was not paid for.")
    books = Ledger.at(ledger)
    account = books.account(certificate.charged.account)
    found = books.find(certificate.charged.number)
    said = (account.name, account.dataset, account.limit.unit, found.number, found.subjects is not None)
    if (
        astuple(certificate.charged) != said
        or found.account != account.name
        or found.release != certificate.sha256
        or dict(found.request.settings) != dict(certificate.settings)
    ):
        raise DataError(
            f"Charge {found.number} in {books.name} did not pay for this release: the certificate says otherwise."
        )


def _count_records(certificate: Certificate, folder: Path, column: str) -> None:
    """Refuse a certificate that speaks of another number of records than the file has, where its format is known."""
    path = folder / Path(certificate.output).name
    found = 0
    try:
        for _ in read_records(path, Fields(text=column)):
            found += 1
    except ConfigError:
        return  # an extension that does not tell the format
    except BrokenFileError:
        pass  # no records at all, which is right where all were skipped; the bytes were compared before
    if found != certificate.records:
        raise DataError(f"{path} has {found} records, its certificate speaks of {certificate.records}.")


def _recompute(certificate: Certificate) -> AnySpec:
    """The spec of a certificate; refuses one that states more than its own settings give."""
    spec = spec_from_settings(certificate.settings)
    if certificate.randomness not in ("secure", "seeded"):
        raise DataError("This certificate was not written by dptext: nothing is verified.")
    derived = guarantees(
        spec,
        randomness=secure() if certificate.randomness == "secure" else seeded(0),
        delta=certificate.delta,
        max_per_author=certificate.max_per_author,
        reveals=certificate.also_reveals,
    )
    if certificate.schema < SCHEMA:
        derived = tuple(map(_as_in_schema_2, derived))
    close = 1.0 if certificate.schema == SCHEMA else 1 - 1e-9  # older versions rounded up less
    follows = len(derived) == len(certificate.guarantees) and all(
        stated.basis is ours.basis
        and replace(stated, epsilon=ours.epsilon, delta=ours.delta) == ours
        and stated.epsilon >= ours.epsilon * close  # an older version may have known less
        and stated.delta >= ours.delta
        for stated, ours in zip(certificate.guarantees, derived, strict=True)
    )
    counted = certificate.schema < SCHEMA or RECORD_COUNT in certificate.also_reveals
    if not follows or not counted or not _happened(spec, certificate):
        raise DataError(
            "What this certificate guarantees does not follow from its settings (it names dptext "
            f"{certificate.version}): nothing is verified."
        )
    return spec


def _happened(spec: AnySpec, certificate: Certificate) -> bool:
    """Whether the events are those of the settings; in older schemas one event that says no less may stand for them."""
    events = accounting.compose(spec.events(spec.units[0]))
    if certificate.schema < SCHEMA:
        events = tuple(
            replace(each, metric=_metric_in_schema_2(each.metric)) if isinstance(each, MetricEvent) else each
            for each in events
        )
    if accounting.compose(certificate.events) == events:
        return True
    smallest = spec.guarantee(spec.units[0], certificate.delta)
    if certificate.schema == SCHEMA or smallest.basis is Basis.NONE or smallest.metric is not None:
        return False
    stated = accounting.epsilon(certificate.events, smallest.delta, relation=smallest.relation)
    return smallest.epsilon * (1 - 1e-9) <= stated <= certificate.guarantees[0].epsilon * (1 + 1e-9)


def _as_in_schema_2(guarantee: Guarantee) -> Guarantee:
    """The guarantee in the words of before schema 3, which left out what is assumed of texts and names."""
    kept = (each for each in guarantee.assumptions if each not in (ONE_RECORD, ONE_SPELLING))
    assumptions = tuple(map(_assumption_in_schema_2, kept))
    proven = guarantee.basis is Basis.CONDITIONAL and not assumptions
    return replace(
        guarantee,
        assumptions=assumptions,
        basis=Basis.PROVEN if proven else guarantee.basis,
        metric=guarantee.metric and _metric_in_schema_2(guarantee.metric),
    )


def _assumption_in_schema_2(assumption: str) -> str:
    for now, then in (
        (f"; names are {COMPARED}", ""),
        (f"in its block: {HIDDEN}", "in its block, but for what rounding logits hides"),
        (f": {HIDDEN}", ", but for what rounding hides"),
    ):
        assumption = assumption.replace(now, then)
    return assumption


def _metric_in_schema_2(metric: str) -> str:
    return metric.removesuffix(TruncatedExponential.counted(""))


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
    _show(spec, found, _unchanged(spec), as_json)


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
    _show(spec, found, _unchanged_where_possible(spec), as_json)


def _promised(spec: AnySpec, unit: str | None, delta: float) -> list[Guarantee]:
    asked = _unit(unit)
    return [spec.guarantee(each, delta) for each in (spec.units if asked is None else (asked,))]


def _show(spec: AnySpec, found: Sequence[Guarantee], shares: tuple[float, float] | None, as_json: bool) -> None:
    if as_json:
        data: dict[str, Json] = {
            "settings": settings(spec),
            "events": [event_to_dict(event) for event in spec.events(spec.units[0])],
            "guarantees": [guarantee.to_dict() for guarantee in found],
            "unchanged_share": None if shares is None else shares[0],
            "unchanged_share_of_vocabulary": None if shares is None else shares[1],
        }
        print(json.dumps(data, indent=2))
        return
    print("\n\n".join(guarantee.explain() for guarantee in found))
    if isinstance(spec, WordMetric):
        print(_unchanged_line(spec, shares))
    if isinstance(spec, ErAe):
        print(_per_word(spec))


def _per_word(spec: ErAe) -> str:
    """What the epsilon of a text is made of, and what it is worth."""
    whole = format_epsilon(spec.guarantee().epsilon)
    return (
        f"Each of {spec.max_tokens} words costs {format_epsilon(spec.epsilon)}, all of them {whole} without a delta. "
        "Useful texts need some 9 to 12 a word, 180 to 240 for 20 words. At such an epsilon the worst case is no "
        "protection at all: whoever can list the texts that you may have written can tell which one it was. What "
        "remains is what attacks measure, such as `dptext audit authorship`; a guarantee it is not."
    )


def _unchanged(spec: AnySpec) -> tuple[float, float] | None:
    """Shares of public words that come back unchanged, or None where they cannot be measured."""
    if not isinstance(spec, WordMetric):
        return None
    try:
        mechanism = spec.fit()
    except MissingExtraError:
        return None
    return mechanism.unchanged_share(), mechanism.unchanged_share_of_vocabulary()


def _unchanged_where_possible(spec: AnySpec) -> tuple[float, float] | None:
    """The same for a certificate or a model, which may be read where the vectors are not."""
    try:
        return _unchanged(spec)
    except ConfigError:
        return None


def _unchanged_line(spec: WordMetric, shares: tuple[float, float] | None) -> str:
    if shares is None:
        return f"How many words come back unchanged is not known: the vectors {spec.vectors!r} are not here."
    return (
        f"Measured on public words, at epsilon = {spec.epsilon:g}: {shares[0]:.3f} of running words (the 200 most "
        f"frequent, weighted as in text) and {shares[1]:.3f} of the whole vocabulary come back unchanged. "
        "The number epsilon alone says nothing: a word that comes back is released verbatim."
    )
