"""What the routes of a gateway share, and who may ask."""

import threading
from typing import Any

from fastapi import Depends, Request

from dptext.ledger.books import Ledger
from dptext.service.answers import Answers
from dptext.service.guarding import Counts, Rates
from dptext.service.jobs import Jobs
from dptext.service.keys import Key, Keys
from dptext.service.problems import Problem
from dptext.service.settings import Secret, Settings
from dptext.service.store import Store
from dptext.service.work import Models
from dptext.service.worker import Worker


class Gateway:
    """What the routes share. LedgerError: there is no ledger; ConfigError: a setting cannot be used."""

    def __init__(self, settings: Settings) -> None:
        secret = Secret.at(settings.key_file)
        self.settings = settings
        self.ledger = Ledger.at(settings.ledger)
        self.store = Store(settings.ledger)
        self.keys = Keys(self.store, secret)
        self.answers = Answers(self.store, secret, settings.seconds, settings.kept)
        self.models = Models(settings.models)
        self.jobs = Jobs(settings, self.store, secret, self.ledger, self.models)
        self.worker = Worker(self.jobs, self.answers)
        self.rates = Rates(settings.requests_a_minute, settings.bytes_a_minute)
        self.counts = Counts()
        self.computing = threading.Semaphore(settings.threads)

    def key(self, request: Request, *scopes: str) -> Key:
        """Who asks, who must have one of these scopes; a Problem for anybody else."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        found = self.keys.find(given.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise Problem(401, "unauthorized", "Expected the header Authorization: Bearer KEY, with a key that holds.")
        length = request.headers.get("content-length", "0")
        wait = self.rates.wait(found.prefix, int(length) if length.isdigit() else 0)
        if wait:
            raise Problem(429, "rate", "This key has asked too much in this minute.", retry_after=wait)
        if not found.may(*scopes):
            raise Problem(403, "scope", f"Expected a key with the scope {' or '.join(scopes)}.")
        return found

    def allowed(self, key: Key, model: str) -> str:
        """The name of a model that a key may use."""
        if key.models and model not in key.models:
            raise Problem(404, "no-model", "There is no such model, or this key may not use it.")
        self.models.path(model)
        return model


def asking(gate: Gateway, *scopes: str) -> Any:
    """The key of a request, with one of these scopes."""

    def key(request: Request) -> Key:
        return gate.key(request, *scopes)

    return Depends(key)
