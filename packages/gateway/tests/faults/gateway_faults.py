"""What is planted into the gateway: each gets what it replaces, and gives what is there instead."""

import asyncio
import functools
import itertools
import math
import operator
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, model_validator
from uvicorn.protocols.http.h11_impl import H11Protocol

from dptext.runs.payment import Payment
from dptext.sampling.randomness import secure
from dptext_gateway.answers import Attempt, Stored
from dptext_gateway.jobs import charge_key
from dptext_gateway.problems import Problem
from dptext_gateway.store import ANSWERS, JOBS, Event

Function = Callable[..., Any]
Maker = Callable[[Function], Function]


# Of any place.


def itself(real: Any) -> Any:
    """No fault."""
    return real


def called_otherwise(_: object) -> Function:
    """It takes what nobody gives: the place is another than the maker knew."""
    return lambda: None


def nothing(_: object) -> Function:
    """It does nothing."""
    return lambda *_, **__: None


def never(_: object) -> Function:
    """It is never so."""
    return lambda *_, **__: False


def always(_: object) -> Function:
    """It is always so."""
    return lambda *_, **__: True


def zero(_: object) -> Function:
    """It is always 0."""
    return lambda *_: 0


def nothing_later(_: object) -> Function:
    """It does nothing, and is waited for."""

    async def done(*_: object, **__: object) -> None:
        pass

    return done


def the_same(_: object) -> Function:
    """It gives what it gets."""
    return lambda given: given


def no_end(_: object) -> int:
    """A number that nobody reaches."""
    return 10**9


def none(_: object) -> tuple[()]:
    """There are none."""
    return ()


def _with(module: ModuleType, **others: object) -> SimpleNamespace:
    """A module in which some names mean something else."""
    return SimpleNamespace(**{**vars(module), **others})


def _without(name: str) -> Maker:
    """What it gives lacks a name."""
    return lambda real: lambda *given: {each: value for each, value in real(*given).items() if each != name}


def _of_rows(column: str, **values: object) -> Maker:
    """Rows of the table that has this column come with other values."""

    def maker(real: Function) -> Function:
        def one(*given: object) -> Any:
            row = real(*given)
            there = row is not None and column in row._mapping
            return SimpleNamespace(**{**row._mapping, **values}) if there else row

        return one

    return maker


def _with_settings(**values: object) -> Maker:
    """What is made of settings, which come first, is made of others."""
    return lambda real: lambda made, settings, *given: real(made, replace(settings, **values), *given)


# Of charges and answers.


def one_charge(_: object) -> Function:
    """All answers are charged and settled under one key."""
    return lambda _: "the same"


def an_attempt_a_charge(real: Function) -> Function:
    """Each attempt at an answer is charged under a key of its own."""
    return lambda name: f"{real(name)} {secrets.token_hex(4)}"


class _Late:
    """A charge that is paid when somebody looks at it."""

    def __init__(self, pay: Callable[[], object]) -> None:
        self._paid = functools.cache(pay)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._paid(), name)


def paid_late(real: Function) -> Function:
    """An answer is charged when its charge is looked at, which is after the draw."""
    return lambda *given: _Late(functools.partial(real, *given))


#: No answer is stored yet.
unanswered = _of_rows("answer", answer=None)


def one_payload(real: Function) -> Function:
    """All payloads are one."""
    return lambda secret, purpose, *parts: real(secret, purpose, *(() if purpose == "payload" else parts))


def every_lease(_: object) -> Function:
    """No lease holds."""
    return lambda *_: sa.true()


def leases_by_the_clock(_: object) -> Function:
    """A lease holds until the clock says that it is over, however long that is."""
    return lambda now, _: ANSWERS.c.lease < now


def its_own_draw(real: Function) -> Function:
    """An attempt answers with what it drew, whatever another one has stored."""

    def store(attempt: Attempt, answer: bytes, result_sha256: str, event: Event) -> Stored:
        real(attempt, answer, result_sha256, event)
        return Stored(attempt.name, answer, result_sha256)

    return store


def held_again(real: Function) -> Function:
    """An attempt that was freed is held again."""

    def renew(attempt: Attempt) -> None:
        attempt.answers.store.write(ANSWERS.update().where(attempt._mine()).values(lease=1.0))
        real(attempt)

    return renew


def read_anew(real: Function) -> Function:
    """A model is what lies there now."""

    def found(models: Any, name: str) -> object:
        models._known.pop(name, None)
        return real(models, name)

    return found


def one_mark(_: object) -> Function:
    """All models are one."""
    return lambda *_: "the same"


def all_models(_: object) -> Function:
    """One model that cannot be told of fails the list of all."""
    return lambda models, names: [models.told(name) for name in names]


