"""The work of a gateway: models, explanations, and releases that an account pays for."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from starlette.concurrency import run_in_threadpool

from dptext.errors import BudgetExceededError, ConfigError, DPTextError, PrivacyError
from dptext.ledger.books import Ledger
from dptext.ledger.entries import Charge
from dptext.mechanism import Answers, Mechanism, Promise, settings
from dptext.privacy.guarantee import Unit, format_epsilon
from dptext.runs.certificate import Certificate
from dptext.runs.legal import Page, legal_page
from dptext.runs.models import MODEL_FILE, load_model, model_spec
from dptext.runs.payment import Due, Payment
from dptext.runs.plan import reveals_of
from dptext.runs.results import privatize
from dptext.runs.specs import from_settings, read_toml, synthesis_from_settings
from dptext.runs.streaming import limited
from dptext.runs.verification import Verified
from dptext.sampling.randomness import secure
from dptext.synthesis.spec import CorpusSpec
from dptext.text.files import sha256_of
from dptext.text.formats import Scalar
from dptext.text.reading import read_records, read_rows
from dptext.text.records import TEXT_FIELD, Fields, Record
from dptext.types import Json
from dptext_gateway.answers import Attempt, Stored
from dptext_gateway.copies import copies_of
from dptext_gateway.keys import MODEL, Key
from dptext_gateway.metrics import span
from dptext_gateway.problems import NO_MODEL, BrokenModelError, Problem
from dptext_gateway.store import Event

SYNTHESIS: Final = "synthesis.toml"
POOL: Final = "pool.jsonl"
LEGAL_SUFFIX: Final = ".legal.html"  # of the name of what was released
_REPLACED: Final = "it was replaced; start the gateway again."
_OTHER: Final = "This Idempotency-Key was charged for another model, or other settings: it waits for these."
_FITS: Final = "It can be paid all the same: at a delta above 0 costs do not simply add up."
_LOADERS: Final = 4  # models that are loaded at once
_LOG: Final = logging.getLogger("dptext_gateway")


@dataclass(frozen=True, slots=True)
class Models:
    """The saved models in a folder. Settings and model are each read at first use, and then kept."""

    folder: Path
    _known: dict[str, tuple[Promise, str]] = field(default_factory=dict, repr=False)
    _loading: dict[str, Future[Mechanism[str]]] = field(default_factory=dict, repr=False)
    _broken: set[str] = field(default_factory=set, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _loaders: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_LOADERS, "models"), repr=False)

    def names(self) -> list[str]:
        """Return the names of the folders with a model or a synthesis. Problem: the folder of models is gone."""
        try:
            found = [path for path in sorted(self.folder.iterdir()) if MODEL.fullmatch(path.name)]
        except OSError:
            raise Problem(503, "models", "The folder of models is gone: it has to come back.", retry_after=60) from None
        return [path.name for path in found if (path / MODEL_FILE).is_file() or (path / SYNTHESIS).is_file()]

    def path(self, name: str) -> Path:
        """Return the folder of a model. Problem: there is no model of this name."""
        if not MODEL.fullmatch(name) or name not in self.names():
            raise Problem(404, NO_MODEL, "There is no such model, or this key may not use it.")
        return self.folder / name

    def spec(self, name: str) -> Promise:
        """The settings of a model or synthesis. BrokenModelError: they cannot be read."""
        return self._found(name)[0]

    def synthesis(self, name: str) -> CorpusSpec:
        """Return the settings of a synthesis. Problem: the name is that of a model. BrokenModelError: see `spec`."""
        spec = self.spec(name)
        if spec.traits.answers is not Answers.CORPUS:
            raise Problem(422, "no-synthesis", "This model answers each text: POST /v1/jobs.")
        return synthesis_from_settings(settings(spec))

    def mark(self, name: str) -> str:
        """Return a digest of a model or synthesis, by which a replaced model is noticed; errors as of `spec`."""
        return self._found(name)[1]

    def pool(self, name: str) -> list[Record]:
        """Return the public texts of a synthesis. BrokenModelError: it was replaced after its first use."""
        found = list(read_records(self.path(name) / POOL))
        self._require_same(name)
        return found

    def _found(self, name: str) -> tuple[Promise, str]:
        path = self.path(name)
        try:
            return self._known.get(name) or self._known.setdefault(name, (_read(path), _mark(path)))
        except Exception as error:  # noqa: BLE001  # whoever damaged a file can break a parser in any way
            raise self._unusable(name, error) from None

    def loading(self, name: str) -> Future[Mechanism[str]]:
        """Return a future of a model that privatizes texts; others do not wait. BrokenModelError, also in it."""
        spec = self.spec(name)
        if spec.traits.answers is Answers.CORPUS:
            raise Problem(422, "synthesis", "This is a synthesis: it answers a corpus (POST /v1/synthesize).")
        with self._lock:
            found = self._loading.get(name)
            if found is None or (found.done() and found.exception()):
                found = self._loading[name] = self._loaders.submit(self._load, name, spec)
            return found

    def loaded(self, name: str) -> Mechanism[str]:
        """Return the model of `loading`; the thread waits for it."""
        return self.loading(name).result()

    async def ready(self, name: str) -> Mechanism[str]:
        """Return the model of `loading`; no thread waits for it."""
        return await asyncio.shield(asyncio.wrap_future(await run_in_threadpool(self.loading, name)))

    def usable(self, names: Sequence[str]) -> list[dict[str, Json]]:
        """Return the usable ones of these models, in words and data."""
        found = []
        for name in names:
            try:
                found.append(self.told(name))
            except (Problem, DPTextError) as error:
                self._unusable(name, error)
        return found

    def _load(self, name: str, spec: Promise) -> Mechanism[str]:
        try:
            found = load_model(self.folder / name)
            if settings(found.spec) != settings(spec):
                raise ConfigError(_REPLACED)
            self._require_same(name)
        except Exception as error:  # noqa: BLE001  # as above
            raise self._unusable(name, error) from None
        return found

    def _require_same(self, name: str) -> None:
        try:
            same = _mark(self.folder / name) == self._known[name][1]
        except OSError:
            same = False
        if not same:
            raise self._unusable(name, ConfigError(_REPLACED))

    def _unusable(self, name: str, error: Exception) -> BrokenModelError:
        if name not in self._broken:
            self._broken.add(name)
            _LOG.error("The model %s cannot be used: %s", name, self._reason(name, error))
        return BrokenModelError("This model cannot be used now: the log of the gateway says why.")

    def _reason(self, name: str, error: Exception) -> object:
        """Say what is wrong with a model, for the log: its folder holds nothing private."""
        if isinstance(error, DPTextError):
            return error
        if isinstance(error, FileNotFoundError) and (self.folder / name / SYNTHESIS).is_file():
            return f'its public texts are not there: {self.folder / name / POOL}, of lines {{"text": "..."}}.'
        return type(error).__name__

    def told(self, name: str, *, unit: str | None = None, delta: float = 0.0) -> dict[str, Json]:
        """Return a model in words and data."""
        spec = self.spec(name)
        wanted = spec.units if unit is None else (_unit(unit),)
        promised = [spec.guarantee(each, delta) for each in wanted]
        return {
            "name": name,
            "kind": spec.kind,
            "answers": "a corpus" if spec.traits.answers is Answers.CORPUS else "each text",
            "settings": settings(spec),
            "reads_labels": spec.traits.reads_labels,
            "labels": list(spec.traits.labels),
            "measured": list(spec.measured_fields) if isinstance(spec, CorpusSpec) else [],
            "guarantees": [each.to_dict() for each in promised],
            "sentence": promised[-1].sentence(),
            "words": [each.explain() for each in promised],
        }


def _mark(path: Path) -> str:
    """Return the digest of a model's main file, which has those of its other files, or of a synthesis and its pool."""
    names = (SYNTHESIS, POOL) if (path / SYNTHESIS).is_file() else (MODEL_FILE,)
    return " ".join(sha256_of(path / name) for name in names)


