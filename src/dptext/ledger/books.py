"""The ledger: accounts are opened, charged, shown and checked, each in one transaction.

    >>> from tempfile import TemporaryDirectory
    >>> from dptext.privacy.guarantee import Guarantee, Relation, Unit
    >>> from dptext.privacy.events import PureEvent
    >>> from dptext.ledger.requests import Request
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(f"{folder}/budget.db")
    ...     limit = Guarantee(20.0, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE)
    ...     _ = ledger.open_account("reviews", limit)
    ...     _ = ledger.charge("reviews", Request((PureEvent(8.0),), Unit.DOCUMENT), key="first run")
    ...     ledger.balance("reviews").left
    12.0

Charges of one subject add up (sequential composition). Charges of different subjects do not (parallel composition),
because a run without the subject does not depend on the subject. A charge to *everyone* counts for each subject
of the account, whether the ledger saw the subject before or not.
"""

import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Self

from dptext import _validate
from dptext.errors import ConfigError, PrivacyError
from dptext.ledger import entries, standings, statements
from dptext.ledger.database import WAIT_SECONDS, Database
from dptext.ledger.entries import Account, Balance, Charge
from dptext.ledger.outlooks import Outlook
from dptext.ledger.recomputation import Recomputation, recompute
from dptext.ledger.requests import Request, events_from_text, terms_from_text
from dptext.ledger.subjects import HASH_BYTES, Naming, SubjectKey, SubjectsDigest
from dptext.privacy.guarantee import Guarantee

_SPOOLED_BYTES = 1 << 24
_LARGEST_NUMBER = 2**63 - 1  # the largest integer of the databases