def noted_later(_: object) -> Function:
    """The line of the audit log is written after what it tells of, in a transaction of its own."""

    def change(store: Any, statement: Any, event: Event, *more: Any) -> bool:
        changed: bool = store.write(statement) > 0
        if changed:
            store.write(*more, sa.select(1))
            store.note(event)
        return changed

    return change


# Of secrets, keys and accounts.


def as_it_is(_: object) -> Function:
    """Nothing is sealed."""
    return lambda _, data, __: data


def keys_as_they_are(real: Function) -> Function:
    """The digest of a key is the key."""
    return lambda secret, purpose, *parts: parts[0].decode() if purpose == "key" else real(secret, purpose, *parts)


def letter_by_letter(real: ModuleType) -> SimpleNamespace:
    """Digests are compared as strings are."""
    return _with(real, compare_digest=operator.eq)


def one_purpose(real: Function) -> Function:
    """One key is for all purposes."""
    return lambda secret, _: real(secret, "")


def _without_the_account(purpose: str) -> Maker:
    """Names for one purpose are the same for all accounts, which come first in them."""
    return lambda real: lambda secret, what, *parts: real(secret, what, *parts[what == purpose :])


#: An idempotency key names one answer for all accounts.
answers_of_no_account = _without_the_account("answer")
#: An idempotency key names one job for all accounts.
jobs_of_no_account = _without_the_account("job")
#: No key was revoked.
never_revoked = _of_rows("revoked", revoked=None)
#: No key expires.
without_expiry = _of_rows("revoked", expires=None)
#: A key may use every model.
of_every_model = _of_rows("revoked", models="")
#: A key was made so long ago that it lasts for ever.
made_long_ago = _of_rows("revoked", created=-math.inf)


def every_event(real: Function) -> Function:
    """The audit log of an account is that of all."""
    return lambda store, _, *given: real(store, None, *given)


def numbered_events(_: object) -> Function:
    """The lines of the audit log that an account sees have their numbers."""
    return lambda gate, key, last, before: gate.store.events(
        None if "admin" in key.scopes else key.account or "", last, before
    )


def looked_for_once(real: Function) -> Function:
    """A key that was found once holds for ever."""
    return functools.cache(real)


def never_the_same(real: Function) -> Function:
    """Each look at a job finds something new."""
    looks = itertools.count()
    return lambda *given: {**real(*given), "looks": next(looks)}


# Of the routes.


def _also_privatize(*asked: str) -> Maker:
    """Where these scopes are asked for, "privatize" will do, too."""
    return lambda real: lambda *scopes: real(*scopes, "privatize") if scopes == asked else real(*scopes)


#: Who may privatize a few records may send files.
jobs_or_privatize = _also_privatize("jobs")
#: Who may privatize a few records may synthesize.
synthesize_or_privatize = _also_privatize("synthesize")


def charging(real: Function) -> Function:
    """To write from a summary is charged as the summary was."""

    def packed(gate: Any, id: str, key: Any, *more: Any) -> Any:
        spec, number = gate.models.spec(gate.jobs.row(id).model), secrets.token_hex(8)
        Payment(gate.ledger, key.account, number).due(spec, randomness=secure()).charge(number, None)
        return real(gate, id, key, *more)

    return packed


def naming_the_spool(real: Function) -> Function:
    """An error of writing names the folder."""

    def packed(gate: Any, *more: Any) -> Any:
        try:
            return real(gate, *more)
        except Problem as error:
            raise Problem(error.status, error.kind, f"{gate.settings.spool}: {error.detail}") from None

    return packed


def written_alike(real: Function) -> Function:
    """Each corpus from a summary has the same choices."""
    return lambda *given, **named: real(*given, **named, seed=0)


def no_scheme(_: object) -> Function:
    """What tells the description of the routes of a key is no scheme of security."""
    return lambda: None


def the_input(real: Function) -> Function:
    """An error that pydantic found tells what was sent as its type."""
    return lambda error: [{**each, "type": str(each["input"])} for each in real(error)]


def with_any_field(real: type[BaseModel]) -> type[BaseModel]:
    """A body of records may have fields that nobody knows."""

    class Loose(real):
        model_config = ConfigDict(extra="ignore")

        @model_validator(mode="before")
        @classmethod
        def known(cls, given: Any) -> Any:
            return given

    return Loose


def every_parameter(real: Function) -> Function:
    """A route knows every parameter that it gets."""
    return lambda request: real(request) | set(request.query_params)


def there_as_well(real: Function) -> Function:
    """A model has to be there, even for an answer that is stored."""

    def permitted(gate: Any, key: object, model: str) -> None:
        real(gate, key, model)
        gate.models.path(model)

    return permitted


