"""The certificate beside a released file: what was done, what it guarantees, and which bytes it speaks of.

Everything in it is public: nothing is computed from private text but what the guarantee lists in `reveals`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from dptext.errors import ConfigError, DataError
from dptext.files import sha256_of
from dptext.guarantee import Event, Guarantee, Json, Unit, event_from_dict, event_to_dict

SCHEMA = 2
_READABLE = (1, SCHEMA)  # the first had no charge
ONE_RELEASE = "one release; each repetition adds"


def certificate_path(output: Path) -> Path:
    """Where the certificate of an output file lies."""
    return output.with_name(output.name + ".guarantee.json")


@dataclass(frozen=True, slots=True)
class Charged:
    """The charge that paid for a release: where the books say so.

    Attributes:
        account: name of the account.
        dataset: whose texts it speaks of.
        unit: of the account.
        number: of the charge in the ledger.
        by_subject: whether it fell on each subject of the run alone, or on everyone in the account.
    """

    account: str
    dataset: str
    unit: Unit
    number: int
    by_subject: bool

    def explain(self) -> str:
        """The charge in plain words."""
        whom = f"each {self.unit.value} in it" if self.by_subject else "everyone in the account"
        return (
            f"charge {self.number} of account {self.account!r} (dataset {self.dataset!r}, per {self.unit.value}), to "
            f"{whom}; each repetition is charged again"
        )


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is known about one released file.

    Attributes:
        settings: the spec, `kind` first.
        event: what happened to the spec's smallest unit, in each record.
        guarantees: one for each unit that can be stated, smallest first.
        records: how many records were released.
        output: name of the released file, without its folder.
        sha256: of the released file.
        digests: of the fitted model and the public data in it.
        version: of dptext.
        randomness: "secure" or "seeded".
        delta: at which the guarantees are stated.
        max_per_author: the enforced maximum, if there was one.
        also_reveals: what the run reveals besides the mechanism (kept fields, the number of records).
        charged: the charge that paid for it, where a ledger did.
    """

    settings: Mapping[str, Json]
    event: Event
    guarantees: tuple[Guarantee, ...]
    records: int
    output: str
    sha256: str
    digests: Mapping[str, str]
    randomness: str
    delta: float
    max_per_author: int | None
    also_reveals: tuple[str, ...]
    version: str = ""
    charged: Charged | None = None

    @property
    def repetition(self) -> str:
        """What another release of the same records would do."""
        return ONE_RELEASE if self.charged is None else self.charged.explain()

    def to_json(self) -> str:
        """The certificate as JSON text."""
        data: dict[str, Json] = {
            "schema": SCHEMA,
            "settings": dict(self.settings),
            "event": event_to_dict(self.event),
            "guarantees": [guarantee.to_dict() for guarantee in self.guarantees],
            "records": self.records,
            "output": self.output,
            "sha256": self.sha256,
            "digests": dict(self.digests),
            "randomness": self.randomness,
            "delta": self.delta,
            "max_per_author": self.max_per_author,
            "also_reveals": list(self.also_reveals),
            "version": self.version or version("dptext"),
            "charged": None if self.charged is None else asdict(self.charged),
            "repetition": self.repetition,
        }
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate that `to_json` wrote.

        Raises:
            ConfigError: this is no certificate, or one of a newer schema.
        """
        try:
            data = json.loads(text)
            if data["schema"] not in _READABLE:
                raise ConfigError(f"Expected schema={data['schema']!r} to be {SCHEMA}: update dptext to read it.")
            paid = data["charged"] if data["schema"] > 1 else None
            found = cls(
                settings=dict(data["settings"]),
                event=event_from_dict(data["event"]),
                guarantees=tuple(Guarantee.from_dict(item) for item in data["guarantees"]),
                records=int(data["records"]),
                output=str(data["output"]),
                sha256=str(data["sha256"]),
                digests=dict(data["digests"]),
                randomness=str(data["randomness"]),
                delta=float(data["delta"]),
                max_per_author=None if data["max_per_author"] is None else int(data["max_per_author"]),
                also_reveals=tuple(map(str, data["also_reveals"])),
                version=str(data["version"]),
                charged=None
                if paid is None
                else Charged(
                    account=str(paid["account"]),
                    dataset=str(paid["dataset"]),
                    unit=Unit(paid["unit"]),
                    number=int(paid["number"]),
                    by_subject=bool(paid["by_subject"]),
                ),
            )
            if data["repetition"] != found.repetition:
                raise ValueError("its sentence on repetition does not follow from its charge")
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError("This is not a certificate that dptext wrote.") from error
        return found

    def verify(self, folder: Path) -> None:
        """Check that the file of this certificate, beside it in `folder`, has the bytes that it speaks of.

        Raises:
            DataError: the file is absent or another one.
        """
        path = folder / Path(self.output).name
        if not path.is_file():
            raise DataError(f"Expected {path}, the file of this certificate, beside it: nothing is verified.")
        if sha256_of(path) != self.sha256:
            raise DataError(f"{path} is not the file that this certificate was written for: its sha256 differs.")

    def explain(self) -> str:
        """The certificate in plain words."""
        head = (
            f"{self.output}: {self.records:,} records, mechanism {self.settings['kind']}, dptext {self.version}, "
            f"{self.randomness} randomness; {self.repetition}."
        )
        return "\n\n".join([head, *(guarantee.explain() for guarantee in self.guarantees)])
