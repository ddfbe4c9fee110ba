"""Verification of a certificate against its file, its settings and its charge.

Certificates are not signed: whoever can edit both files can forge both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from dptext._wording import plural
from dptext.errors import BrokenFileError, ConfigError, DataError
from dptext.mechanism import Answers, Promise
from dptext.privacy import accounting
from dptext.privacy.composition import is_numerical
from dptext.privacy.events import ApproximateEvent, Event, MetricEvent
from dptext.privacy.guarantee import RECORD_COUNT, Guarantee, Unit
from dptext.registry import MECHANISMS, SYNTHESES
from dptext.runs.certificate import (
    MANIFEST,
    Certificate,
    Manifest,
    Part,
    certificate_path,
    reading_revealed,
    stream_mark,
)
from dptext.runs.specs import from_settings
from dptext.runs.streaming import guarantees
from dptext.sampling.randomness import secure, seeded
from dptext.text.inputs import read_whole
from dptext.text.reading import read_released
from dptext.text.records import ID_FIELD, TEXT_FIELD, Fields
from dptext.types import Json

if TYPE_CHECKING:  # the ledger is an extra, loaded by those who use one
    from dptext.ledger.books import Ledger


_CONVOLVED = 1024  # above this number of equal events, an epsilon comes from a long convolution
_FLAT = 1e-7  # relative tolerance of a delta


@dataclass(frozen=True, slots=True)
class Verified:
    """A verified certificate, and the spec of its settings.

    With with_file=False the certificate was compared with its settings alone, not with its file.
    """

    certificate: Certificate
    spec: Promise
    with_file: bool = True

    @property
    def brought(self) -> str:
        """Name and version of the packages of others whose mechanism released; empty if it is dptext's own."""
        settings, found = self.certificate.settings, dict[str, None]()
        while isinstance(settings, Mapping):  # the mechanism of `embedded` has settings of its own
            kind = str(settings.get("kind"))
            found |= dict.fromkeys(filter(None, (MECHANISMS.package(kind), SYNTHESES.package(kind))))
            settings = settings.get("mechanism")  # type: ignore[assignment]
        return ", ".join(found)

    def sentence(self, more: str = "") -> str:
        """Return a sentence on what was verified and what was not. `more` is added to the list of verified facts."""
        brought = self.brought
        own = f" The mechanism is of the package {brought}: its authors answer for its guarantee." if brought else ""
        if not self.with_file:
            return (
                f"The guarantees follow from the settings in the certificate{more}. The file was not looked at: "
                f"whether it is the one that was certified is not verified.{own}"
            )
        return (
            "Verified: the file has the bytes and the number of records that were certified, and the guarantees follow "
            f"from the settings in the certificate{more}. It is not signed: whoever can edit both files can forge both."
            f"{own}"
        )


