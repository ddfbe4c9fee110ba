"""The routes of the gateway: `create_app(settings)` is an ASGI application."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import generate_latest

from dptext.errors import DPTextError
from dptext.ledger.entries import format_left, spent_epsilon
from dptext.mechanism import Mechanism
from dptext.privacy.guarantee import Guarantee, Relation, Unit, format_epsilon
from dptext.types import Json
from dptext.version import __version__
from dptext_gateway import problems
from dptext_gateway.answers import Attempt, Stored, usable
from dptext_gateway.gateway import Gateway, asking, known, once
from dptext_gateway.guarding import Guard
from dptext_gateway.job_routes import add_asking, add_jobs
from dptext_gateway.keys import RELEASING, SCOPES, Key
from dptext_gateway.metrics import span
from dptext_gateway.problems import Problem
from dptext_gateway.schemas import (
    FIELDS,
    IDEMPOTENT,
    KEYED,
    NAMED,
    AccountBalance,
    Answer,
    Cost,
    IdempotencyKey,
    KeyTold,
    Log,
    ModelTold,
    Noted,
    Opening,
    Question,
    Records,
    refusals,
)
from dptext_gateway.settings import Settings
from dptext_gateway.store import Event
from dptext_gateway.summary_routes import add_summaries
from dptext_gateway.work import Wanted, cost, released, settled

PAGE: Final = Path(__file__).parent / "page"
_WAITED: Final = 5  # seconds until a call that had no turn asks again
PROBE_SECONDS: Final = 5.0  # seconds until a ledger that says nothing counts as away


def create_app(settings: Settings) -> FastAPI:
    """The gateway as an ASGI application. LedgerError: there is no ledger; ConfigError: a setting cannot be used."""
    gate = Gateway(settings)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        gate.worker.start()
        yield
        gate.worker.close()
        gate.store.close()
        gate.ledger.close()

    untold: Any = {"tracing": False, "metrics": False, "logs": False}  # they have messages of exceptions, and queries
    app = FastAPI(
        dependencies=[Depends(known), Depends(once)],
        title="dptext gateway",
        version=__version__,
        lifespan=living,
        docs_url=None,
        redoc_url=None,
        telemetry=untold,
    )
    app.state.gate = gate
    problems.install(app, FIELDS)
    _models(app, gate)
    _releases(app, gate)
    add_asking(app, gate)
    add_jobs(app, gate)
    add_summaries(app, gate)
    _accounts(app, gate)
    _health(app, gate)
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    app.add_middleware(Guard, gate=gate)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key"),
            expose_headers=("Idempotent-Replayed", "Location", "Retry-After"),
        )
    return app


def _models(app: FastAPI, gate: Gateway) -> None:
    @app.get("/v1/key", response_model=KeyTold, responses=KEYED)
    def own(key: Annotated[Key, asking(*SCOPES)]) -> dict[str, Any]:
        """Show this key: its name, account, unit of the account, scopes and largest file."""
        unit = None if key.account is None else gate.ledger.account(key.account).limit.unit.value
        told = {"name": key.name, "account": key.account, "unit": unit, "scopes": sorted(key.scopes)}
        return {**told, "max_file": gate.settings.max_file}

    @app.get("/v1/models", response_model=list[ModelTold], responses=KEYED)
    def models(key: Annotated[Key, asking(*RELEASING)]) -> list[dict[str, Any]]:
        """The models that this key may use, in words and data."""
        names = [name for name in gate.models.names() if not key.models or name in key.models]
        return gate.models.usable(names)

    @app.get("/v1/models/{name}", response_model=ModelTold, responses=NAMED)
    def model(name: str, key: Annotated[Key, asking(*RELEASING)]) -> dict[str, Any]:
        """One model."""
        return gate.models.told(gate.allowed(key, name))

    @app.post("/v1/models/{name}/explain", response_model=ModelTold, responses=NAMED)
    def explain(name: str, question: Question, key: Annotated[Key, asking(*RELEASING)]) -> dict[str, Any]:
        """The guarantee of one model for a unit, at a delta."""
        return gate.models.told(gate.allowed(key, name), unit=question.unit, delta=question.delta)


def _releases(app: FastAPI, gate: Gateway) -> None:
    def again(name: str, key: Key, found: Stored) -> Response:
        settled(gate.ledger, key, found)
        gate.store.note(Event(key.who, "answer given again", key.account, name, None, found.result_sha256))
        return Response(found.answer, 200, {"Idempotent-Replayed": "true"}, "application/json")

    def checked(name: str, body: Records, key: Key, attempt: Attempt) -> Wanted:
        try:
            gate.models.path(name)
            gate.require_payer(key)
            if (most := gate.settings.max_records) < len(body.records):
                raise Problem(413, "too-many", f"Expected at most {most:,} records; more are a job.")
            return body.wanted()
        except Exception:
            attempt.give_up()
            raise

    @app.get("/v1/models/{name}/cost", response_model=Cost, responses=NAMED)
    def price(
        name: str,
        key: Annotated[Key, asking(*RELEASING)],
        max_per_author: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    ) -> dict[str, Any]:
        """The cost of one release by a model, for a few records or a file; nothing is charged or drawn."""
        gate.require_payer(key)
        return cost(gate.ledger, key, gate.models.spec(gate.allowed(key, name)), max_per_author)

    @app.post(
        "/v1/models/{name}/privatize",
        response_model=Answer,
        responses={**NAMED, **refusals(400, 409, 410)},
        openapi_extra=IDEMPOTENT,
    )
    async def privatize(
        name: str,
        body: Records,
        request: Request,
        key: Annotated[Key, asking("privatize")],
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Privatize a few records at once. The same key and payload give the same answer again.

        A charge to an account per document pays for one release of each document: a text that is there twice, in
        normal form, is refused (`equal-texts`). Records of an author have the public maximum `max_per_author`.
        """
        gate.permitted(key, name)
        usable(idempotency_key)
        payload = name.encode() + b"\0" + await request.body()
        found = await run_in_threadpool(gate.answers.attempt, key, idempotency_key, payload)
        if isinstance(found, Stored):  # paid for: model and limits may have changed since
            return await run_in_threadpool(again, name, key, found)
        wanted = await run_in_threadpool(checked, name, body, key, found)
        with span("privatize", model=name):
            async with found.alive(), _turn(gate, found, key, name) as (mechanism, turn):
                stored = await run_in_threadpool(released, gate.ledger, key, name, mechanism, wanted, found, turn)
        gate.counts.released.labels(name).inc()
        return Response(stored.answer, 200, {}, "application/json")


