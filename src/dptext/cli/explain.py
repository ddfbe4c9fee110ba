"""`dptext explain`: guarantees in plain words, and certificates held against their files."""

from __future__ import annotations

import json
from pathlib import Path

from dptext.certificate import Certificate
from dptext.cli.privatize import chosen_spec
from dptext.config import AnySpec, spec_from_settings
from dptext.errors import ConfigError, DataError, MissingExtraError
from dptext.guarantee import Basis, Json, Unit, event_to_dict
from dptext.mechanism import settings
from dptext.mechanisms.word_metric import WordMetric


def explain_certificate(path: Path, as_json: bool) -> None:
    """Verify a certificate against its file and against the spec in it, then say it in words."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot read the certificate {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a certificate that dptext wrote.") from error
    certificate = Certificate.from_json(text)
    certificate.verify(path.parent)
    spec = _recompute(certificate)
    if as_json:
        print(json.dumps({"verified": True, **json.loads(certificate.to_json())}, indent=2))
    else:
        print(certificate.explain())
        if isinstance(spec, WordMetric):
            print(_unchanged_line(spec, _unchanged_where_possible(spec)))
        print("\nVerified: the file is the one that was certified, and the guarantee follows from its settings.")


def _recompute(certificate: Certificate) -> AnySpec:
    """The spec of a certificate; refuses one that states more than its own settings give."""
    spec = spec_from_settings(certificate.settings)
    if spec.event != certificate.event:
        raise DataError("The event of this certificate is not the one of its settings: nothing is verified.")
    for stated in certificate.guarantees:
        if stated.basis is Basis.NONE:
            continue
        if certificate.randomness != "secure":
            raise DataError("This certificate states a guarantee for a seeded run: nothing is verified.")
        if stated.unit is Unit.AUTHOR:
            continue  # rests on the enforced maximum per author, which the file cannot show
        derived = spec.guarantee(stated.unit, stated.delta)
        weaker = (stated.epsilon, stated.delta) >= (derived.epsilon, derived.delta)
        if stated.meaning != derived.meaning or stated.basis is not derived.basis or not weaker:
            raise DataError("A guarantee of this certificate does not follow from its settings: nothing is verified.")
    return spec


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
    asked = _unit(unit)
    units = spec.units if asked is None else (asked,)
    found = [spec.guarantee(each, delta) for each in units]
    shares = _unchanged(spec)
    if as_json:
        data: dict[str, Json] = {
            "settings": settings(spec),
            "event": event_to_dict(spec.event),
            "guarantees": [guarantee.to_dict() for guarantee in found],
            "unchanged_share": None if shares is None else shares[0],
            "unchanged_share_of_vocabulary": None if shares is None else shares[1],
        }
        print(json.dumps(data, indent=2))
        return
    print("\n\n".join(guarantee.explain() for guarantee in found))
    if isinstance(spec, WordMetric):
        print(_unchanged_line(spec, shares))


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
    """The same for a certificate, which may be read where the vectors are not."""
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
