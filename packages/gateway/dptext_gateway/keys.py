"""API keys: 256 random bits, shown once and stored as a keyed hash."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from dptext import _validate
from dptext.errors import ConfigError
from dptext.ledger.entries import Account
from dptext_gateway.settings import Secret
from dptext_gateway.store import KEYS, Event, Store

SCOPES: Final = ("privatize", "jobs", "synthesize", "accounts", "metrics", "admin")
RELEASING: Final = ("privatize", "jobs", "synthesize")
_FORM: Final = re.compile(r"dptext_([0-9a-f]{12})_([0-9A-Za-z_-]{43})")
_NAME: Final = re.compile(r"[\w .@-]{1,64}")
MODEL: Final = re.compile(r"[\w-][\w.-]{0,99}")  # the name of a model
_DAY: Final = 86_400
_MOST_DAYS: Final = 36_500  # of a date that can be shown


@dataclass(frozen=True, slots=True)
class Key:
    """An API key and its rights.

    Attributes:
        account: the account that pays for releases of the key.
        models: the models that the key may use; empty for all.
    """

    prefix: str
    name: str
    account: str | None
    scopes: frozenset[str]
    models: frozenset[str]

    def may(self, *scopes: str) -> bool:
        """Whether the key has one of the scopes; administrators have all but those that release."""
        return bool(self.scopes & {*scopes} or ("admin" in self.scopes and {"accounts", "metrics"} & {*scopes}))

    def sees(self, account: str) -> bool:
        """Whether the key may see an account: administrators see all, other keys the account that they charge."""
        return "admin" in self.scopes or account == self.account

    @property
    def who(self) -> str:
        """The name in the audit log."""
        return _who(self.name, self.prefix)


def require_everyone(account: Account) -> None:
    """Raise ConfigError if an account charges named subjects: no request of a gateway names subjects."""
    if account.by_subject:
        raise ConfigError(
            f"Expected an account that charges everyone in it, found {account.name!r}, opened --by-subject, which "
            "charges each by name: a gateway names no subjects. Take an account opened without --by-subject. Nothing "
            "is charged."
        )


class Keys:
    """The keys of a gateway."""

    def __init__(self, store: Store, secret: Secret) -> None:
        self._store, self._secret = store, secret

    def create(
        self,
        name: str,
        *,
        account: str | None,
        scopes: tuple[str, ...],
        models: tuple[str, ...] = (),
        days: float | None = None,
    ) -> str:
        """Make a key and return it; it is never shown again. ConfigError: a setting is wrong."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"Expected the name of a key, found {name!r}: letters, digits, spaces and . @ - _.")
        if not scopes or not set(scopes) <= set(SCOPES):
            raise ConfigError(f"Expected scopes among {', '.join(SCOPES)}, found {', '.join(scopes) or 'none'}.")
        if odd := [each for each in models if not MODEL.fullmatch(each)]:
            raise ConfigError(f"Expected the name of a model, found {odd[0]!r}: letters, digits and . - _.")
        if account is None and set(RELEASING) & set(scopes):
            raise ConfigError("Expected the account of a key that releases: --account NAME.")
        if days is not None:
            _validate.positive(days=days)
            _validate.within(0, _MOST_DAYS, days=days)
        lasts = None if days is None else days * _DAY
        key, prefix, add = self._new(
            lasts, name=name, account=account, scopes=" ".join(scopes), models=" ".join(models)
        )
        self._store.change(add, Event("administrator", f"key created: {_who(name, prefix)}", account))
        return key

    def _new(self, lasts: float | None, **values: str | None) -> tuple[str, str, sa.Insert]:
        """Return a key that lasts `lasts` seconds, its prefix, and the statement that stores it."""
        prefix, random, now = secrets.token_hex(6), secrets.token_urlsafe(32), time.time()
        add = KEYS.insert().values(
            prefix=prefix,
            hash=self._secret.mac("key", random.encode()),
            created=now,
            expires=None if lasts is None else now + lasts,
            **values,
        )
        return f"dptext_{prefix}_{random}", prefix, add

    def find(self, given: str) -> Key | None:
        """Return the key of this text, if it is valid, else None. A hash is compared for an unknown prefix, too."""
        form = _FORM.fullmatch(given)
        if form is None:  # nobody's: the database is not asked
            return None
        prefix, random = form[1], form[2]
        row = self._store.one(sa.select(KEYS).where(KEYS.c.prefix == prefix))
        wanted = row.hash if row is not None else "0" * 64
        same = hmac.compare_digest(wanted, self._secret.mac("key", random.encode()))
        if (
            row is None
            or not same
            or row.revoked is not None
            or (row.expires is not None and row.expires < time.time())
        ):
            return None
        return Key(row.prefix, row.name, row.account, frozenset(row.scopes.split()), frozenset(row.models.split()))

    def listed(self) -> list[dict[str, object]]:
        """Return all keys without their secrets."""
        columns = [column for column in KEYS.c if column.name != "hash"]
        return [dict(row._mapping) for row in self._store.rows(sa.select(*columns).order_by(KEYS.c.created))]  # noqa: SLF001

    def revoke(self, prefix: str) -> None:
        """End a key now. ConfigError: there is no such key."""
        row = self._row(prefix, "revoked")
        change = KEYS.update().where(_holds(prefix)).values(revoked=time.time())
        event = Event("administrator", f"key revoked: {_who(row.name, prefix)}", row.account)
        if not self._store.change(change, event):
            raise _none(prefix, "revoked")

    def rotate(self, prefix: str, *, days: float) -> str:
        """Return a new key with the same rights; the old key ends after `days`. ConfigError: there is no such key."""
        _validate.within(0, _MOST_DAYS, days=days)
        row = self._row(prefix, "rotated")
        key, new, add = self._new(
            lasts=None if row.expires is None else row.expires - row.created,
            name=row.name,
            account=row.account,
            scopes=row.scopes,
            models=row.models,
        )
        end = time.time() + days * _DAY
        ends = end if row.expires is None else min(end, row.expires)
        change = KEYS.update().where(_holds(prefix)).values(expires=ends)
        event = Event("administrator", f"key rotated: {_who(row.name, prefix)}, now {new}", row.account)
        if not self._store.change(change, event, add):
            raise _none(prefix, "rotated")
        return key

    def _row(self, prefix: str, what: str) -> sa.Row[Any]:
        """Return the row of a key that was not revoked. ConfigError: there is none."""
        row = self._store.one(sa.select(KEYS).where(_holds(prefix)))
        if row is None:
            raise _none(prefix, what)
        return row


def _who(name: str, prefix: str) -> str:
    return f"{name} ({prefix})"


def _holds(prefix: str) -> sa.ColumnElement[bool]:
    return (KEYS.c.prefix == prefix) & KEYS.c.revoked.is_(None)


def _none(prefix: str, what: str) -> ConfigError:
    return ConfigError(f"There is no key {prefix!r} that could be {what}: see dptext keys list.")