@asynccontextmanager
async def _turn(
    gate: Gateway, attempt: Attempt, key: Key, name: str
) -> AsyncIterator[tuple[Mechanism[str], ExitStack]]:
    """Wait without a thread for the model and a turn. An attempt that waits too long is given up, uncharged."""
    try:
        async with asyncio.timeout(gate.settings.seconds):
            mechanism = await gate.models.ready(name)
            turn = await gate.turns.take(key.account or "")
    except Exception as error:
        await run_in_threadpool(attempt.give_up)
        if isinstance(error, TimeoutError):
            said = "Its turn did not come in time. This call charged nothing: ask again."
            raise Problem(503, "waiting", said, retry_after=_WAITED) from None
        raise
    with turn:
        yield mechanism, turn


def _accounts(app: FastAPI, gate: Gateway) -> None:
    def told(name: str) -> dict[str, Json]:
        found = gate.ledger.balance(name)
        limit = found.account.limit
        return {
            "name": found.account.name,
            "dataset": found.account.dataset,
            "unit": limit.unit.value,
            "relation": limit.relation.value,
            "epsilon": limit.epsilon,
            "delta": limit.delta,
            "spent": format_epsilon(found.spent.epsilon),
            "left": format_left(found.left),
            "charges": found.charges,
        }

    def own(key: Key, name: str) -> str:
        if not key.sees(name):
            raise Problem(404, "no-account", "There is no such account, or this key may not see it.")
        if all(each.name != name for each in gate.ledger.accounts()):
            raise Problem(404, "no-account", "There is no such account, or this key may not see it.")
        return name

    @app.get("/v1/accounts", response_model=list[AccountBalance], responses=KEYED)
    def accounts(key: Annotated[Key, asking("accounts")]) -> list[dict[str, Any]]:
        """The accounts that this key may see: all for administrators, else the account that the key charges."""
        names = [each.name for each in gate.ledger.accounts()]
        return [told(name) for name in names if key.sees(name)]

    @app.get("/v1/accounts/{name:path}", response_model=Log, responses=NAMED)
    def account(name: str, key: Annotated[Key, asking("accounts")]) -> dict[str, Any]:
        """One account, with its last charges."""
        limit = gate.ledger.account(own(key, name)).limit
        log: list[Json] = [
            {
                "number": each.number,
                "at": each.at,
                "kind": str(each.request.settings.get("kind")),
                "epsilon": format_epsilon(spent_epsilon(each.request.events, limit)),
                "release_mark": each.release,
            }
            for each in gate.ledger.log(name, last=100)
        ]
        return {**told(name), "log": log[::-1]}

    @app.get("/v1/events", response_model=list[Noted], responses=KEYED)
    def events(
        key: Annotated[Key, asking("accounts")],
        last: Annotated[int, Query(ge=1, le=1000)] = 100,
        before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    ) -> Any:
        """The audit log, newest lines first; administrators can ask for lines before a number."""
        return _events_for(gate, key, last, before)

    @app.post("/v1/accounts", status_code=201, response_model=AccountBalance, responses=KEYED)
    def open_account(body: Opening, key: Annotated[Key, asking("admin")]) -> dict[str, Any]:
        """Open an account. Its limit never changes."""
        if body.unit not in ("document", "author") or body.relation not in ("replace_one", "add_or_remove_one"):
            raise Problem(422, "unit", "Expected unit document or author, relation replace_one or add_or_remove_one.")
        limit = Guarantee(body.epsilon, body.delta, Unit(body.unit), Relation(body.relation))
        gate.ledger.open_account(body.name, limit, dataset=body.dataset)
        gate.store.note(Event(key.who, "account opened", body.name))
        return told(body.name)