def _read(path: Path) -> Promise:
    if (path / SYNTHESIS).is_file():
        return synthesis_from_settings(read_toml(path / SYNTHESIS))
    return model_spec(path)


def _unit(name: str) -> Unit:
    try:
        return Unit(name)
    except ValueError:
        raise Problem(422, "unit", f"Expected a unit of {', '.join(Unit)}.") from None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request to privatize a few records at once.

    Attributes:
        rows: records with text, and with id, label and author if there are any.
        max_per_author: public maximum of records per author, for an account per author.
        delta: the delta of the stated guarantees.
    """

    rows: Sequence[Mapping[str, Scalar]]
    max_per_author: int | None = None
    delta: float = 0.0

    @property
    def fields(self) -> Fields:
        """The fields that the records have. ConfigError: some records have a field and others do not."""
        named: dict[str, str | None] = {}
        for name in ("id", "label", "author"):
            having = any(row.get(name) is not None for row in self.rows)  # null in all of them is none
            if having and not all(name in row for row in self.rows):
                raise ConfigError(f"Expected {name} in every record or in none.")
            named[name] = name if having else None
        return Fields(text=TEXT_FIELD, **named)  # type: ignore[arg-type]  # names


def cost(ledger: Ledger, key: Key, spec: Promise, max_per_author: int | None) -> dict[str, Json]:
    """Return the cost of a release, in numbers and words; nothing is charged. Errors as of the release."""
    payment = Payment(ledger, key.account or "")
    due = payment.due(spec, randomness=secure(), max_per_author=max_per_author)
    ledger.weigh(due.account.name, due.request)
    fits = "" if due.epsilon() <= ledger.balance(due.account.name).left else f" {_FITS}"
    return {"epsilon": format_epsilon(due.epsilon()), "balance_in_words": payment.left() + fits}


def _terms(wanted: Wanted) -> dict[str, Any]:
    return {
        "randomness": secure(),
        "max_per_author": wanted.max_per_author,
        "reveals": reveals_of(wanted.fields),
    }


def released(
    ledger: Ledger,
    key: Key,
    model: str,
    mechanism: Mechanism[str],
    wanted: Wanted,
    attempt: Attempt,
    turn: ExitStack,
) -> Stored:
    """Charge, draw, store and settle a release; return the answer to send. An attempt without charge is given up.

    The turn ends as soon as the texts are drawn, so that nobody waits for ledger transactions of others.
    """
    fields = wanted.fields
    try:
        payment = Payment(ledger, key.account or "", attempt.charge_key)
        due = payment.due(mechanism.spec, **_terms(wanted))
        if mechanism.spec.traits.reads_labels and fields.label is None:
            raise ConfigError(f"Expected a label in each record: {mechanism.spec.kind} reads it with the text.")
        batches = list(read_rows(wanted.rows, fields))
        if copies := copies_of(due.account.limit):
            copies.add(text for batch in batches for text in batch.texts)
            copies.require_none("records[{}]", 0)
        if wanted.max_per_author is not None:
            deque(limited(batches, wanted.max_per_author), maxlen=0)  # DataError: an author has too many
        charge = _paid(due, attempt, Event(key.who, "refused: budget", key.account, model))
    except Exception:
        attempt.give_up()  # nothing was charged; an unsure charge is found again under the same key
        raise
    try:
        found = privatize(
            wanted.rows,
            mechanism,
            text=fields.text,
            id=fields.id,
            label=fields.label if mechanism.spec.traits.releases_labels else None,
            author=fields.author,
            delta=wanted.delta,
            max_per_author=wanted.max_per_author,
            randomness=secure(),
        )
        with turn, span("mechanism"):
            found.to_records()
        certificate = named(replace(found.certificate, charged=due.charged(charge)))
        answer: dict[str, Json] = {
            "releases": found.json_lines().decode(),
            "certificate": certificate.to_json(),
            "sentence": found.guarantees[-1].sentence(),
            **in_words(certificate, mechanism.spec),
            "balance_in_words": payment.left(),
        }
        event = Event(key.who, "released", key.account, model, charge.number, certificate.sha256)
        stored = attempt.store(json.dumps(answer).encode(), certificate.sha256, event)
    except Exception:
        attempt.free()  # it is paid for, and nobody saw it: the next attempt draws under the same charge
        raise
    settled(ledger, key, stored)
    return stored


def _paid(due: Due, attempt: Attempt, refused: Event) -> Charge:
    """Return the charge of an attempt. Problem: the charge has paid for an answer that is gone."""
    try:
        return due.charge(attempt.charge_key, None)
    except BudgetExceededError:
        attempt.answers.store.note(refused)
        raise
    except PrivacyError as error:
        if type(error) is not PrivacyError:  # a subclass, such as of a unit; a bare PrivacyError names the internal key
            raise
        same = (each for each in due.payment.ledger.log(due.account.name) if each.key == attempt.charge_key)
        if (found := next(same, None)) is not None and found.release is None:
            raise Problem(503, "model", _OTHER, retry_after=60) from None
        raise attempt.spent() from None


def named(certificate: Certificate) -> Certificate:
    """Put the charge's number into the output name of a certificate: browsers then rename no second download."""
    if certificate.charged is None:
        return certificate
    name = Path(certificate.output)
    return replace(certificate, output=f"{name.stem}-{certificate.charged.number}{name.suffix}")


def in_words(certificate: Certificate, spec: Promise) -> dict[str, Json]:
    """Return a certificate in plain words, and as a page for whoever answers for the release, as text and parts."""
    page = legal(certificate, spec)
    sections: list[Json] = [
        {"heading": each.heading, "lines": list(each.lines), "table": [list(row) for row in each.table]}
        for each in page.sections
    ]
    parts: dict[str, Json] = {"title": page.title, "sections": sections, "footer": page.footer}
    return {"words": certificate.explain(), "legal": page.text(), "legal_page": parts}


def legal(certificate: Certificate, spec: Promise) -> Page:
    """Return the page for whoever answers for a release."""
    said = "Hold it against the file and the books with `dptext explain`."
    return legal_page(Verified(certificate, spec), verified=said)


def spec_of(certificate: Certificate) -> Promise:
    """Return the spec in a certificate, which needs no model."""
    return from_settings(certificate.settings)


def settled(ledger: Ledger, key: Key, stored: Stored) -> None:
    """Settle the charge of a stored answer before it is sent; settling again changes nothing."""
    ledger.settle(key.account or "", stored.charge_key, stored.result_sha256)