class Ledger:
    """Accounts of privacy budgets, and their charges, in one database.

    Every method that takes an account raises ConfigError if no account has this name. Every method raises
    LedgerError if the database cannot be used.

    Args:
        database: the database of the ledger.
        key: the secret of the subjects' hashes; only charges to named subjects need it.
    """

    def __init__(self, database: Database, key: SubjectKey | None = None) -> None:
        self._database = database
        self._key = key

    @classmethod
    def at(cls, location: str | Path, *, key: SubjectKey | None = None, wait: float = WAIT_SECONDS) -> Self:
        """The ledger in a file, or at `sqlite:///PATH` or `postgresql+psycopg://USER@HOST/DATABASE`.

        The first use opens the ledger. `key` is the subject key for charges to named subjects. `wait` is the number of
        seconds to wait for a lock. ConfigError: the location is none of these. MissingExtraError: `[ledger]` is absent.
        """
        return cls(Database(location, wait=wait), key)

    @classmethod
    def create(cls, location: str | Path, *, key: SubjectKey | None = None, wait: float = WAIT_SECONDS) -> Self:
        """Return the ledger at a location (see `at`), made if there is none. LedgerError: something else is there."""
        database = Database(location, wait=wait)
        database.create()
        return cls(database, key)

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    @property
    def name(self) -> str:
        """The file or URL, without its password."""
        return self._database.name

    @property
    def path(self) -> Path | None:
        """The file of the ledger; None if the ledger is in PostgreSQL."""
        return self._database.path

    def upgrade(self) -> bool:
        """Bring the ledger to the newest schema. Return False if the ledger had this schema already."""
        return self._database.upgrade()

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self._database.close()

    def open_account(
        self, name: str, limit: Guarantee, *, dataset: str | None = None, by_subject: bool = False
    ) -> Account:
        """Open an account. Its limit never changes: a higher limit would take back a promise to its subjects.

        Args:
            name: unique in the ledger, compared in normal form.
            limit: epsilon, delta, unit (document or author) and relation.
            dataset: the texts that the account is for; by default its own name. No two accounts share a dataset,
                compared in normal form.
            by_subject: allow charges to named subjects, whose names are hashed with the subject key of this object.

        ConfigError: name, limit or dataset cannot be used, or there is such an account.
        """
        dataset = name if dataset is None else dataset
        entries.require_openable(name, limit, dataset)
        key_check = self._subject_key().check(name) if by_subject else None
        bare = Guarantee(limit.epsilon, limit.delta, limit.unit, limit.relation)
        account = Account(name, dataset, bare, by_subject, _now())
        with self._database.writing() as connection:
            statements.write_account(connection, account, key_check)
        return account

    def account(self, name: str) -> Account:
        """The account of this name."""
        with self._database.reading() as connection:
            return statements.to_account(statements.account(connection, name))

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        with self._database.reading() as connection:
            return [statements.to_account(row) for row in statements.all_accounts(connection)]

    def charge(
        self, account: str, request: Request, *, key: str | None = None, subjects: Iterable[str] | None = None
    ) -> Charge:
        """Charge a run before it draws anything: in full, or not at all.

        A charge pays for one release, however often the run is interrupted. The same key with the same request returns
        the charge that exists already.

        Args:
            account: name of the account.
            request: what the run does to one subject.
            key: idempotency key, unique in the account; a fresh one by default.
            subjects: a name for each unit in the run; None charges everyone in the account. A name may occur at
                most `request.units_per_subject` times. Names that are equal in normal form are one subject; see
                `Naming`. The names are read once, before the account is locked, and memory does not grow with them.

        Raises:
            BudgetExceededError: the account cannot pay.
            IncomparableError: unit or relation differ from the account's.
            NoGuaranteeError: nothing, or only a claim, bounds the privacy loss of the run.
            PrivacyError: the key belongs to another request.
            DataError: a subject has more units in the run than the request says.
            ConfigError: the account has no subject key, or another one.
        """
        request.require_chargeable()
        if isinstance(subjects, str):
            raise ConfigError("Expected subjects as a list of names, found one text, whose letters would be charged.")
        key = secrets.token_hex(16) if key is None else key
        entries.require_name(key=key)
        if subjects is None:
            return self._charge(account, request, key, None)
        self.account(account).require_same_meaning(request)
        digest = self.subjects_digest(account)
        # Reading the input within the transaction would keep others waiting. The temporary file has no name on the disk
        # and holds hashes alone.
        with SpooledTemporaryFile(max_size=_SPOOLED_BYTES) as spool:
            for name in subjects:
                spool.write(digest.add(name))
            spool.seek(0)
            hashes = iter(lambda: spool.read(HASH_BYTES), b"")
            return self._charge(account, request, key, (digest.hexdigest(), hashes))

    def _charge(self, account: str, request: Request, key: str, subjects: standings.Subjects | None) -> Charge:
        with self._database.writing() as connection:
            return standings.write_whole(connection, account, request, key, _now(), subjects)

    def subjects_digest(self, account: str) -> SubjectsDigest:
        """Return a new digest, to which names are added, as for `Charge.subjects_digest`. Errors: see `naming`."""
        return SubjectsDigest(self.naming(account))

    def naming(self, account: str) -> Naming:
        """Return the function that hashes the account's subject names.

        ConfigError: the account has no subject key, or another one.
        """
        with self._database.reading() as connection:
            return self._naming(statements.account(connection, account))

    def settle(self, account: str, key: str, release: str) -> None:
        """Record the release that the charge of this key paid for, by its sha256, just before publication.

        Settling the same release again changes nothing. PrivacyError: there is no such charge, or it paid for another
        release already.
        """
        entries.require_name(release=release)
        with self._database.writing() as connection:
            row = statements.locked_account(connection, account)
            found = statements.charge(connection, row.id, key)
            if found is None:
                raise PrivacyError(f"Account {account!r} has no charge for this run: nothing is released.")
            if found.release not in (None, release):
                raise PrivacyError(
                    f"Expected charge {found.id} of account {account!r} to be unused: it paid for another release "
                    "already. Nothing is released; run again with another charge key, which charges anew."
                )
            if found.release is None:
                statements.settle(connection, found.id, release, _now())

    def balance(self, account: str, *, subject: str | None = None) -> Balance:
        """Return the balance of the subject who spent most, or of the named `subject`, which needs the subject key."""
        with self._database.reading() as connection:
            row = statements.account(connection, account)
            found = statements.to_account(row)
            for_all = events_from_text(standings.whole(connection, row, row.events))
            if subject is None:
                candidates = [(), *standings.tallies_of(connection, row.id)]
            else:
                hashed = self._naming(row).hash(subject)
                candidates = [standings.tally_of(connection, row.id, hashed)]
        worst = max(candidates, key=lambda own: entries.spent_epsilon([*for_all, *own], found.limit))
        events = entries.in_order((*for_all, *worst))
        spent = entries.spent_guarantee(events, found.limit, terms_from_text(row.terms))
        return Balance(found, spent, row.charges, row.subjects, events)

    def outlook(self, account: str) -> Outlook:
        """Return what the account can still pay by charges to everyone."""
        with self._database.reading() as connection:
            row = statements.account(connection, account)
            found = statements.to_account(row)
            for_all = events_from_text(standings.whole(connection, row, row.events))
            own = [(), *standings.tallies_of(connection, row.id)]
        return Outlook(found.limit, tuple((*for_all, *each) for each in own))

    def weigh(self, account: str, request: Request, subjects: Iterable[str] | None = None) -> None:
        """Raise BudgetExceededError or IncomparableError if `charge` would, for these subjects or for everyone.

        Nothing is written.
        """
        self.account(account).require_same_meaning(request)
        hashes = None if subjects is None else set(map(self.naming(account).hash, subjects))
        with self._database.reading() as connection:
            row = statements.account(connection, account)
            found = statements.to_account(row)
            if hashes is None:
                standings.weigh_everyone(connection, row, found, request)
                return
            for_all = events_from_text(standings.whole(connection, row, row.events))
            own = {standings.tally_of(connection, row.id, hashed) for hashed in hashes}
        if own:
            entries.require_within(found, [(*for_all, *each) for each in own], request.events)

    def find(self, number: int) -> Charge:
        """Return the charge of this number. ConfigError: there is none, or a newer dptext wrote it."""
        if not 0 < number <= _LARGEST_NUMBER:
            raise ConfigError(f"There is no charge {number} in this ledger.")
        with self._database.reading() as connection:
            row = statements.charge_numbered(connection, number)
        if row is None:
            raise ConfigError(f"There is no charge {number} in this ledger.")
        return statements.to_charge(row, row.name)

    def log(self, account: str, *, last: int | None = None) -> Iterator[Charge]:
        """Yield the charges of an account, oldest first; with `last`, only the newest `last` charges."""
        if last is not None:
            _validate.count(last=last)
            last = min(last, _LARGEST_NUMBER)
        with self._database.reading() as connection:
            number = statements.account(connection, account).id
            after, newest = statements.numbers_of(connection, number, last=last)
        while after < newest:  # each page in its own transaction: none is open while the caller works
            with self._database.reading() as connection:
                page = statements.charges_of(connection, number, after, newest)
            after = page[-1].id
            yield from (statements.to_charge(row, account) for row in page)

    def verify(self, account: str) -> Recomputation:
        """Recompute the balance of an account from its charges, and compare it with the stored balance."""
        with self._database.reading() as connection:
            row = statements.account(connection, account)
            return recompute(connection, row, statements.to_account(row))

    def _subject_key(self) -> SubjectKey:
        if self._key is None:
            raise ConfigError("Expected the subject key of the ledger for charges to named subjects: --subject-key.")
        return self._key

    def _naming(self, row: statements.AnyRow) -> Naming:
        if row.key_check is None:
            raise ConfigError(
                f"Expected account {row.name!r} to be opened for charges to named subjects: it was not. Charge "
                "everyone, or open an account with a subject key."
            )
        return self._subject_key().naming(row.name, bytes(row.key_check))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
