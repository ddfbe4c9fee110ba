"""Turn a run into the request that a ledger is charged with, before any noise is drawn.

>>> import dptext as dp
>>> spec = dp.WordMetric(epsilon=0.1, noise="tem", max_tokens=10, diameter=10.0)
>>> limit = dp.Guarantee(20.0, 0.0, dp.Unit.AUTHOR, dp.Relation.REPLACE_ONE)
>>> request = request_for(spec, limit, randomness=dp.randomness.secure(), max_per_author=2)
>>> [(event.kind, event.count) for event in request.events]  # 10 tokens a text, 2 texts an author
[('pure', 20)]
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dptext._wording import plural
from dptext.errors import ConfigError, DataError, IncomparableError, LedgerError, NoGuaranteeError, PrivacyError
from dptext.ledger.books import Ledger
from dptext.ledger.entries import Account, Charge, format_left, opening, spent_epsilon
from dptext.ledger.requests import Request, Terms
from dptext.mechanism import Answers, Promise, settings
from dptext.privacy import accounting
from dptext.privacy.guarantee import ONE_RECORD, ONE_SPELLING, RECORD_COUNT, Basis, Guarantee, Unit, format_epsilon
from dptext.privacy.names import AS_SEEN, COMPARED, ONE_NAME
from dptext.runs.certificate import Charged
from dptext.sampling.randomness import Randomness
from dptext.text.records import Fields


@dataclass(frozen=True, slots=True)
class Payment:
    """The account that pays for a run.

    Attributes:
        ledger: the ledger that holds the account.
        account: name of the account.
        key: idempotency key: a run that is tried again with the same key is charged once. After a release the key is
            refused. None draws a new key.
        everyone: True charges all subjects of an account that was opened by_subject, also those not in the run.
    """

    ledger: Ledger = field(repr=False)
    account: str
    key: str | None = None
    everyone: bool = False

    def charge_key(self) -> str:
        """Return the key of the charge: `key`, or a new one if `key` is None."""
        return self.key or secrets.token_hex(16)

    def found(self, *, by_subject: bool) -> Account:
        """Return the account. ConfigError: the run names no subjects and does not say `everyone`, or does both."""
        account = self.ledger.account(self.account)
        if by_subject and self.everyone:
            raise ConfigError(
                "Expected either --subject-field or --everyone, found both: name the subjects, or charge everyone."
            )
        if account.by_subject and not by_subject and not self.everyone:
            raise ConfigError(
                f"Expected the subjects of account {account.name!r}, which charges each by name, found none: "
                "--subject-field NAME. To charge everyone in the account, in this run or not, say so: --everyone, or "
                "Payment(..., everyone=True). Nothing is charged."
            )
        return account

    def due(self, spec: Promise, *, fields: Fields | None = None, **run: Any) -> "Due":
        """Return the debt of a run: the account and its request. `run` holds the keyword arguments of `request_for`.

        `fields` names the columns of charged subjects and of authors. ConfigError: it is not clear whom to charge, or
        the subject key is missing or another one.
        """
        fields = fields or Fields()
        by_subject = fields.subject is not None
        account = self.found(by_subject=by_subject)
        if account.limit.unit is Unit.AUTHOR and fields.subject not in (None, fields.author):
            raise ConfigError(
                f"Expected the subjects of account {account.name!r}, which is per author, to be the authors: name the "
                "same field for both, or leave the field of the subjects out."
            )
        if by_subject:
            self.ledger.naming(self.account)  # ConfigError: the key of the subjects is absent
        return Due(self, account, request_for(spec, account.limit, by_subject=by_subject, **run))

    def settle(self, key: str, sha256: str) -> None:
        """Record in the ledger the release, by sha256 or mark, that the charge paid for."""
        try:
            self.ledger.settle(self.account, key, sha256)
        except LedgerError as error:
            raise LedgerError(
                f"{error} The run is paid for, and what it drew is kept: --resume publishes it."
            ) from None

    def left(self) -> str:
        """Return the balance of the account in words. An unreadable ledger raises no error, as the run is paid for."""
        try:
            balance = self.ledger.balance(self.account)
        except LedgerError as error:
            return f"The run is paid for; what is left is not known: {error}"
        return (
            f"Account {self.account!r}: spent {format_epsilon(balance.spent.epsilon)} of "
            f"{format_epsilon(balance.account.limit.epsilon)}, left {format_left(balance.left)}."
        )


def request_for(
    spec: Promise,
    limit: Guarantee,
    *,
    randomness: Randomness,
    max_per_author: int | None = None,
    by_subject: bool = False,
    reveals: Sequence[str] = (),
) -> Request:
    """Return the request that one run of the spec makes for one subject of an account. The limit's unit is the subject.

    For a spec that answers each text, a record is a document. An author has at most `max_per_author` records, which
    the run enforces, and each record is a release of its own. A spec that answers the corpus charges the corpus once;
    the mechanism adds up the author's records, and `max_per_author` is ignored.

    `by_subject` says whether subjects are charged by name. `reveals` lists what the run reveals besides the mechanism.

    Raises:
        NoGuaranteeError: the run is seeded or its mechanism bounds nothing, so that no account can pay for it.
        IncomparableError: the spec has no events for the unit of the account with these settings.
        ConfigError: the account is per author and no maximum is set.
    """
    if not randomness.is_secure:
        raise NoGuaranteeError("Expected secure randomness where a ledger pays: who knows the seed undoes the noise.")
    if spec.traits.answers is Answers.CORPUS:
        return _for_corpus(spec, limit, by_subject)
    return _for_each_text(spec, limit, max_per_author, by_subject, reveals)


def _for_corpus(spec: Promise, limit: Guarantee, by_subject: bool) -> Request:
    """Return the request for the whole run as one release, for everyone in the account or for each subject."""
    (unit,) = spec.units
    promised = spec.guarantee()
    if limit.unit is not unit:
        raise IncomparableError(
            f"Expected unit={limit.unit.value!r}, as the account is per {limit.unit.value}, found {unit.value!r}. For "
            f"this unit open another account: {opening(unit, promised.relation)}."
        )
    assumed = [*promised.assumptions, *([ONE_SPELLING] if unit is Unit.AUTHOR else [])]
    if by_subject:
        assumed.append(ONE_NAME)
    elif unit is Unit.AUTHOR:
        assumed.append(f"names of authors are {AS_SEEN}")
    terms = Terms(promised.trust, Basis.CONDITIONAL, tuple(assumed))
    return Request(spec.events(unit), unit, promised.relation, terms, settings(spec))


def _for_each_text(
    spec: Promise, limit: Guarantee, max_per_author: int | None, by_subject: bool, reveals: Sequence[str]
) -> Request:
    """Return the request for one release per record that a subject has in the run."""
    if Unit.DOCUMENT not in spec.units and spec.guarantee().basis is not Basis.NONE:
        raise IncomparableError(
            f"Expected a mechanism with a guarantee per document, to charge an account per {limit.unit.value}: with "
            f"these settings the largest unit that {spec.kind} protects is the {spec.units[-1].value}. "
            "See `dptext explain`."
        )
    events = spec.events(Unit.DOCUMENT)
    document = spec.guarantee(Unit.DOCUMENT, limit.delta)
    if document.basis in (Basis.NONE, Basis.CLAIMED):
        raise NoGuaranteeError(
            f"Expected a mechanism whose loss is bounded, to charge for it: the basis of {spec.kind} is "
            f"{document.basis.value}{', ' + document.reason if document.reason else ''}."
        )
    if document.trust == "central":
        raise IncomparableError(
            f"Expected a mechanism that saw no private text before this run, to charge for it: {spec.kind} was trained "
            "on private text, and the ledger does not know whose text."
        )
    assumptions = document.assumptions
    units = 1
    if limit.unit is Unit.AUTHOR:
        if max_per_author is None:
            raise ConfigError(
                "Expected a public maximum of records for each author, as the account is per author: "
                "--author-field NAME --max-per-author N."
            )
        events, units = accounting.repeat(events, max_per_author), max_per_author
        enforced = f"no author has more than {max_per_author} records in a run (enforced; names are {COMPARED})"
        assumptions, reveals = (*assumptions, enforced, ONE_SPELLING), (*reveals, RECORD_COUNT)
    elif not by_subject:
        assumptions = (*assumptions, ONE_RECORD)
    if by_subject:
        assumptions = (*assumptions, ONE_NAME)
    basis = Basis.CONDITIONAL if assumptions and document.basis is Basis.PROVEN else document.basis
    return Request(
        events,
        limit.unit,
        document.relation,
        Terms(document.trust, basis, assumptions, tuple(dict.fromkeys((*document.reveals, *reveals)))),
        settings(spec),
        units,
    )


@dataclass(frozen=True, slots=True)
class Due:
    """The debt of a run: account and request. IncomparableError: the account has another unit or relation."""

    payment: Payment
    account: Account
    request: Request

    def __post_init__(self) -> None:
        # Checked before any input is read: unit and relation are public.
        self.request.require_chargeable()
        self.account.require_same_meaning(self.request)

    def charge(self, key: str, subjects: Iterator[str] | None) -> Charge:
        """Charge the account under this key. PrivacyError: the key paid for a release already."""
        charge = self.payment.ledger.charge(self.account.name, self.request, key=key, subjects=subjects)
        if charge.release is not None:
            raise _used(charge, "a release")
        return charge

    def charge_run(self, key: str, subjects: Iterator[str] | None, *, resumed: bool) -> Charge:
        """`charge` for a run that keeps its key in a state. LedgerError: how to go on if the charge may be written."""
        try:
            return self.charge(key, subjects)
        except LedgerError as error:
            if not (error.unsure or resumed):  # nothing was charged
                raise
            problem = error
        how = "Go on with --resume: it finds the charge if written; --force charges anew."
        raise LedgerError(f"{problem} {how}", unsure=problem.unsure)

    def weigh(self, key: str | None, subjects: Iterable[str] | None) -> bool:
        """Raise the errors of `charge` without charging. Return False if the key has a charge already, else True."""
        ledger, account, request = self.payment.ledger, self.account, self.request
        digest = None if subjects is None else ledger.subjects_digest(account.name)
        several = [] if digest is None else [(digest.add(name), name) for name in subjects or ()]
        most = max(Counter(hashed for hashed, _ in several).values(), default=0)
        if most > request.units_per_subject:
            raise DataError(
                f"Expected at most {plural(request.units_per_subject, 'record')} of a subject, found {most} of one."
            )
        found = None if key is None else next((each for each in ledger.log(account.name) if each.key == key), None)
        if found is not None:
            same = (found.request, found.subjects_digest) == (request, digest and digest.hexdigest())
            if found.release is not None or not same:
                raise _used(found, "a release" if same else "another run")
            return False
        ledger.weigh(account.name, request, None if digest is None else dict(several).values())
        return True

    def epsilon(self) -> float:
        """Return the epsilon of this charge alone, at the delta of the account's limit."""
        return spent_epsilon(self.request.events, self.account.limit)

    def charged(self, charge: Charge) -> Charged:
        """Return the charge as a certificate states it."""
        account, named = self.account, charge.subjects_digest is not None
        return Charged(account.name, account.dataset, account.limit.unit, charge.number, named)

    def settle(self, key: str, sha256: str) -> None:
        """Record the release that the charge paid for, as `Payment.settle`."""
        self.payment.settle(key, sha256)


def _used(charge: Charge, what: str) -> PrivacyError:
    return PrivacyError(
        f"Expected charge key {charge.key!r} of account {charge.account!r} to be unused: it paid for {what} already. "
        "Nothing is released; another key charges anew."
    )