def from_every_page(real: Function) -> Function:
    """Pages of every origin may ask."""
    return lambda app, **named: real(app, **{**named, "allow_origins": ["*"]})


def without_patience(real: ModuleType) -> SimpleNamespace:
    """What is waited for may take as long as it likes."""
    return _with(real, timeout=lambda _: asyncio.timeout(None), wait_for=lambda asked, _: asked)


# Of what stands before the routes.


def no_policy(real: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The headers of each answer without the policy of content."""
    return {name: value for name, value in real.items() if name != b"content-security-policy"}


def no_headers(_: object) -> dict[bytes, bytes]:
    """No answer has headers of its own."""
    return {}


def told_in_the_log(real: Any) -> SimpleNamespace:
    """The log of a failure has the error with its message."""
    return SimpleNamespace(error=functools.partial(real.error, exc_info=True))


def _unread(header: bytes) -> Maker:
    """A header is not seen where the headers of a body are checked."""

    def maker(real: Function) -> Function:
        def check(body: Any) -> None:
            body.headers.pop(header, None)
            real(body)

        return check

    return maker


#: Packed bodies are taken.
packed = _unread(b"content-encoding")
#: A body may have a length and chunks.
two_lengths = _unread(b"content-length")


def _having(**values: object) -> Maker:
    """What is made has other attributes."""

    def maker(real: Function) -> Function:
        def init(made: object, *given: object, **named: object) -> None:
            real(made, *given, **named)
            for name, value in values.items():
                getattr(made, name)  # it is there
                setattr(made, name, value)

        return init

    return maker


#: No header is there twice.
headers_twice = _having(_twice=False)
#: A body as a whole has no deadline.
no_deadline = _having(_end=math.inf)
#: A body in chunks is not counted.
unchunked = _having(_chunked=False)


class _Growing(Counter[str]):
    """Counts that never go down."""

    def __setitem__(self, name: str, value: int) -> None:
        super().__setitem__(name, max(value, self[name]))


#: A request is in flight for ever.
in_flight_for_ever = _having(_busy=_Growing())
#: No turn is later than another.
last_of_all = _having(_number=itertools.repeat(0))


def uncounted(real: Function) -> Function:
    """The bytes of a body that came before do not count."""

    async def receive(body: Any) -> object:
        body._seen = -math.inf
        return await real(body)

    return receive


def unpadded(real: Function) -> Function:
    """An answer is not filled up."""
    return lambda padding, send, settings, began: real(padding, send, replace(settings, pad_bytes=0), began)


def read_first(real: Function) -> Function:
    """A body is read before anybody looks for its key."""

    @asynccontextmanager
    async def admitted(guard: object, scope: object, body: Any, *, upload: bool) -> AsyncIterator[None]:
        await body.read()
        body.read = nothing_later(None)  # a second time there is nothing to read
        async with real(guard, scope, body, upload=upload):
            yield

    return admitted


def kept_open(real: Function) -> Function:
    """No answer says that its connection is closed."""

    def init(answer: object, send: Function, body: object) -> None:
        async def sent(message: dict[str, Any]) -> None:
            if "headers" in message:
                message["headers"] = [each for each in message["headers"] if each[0] != b"connection"]
            await send(message)

        real(answer, sent, body)

    return init


def any_number_at_once(real: Function) -> Function:
    """A key may have any number of requests in flight."""

    def init(guard: object, app: object, gate: Any) -> None:
        gate.settings = replace(gate.settings, requests_at_once=10**9)
        real(guard, app, gate)

    return init


def idle_ones_stay(real: Function) -> Function:
    """A connection that comes ends no other."""

    def connection_made(connection: Any, transport: object) -> None:
        most, connection.limit_concurrency = connection.limit_concurrency, None
        real(connection, transport)
        connection.limit_concurrency = most

    return connection_made


def ended_in_any_case(_: object) -> Function:
    """A connection ends after a while, whatever it waits for."""
    return lambda connection: connection.end()


def refused_in_the_middle(_: object) -> Function:
    """Bytes that are no request are answered, whatever is under way."""
    return H11Protocol.send_400_response


# Of rates, room and turns.


def no_bytes(real: Function) -> Function:
    """The bytes of a request do not count."""
    return lambda rates, who, _, *, requests=0: real(rates, who, 0, requests=requests)


#: The spool has as much room as may be set.
endless_spool = _with_settings(spool_bytes=10**12)


def whole_spool(real: Function) -> Function:
    """One key may have the whole spool."""
    return lambda space, settings, store: real(space, replace(settings, spool_bytes_of_key=settings.spool_bytes), store)


def counted_again(real: Function) -> Function:
    """What is sent again counts as what is new."""
    return lambda space, who, size, **_: real(space, who, size, again=False)


def no_need(_: object) -> float:
    """Any disk has enough room."""
    return -math.inf


def no_such_errors(_: object) -> SimpleNamespace:
    """No error of the system says that the disk is full."""
    return SimpleNamespace(ENOSPC=-1, EDQUOT=-1)


def any_number_draw(real: Function) -> Function:
    """Any number draw at once."""
    return lambda turns, _: real(turns, 10**9)


def left_alone(_: object) -> Function:
    """A call that leaves as its turn comes takes the turn along."""
    return lambda _, own: own.cancel()


# Of jobs.


def clock(_: object) -> Function:
    """What the clock says now."""
    return lambda *_: time.time()


#: A job that ends has the time to expire that it had before.
without_an_end = _without("expires")
#: A text of a job may have any length.
of_any_length = _without("max_characters")


def found_by_all(real: Function) -> Function:
    """A job is found by keys of every account."""

    def own_row(jobs: Any, name: str, key: Any, *, admin: bool = False) -> object:
        row = jobs.row(name)
        return real(jobs, name, key if row is None else replace(key, account=row.account), admin=admin)

    return own_row


def found_by_administrators(real: Function) -> Function:
    """A job is found by administrators, whatever they ask of it."""
    return lambda jobs, name, key, **_: real(jobs, name, key, admin=True)


def of_every_kind(_: object) -> Function:
    """A key may see jobs of every kind."""
    return lambda _: ["privatize", "synthesize"]


def as_stored(_: object) -> Function:
    """The state of a job is what is stored, although its time is over."""
    return lambda row: str(row.state)


def for_others_to_read(real: Function) -> Function:
    """The folder of an upload can be read by others."""

    def spool(jobs: object) -> Path:
        folder: Path = real(jobs)
        folder.chmod(0o755)
        return folder

    return spool


def opened_for_all(_: object) -> Function:
    """A private file is made as any other."""
    return lambda path: path.open("wb")


def flushed(_: object) -> Function:
    """A file is with the system, and not on the disk."""
    return lambda file: file.flush()


def begun_by_nobody(real: Function) -> Function:
    """It is forgotten that another gateway began a job that is sent here, too."""

    def queue(jobs: Any, key: object, idempotency_key: str, *given: object) -> object:
        name = jobs._name(key, idempotency_key)
        jobs.store.write(JOBS.update().where(JOBS.c.id == name).values(not_before=0.0))
        return real(jobs, key, idempotency_key, *given)

    return queue


def not_done_for_ever(real: Function) -> Function:
    """A job that has ended without a result is said to be in flight."""

    def file(*given: object) -> object:
        try:
            return real(*given)
        except Problem as problem:
            raise (Problem(409, "not-done", problem.detail) if problem.status == 410 else problem) from None

    return file


def with_a_label(real: Function) -> Function:
    """Every file is taken for one with labels."""
    return lambda gate, key, wish: real(gate, key, replace(wish, label_field="label"))


def all_but_the_input(real: Function) -> Function:
    """Files named "input" are not deleted."""
    return lambda path, **named: None if path.name == "input" else real(path, **named)


def settled_at_once(real: Function) -> Function:
    """A synthesis is settled as soon as it is drawn."""
    return lambda *given, **named: real(*given, **{**named, "settled": True})


def charged_first(real: Function) -> Function:
    """A job is charged before its file is read."""

    def done(worker: Any, row: Any) -> object:
        jobs = worker._jobs
        due = Payment(jobs.ledger, row.account).due(jobs.models.spec(row.model), randomness=secure())
        due.charge(charge_key(row.id), None)
        return real(worker, row)

    return done


def as_they_come(_: object) -> Function:
    """Jobs are run as they come."""
    return lambda _, rows: list(rows)


def queued_again(real: Function) -> Function:
    """A job that is put off is queued again, although it was cancelled."""

    def put_off(worker: Any, row: Any, why: str) -> None:
        real(worker, row, why)
        worker._store.write(JOBS.update().where(JOBS.c.id == row.id).values(state="queued"))

    return put_off


def for_any_time(real: Function) -> Function:
    """A job may run for any time."""

    def watch(worker: Any, row: object) -> object:
        worker._settings = replace(worker._settings, job_seconds=1e9)
        return real(worker, row)

    return watch


def with_no_job_at_hand(real: Function) -> Function:
    """A gateway that stops has no job at hand."""

    def close(worker: Any) -> None:
        worker._at_hand = ""
        real(worker)

    return close


def no_removal(_: object) -> SimpleNamespace:
    """No folder is deleted."""
    return SimpleNamespace(rmtree=nothing(None))
