"""The state that the routes of a gateway share, and checks of who may ask."""

import hmac
import json
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer

from dptext.errors import ConfigError
from dptext.ledger.books import Ledger
from dptext.ledger.database import Database
from dptext_gateway.answers import StoredAnswers
from dptext_gateway.clock import Clock
from dptext_gateway.jobs import Jobs
from dptext_gateway.keys import Key, Keys, require_everyone
from dptext_gateway.limits import Rates, Space
from dptext_gateway.metrics import Counts, Turns
from dptext_gateway.problems import NO_MODEL, NOT_UTF8, Problem, parameters
from dptext_gateway.settings import Secret, Settings, require_ledger
from dptext_gateway.store import Store
from dptext_gateway.work import Models
from dptext_gateway.worker import Worker

UPLOADS: Final = ("/v1/jobs", "/v1/synthesize")  # where a body is a file
#: Named in the description of the routes; `Guard` reads the header itself.
_BEARER: Final = HTTPBearer(auto_error=False, description="A key of `dptext keys create`.")


class Gateway:
    """The state that the routes share. LedgerError: there is no ledger; ConfigError: a setting cannot be used."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        require_ledger(settings.ledger)
        self._secret = secret = Secret.at(settings.key_file)
        books = Database(settings.ledger)  # one database object: a gateway never has more connections than threads
        self.ledger, self.store = Ledger(books), Store(books)
        self.keys = Keys(self.store, secret)
        clock = Clock(self.store.newest())
        self.answers = StoredAnswers(self.store, secret, settings.seconds, settings.kept, clock)
        self.models = Models(settings.models)
        self.jobs = Jobs(settings, self.store, secret, self.ledger, self.models, clock)
        self.worker = Worker(self.jobs, self.answers)
        self.rates = Rates(settings.requests_a_minute, settings.bytes_a_minute)
        self.space = Space(settings, self.store)
        self.counts = Counts()
        self.turns = Turns(settings.threads)
        self.counts.waiting.set_function(lambda: self.turns.waiting)

    def require_secret(self) -> None:
        """Raise a Problem if the key file is gone or replaced: nobody could open answers sealed from now on."""
        try:
            same = hmac.compare_digest(Secret.read(self.settings.key_file).key, self._secret.key)
        except ConfigError:
            same = False
        if not same:
            said = "The key file of the gateway is gone or was replaced: it has to come back."
            raise Problem(503, "key-file", said, retry_after=60)

    def require_ready(self) -> None:
        """Raise LedgerError or a Problem if ledger, key file, spool or models are gone or replaced."""
        self.ledger.accounts()
        self.require_secret()
        self.jobs.require_spool()
        self.models.names()

    def key(self, authorization: bytes) -> Key:
        """Return the key in a header Authorization. Problem: it is no valid key, or the key file was replaced."""
        kind, _, given = authorization.decode("latin-1").partition(" ")
        found = self.keys.find(given.strip()) if kind.lower() == "bearer" else None
        self.require_secret()
        if found is None:
            said = "This key is wrong, has expired or was revoked. Expected the header Authorization: Bearer KEY."
            raise Problem(401, "unauthorized", said)
        return found

    def require_payer(self, key: Key) -> None:
        """Raise ConfigError if the account of a key charges named subjects."""
        require_everyone(self.ledger.account(key.account or ""))

    def permitted(self, key: Key, model: str) -> None:
        """Refuse the name of a model that a key may not use."""
        if key.models and model not in key.models:
            raise Problem(404, NO_MODEL, "There is no such model, or this key may not use it.")

    def allowed(self, key: Key, model: str) -> str:
        """Return the name of a model. Problem: it is not there, or the key may not use it."""
        self.permitted(key, model)
        self.models.path(model)
        return model


async def known(request: Request) -> None:
    """Refuse an unknown parameter: a request with a misspelt parameter would be charged."""
    expected = parameters(request)
    if request.url.path.startswith("/v1/") and not set(request.query_params) <= expected:
        named = ", ".join(sorted(expected)) or "none"
        raise Problem(422, "parameter", f"Expected no other parameters in the address than these: {named}.")


async def once(request: Request) -> None:
    """Refuse a JSON body with a repeated key, NaN, or another encoding than UTF-8, as files are refused."""
    if request.method == "POST" and request.url.path not in UPLOADS and (body := await request.body()):
        await run_in_threadpool(_require_once, body)


def _require_once(body: bytes) -> None:
    if not json.detect_encoding(body).startswith("utf-8"):
        raise Problem(400, "invalid", NOT_UTF8)
    with suppress(ValueError, RecursionError):  # it is no JSON: whoever reads it says so
        json.loads(body, object_pairs_hook=_unique, parse_constant=_no_constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Problem(422, "invalid", "Expected each key of an object once: one is there twice.")
    return found


def _no_constant(_: str) -> None:
    raise Problem(422, "invalid", "Expected no NaN and no Infinity, which are no JSON.")


def asking(*scopes: str) -> Any:
    """Return a dependency: the key that `Guard` found, which must have one of these scopes."""

    def key(request: Request, _: Annotated[Any, Security(_BEARER)]) -> Key:
        found: Key = request.state.key
        if not found.may(*scopes):
            raise Problem(403, "scope", f"Expected a key with the scope {' or '.join(scopes)}.")
        return found

    return Depends(key)