def read_certificate(path: Path) -> Certificate:
    """Return the certificate at the path, unverified. ConfigError: dptext wrote no certificate at this path."""
    try:
        return Certificate.from_json(read_whole(path).decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a certificate that dptext wrote.") from error


def _certificate_of(path: Path) -> Path:
    """Return the certificate's path for the folder or the manifest of a data set; else the path itself."""
    manifest = path / MANIFEST if path.is_dir() else path
    return certificate_path(manifest) if manifest.name == MANIFEST and manifest.is_file() else path


def certificate_of(released: Path) -> Path:
    """Return the path of the certificate of a released file, or of the folder of a data set or one of its parts."""
    folder = released if released.is_dir() else released.parent
    return certificate_path(folder / MANIFEST if is_part(released) or released.is_dir() else released)


def is_part(released: Path) -> bool:
    """Return whether a file lies in the folder of a data set."""
    return not released.is_dir() and (released.parent / MANIFEST).is_file()


def parts_of(released: Path) -> list[Path]:
    """Return the files of a release, in the order of its records: a file, or the parts of the folder of a data set.

    ConfigError: the folder has no manifest. DataError: its manifest is not one that dptext wrote, or names no part.
    """
    if not released.is_dir():
        return [released]
    if not (released / MANIFEST).is_file():
        raise ConfigError(f"Expected {released} to be a folder that `privatize` wrote, found no {MANIFEST} in it.")
    parts = [released / part.name for part in Manifest.read(released / MANIFEST).parts]
    if not parts:
        raise DataError(f"Expected {released} to hold a release, found none.")
    return parts


def verify(path: str | PathLike[str], *, ledger: "Ledger | None" = None, with_file: bool = True) -> Verified:
    """Verify a certificate, `OUT.guarantee.json`, against the file beside it, its own settings, and the ledger.

    The file must have the certified bytes and number of records. The events and the guarantees must follow from the
    settings. If a ledger is given, the charge in it must have paid for this release. For a release from memory
    (`dptext.privatize`) the ledger has the mark of the stream and not its bytes. The certificate of a data set is
    `FOLDER/manifest.json.guarantee.json`; FOLDER is accepted as its path. Each part is compared with the manifest, and
    no other file may lie in the folder. With with_file=False no file is read.

    Raises:
        ConfigError: there is no certificate at the path.
        DataError: a check fails; the message says which.
    """
    path = _certificate_of(Path(path))
    certificate = read_certificate(path)
    if with_file:
        certificate.check_file(path.parent)
    spec = _recompute(certificate)
    if not with_file:
        released: Sequence[Part] = ()
    elif certificate.output == MANIFEST:
        manifest = Manifest.read(path.parent / MANIFEST)
        manifest.check(path.parent)
        released = manifest.parts
        if manifest.records != certificate.records:
            raise DataError(f"{path} speaks of {certificate.records} records, its parts hold {manifest.records}.")
    else:
        released = [Part(Path(certificate.output).name, certificate.records, certificate.sha256)]
    texts = spec.traits.releases_text or certificate.writes_from_summary
    if texts or spec.traits.releases_vectors:  # a report has no records to count
        for part in released:
            _count_records(part, path.parent, certificate.fields, TEXT_FIELD if texts else ID_FIELD)
    if ledger is not None:
        look_up_charge(certificate, ledger)
    return Verified(certificate, spec, with_file)


def look_up_charge(certificate: Certificate, books: "Ledger") -> None:
    """Raise DataError if the charge that a certificate names did not pay for its release.

    ConfigError: the ledger cannot be used, or has no such account or charge.
    """
    charged = certificate.charged
    if charged is None:
        raise DataError("Expected a certificate that names a charge, to look it up: this release was not paid for.")
    account, found = books.account(charged.account), books.find(charged.number)
    said = (account.name, account.dataset, account.limit.unit, found.number, found.subjects is not None, charged.stream)
    paid_for = certificate.sha256 if charged.stream is None else stream_mark(charged.stream)
    same = (astuple(charged), found.account, found.release) == (said, account.name, paid_for)
    if not same or dict(found.request.settings) != dict(certificate.settings):
        raise DataError(
            f"Charge {found.number} in {books.name} did not pay for this release: the certificate says otherwise."
        )


def _count_records(part: Part, folder: Path, names: Mapping[str, str], column: str) -> None:
    path = folder / part.name
    found = 0
    try:
        for _ in read_released(path, Fields(text=names.get(column, column))):
            found += 1
    except ConfigError:
        return  # the extension does not tell the format
    except BrokenFileError:
        pass  # a file without records, which is right if all were skipped; its bytes were compared before
    if found != part.records:
        raise DataError(f"{path} has {plural(found, 'record')}, its certificate speaks of {part.records}.")


def _recompute(certificate: Certificate) -> Promise:
    """Return the spec of a certificate. DataError: the certificate promises more than its own settings give."""
    spec = from_settings(certificate.settings)
    if certificate.randomness not in ("secure", "seeded"):
        raise DataError("This certificate was not written by dptext: nothing is verified.")
    charged = certificate.charged
    derived = guarantees(
        spec,
        randomness=secure() if certificate.randomness == "secure" else seeded(0),
        delta=certificate.delta,
        max_per_author=certificate.max_per_author,
        reveals=certificate.also_reveals,
        by_name=charged is not None and charged.by_subject and charged.unit is Unit.DOCUMENT,
    )
    follows = len(derived) == len(certificate.guarantees) and all(
        stated.basis is ours.basis
        and replace(stated, epsilon=ours.epsilon, delta=ours.delta) == ours
        and stated.epsilon >= ours.epsilon * _share(spec, stated)
        and (stated.delta >= ours.delta or (_has_cap(certificate.settings) and _nearly(stated.delta, ours.delta)))
        for stated, ours in zip(certificate.guarantees, derived, strict=True)
    )
    # A run that answers each record reveals the number of private records. A synthesis does not.
    of_corpus = spec.traits.answers is Answers.CORPUS
    revealed = of_corpus != (RECORD_COUNT in certificate.also_reveals) and (
        of_corpus or set(reading_revealed(certificate.reading)) <= set(certificate.also_reveals)
    )
    if not follows or not revealed or not _happened(spec, certificate):
        raise DataError(
            "What this certificate guarantees does not follow from its settings (it names dptext "
            f"{certificate.version}): nothing is verified."
        )
    return spec


def _share(spec: Promise, stated: Guarantee) -> float:
    """Return the least ratio of a stated epsilon to the recomputed epsilon. A certificate may state a larger epsilon.

    The last digits of an epsilon from a numerical distribution depend on the version of Python and on the processor
    (relative differences of 1e-12 were seen). So do the last digits of a long convolution, which the library of matrix
    products computes. All other epsilons are the same everywhere.
    """
    events = spec.events(spec.units[0])
    measured = any(isinstance(event, MetricEvent) for event in events)  # their epsilon comes from a formula
    convolved = stated.delta > 0 and any(event.count > _CONVOLVED for event in events)
    return 1 - 1e-9 if not measured and (convolved or is_numerical(events, stated.delta)) else 1.0


def _has_cap(settings: Mapping[str, Json]) -> bool:
    inner = settings.get("mechanism")
    return settings.get("noise") == "privunit" or (isinstance(inner, dict) and _has_cap(inner))


def _nearly(stated: float, ours: float) -> bool:
    """Return whether two deltas may belong to one PrivUnit mechanism on two processors.

    The best cap lies where a curve is flat, so that its last digits depend on the processor (relative differences of
    1.5e-9 of delta were seen). The releases were drawn with the cap of the processor that drew them.
    """
    return math.isclose(stated, ours, rel_tol=_FLAT)


def _alike(one: Event, other: Event) -> bool:
    if not (isinstance(one, ApproximateEvent) and isinstance(other, ApproximateEvent)):
        return one == other
    return replace(one, delta=other.delta) == other and _nearly(one.delta, other.delta)


def _happened(spec: Promise, certificate: Certificate) -> bool:
    """Return whether the certificate's events follow from the spec."""
    events, found = accounting.compose(spec.events(spec.units[0])), accounting.compose(certificate.events)
    return found == events or (
        _has_cap(certificate.settings) and len(found) == len(events) and all(map(_alike, found, events))
    )