def _events_for(gate: Gateway, key: Key, last: int, before: int | None) -> list[dict[str, Json]]:
    """The lines of the audit log that a key may see. Only administrators see numbers, which count all accounts."""
    if "admin" in key.scopes:
        return gate.store.events(None, last, before)
    if before is not None:
        raise Problem(403, "scope", "Expected a key with the scope admin: numbers count events of all accounts.")
    return [each | {"number": None} for each in gate.store.events(key.account or "", last)]


def _health(app: FastAPI, gate: Gateway) -> None:
    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    probing = ThreadPoolExecutor(1, "probe")  # callers need no key, so they get no other thread

    @app.get("/readyz", responses=refusals(503))
    async def ready() -> dict[str, str]:
        """Whether the ledger answers, key file, spool and models are there, and jobs run."""
        asked = asyncio.get_running_loop().run_in_executor(probing, gate.require_ready)
        try:
            await asyncio.wait_for(asked, PROBE_SECONDS)
        except (DPTextError, TimeoutError):
            raise Problem(503, "ledger", "The ledger does not answer.", retry_after=5) from None
        if not gate.worker.alive:
            raise Problem(503, "jobs", "The thread of jobs has ended: start the gateway again.")
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse, responses=KEYED)
    def metrics(_: Annotated[Key, asking("metrics")]) -> Response:
        """Counts for Prometheus."""
        for state, number in gate.jobs.open().items():
            gate.counts.jobs.labels(state).set(number)
        return Response(generate_latest(gate.counts.registry), media_type="text/plain; version=0.0.4")
