"""The routes of the gateway: `create_app(settings)` is an ASGI application."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from opentelemetry import trace
from prometheus_client import generate_latest
from pydantic import BaseModel, ConfigDict, Field

from dptext.errors import DPTextError
from dptext.ledger.books import Ledger
from dptext.ledger.spending import format_left
from dptext.privacy.guarantee import Guarantee, Relation, Unit, format_epsilon
from dptext.service import problems
from dptext.service.answers import Answers, Stored, usable
from dptext.service.guarding import Counts, Guard, Rates
from dptext.service.jobs import FORMATS, Jobs, Wish
from dptext.service.keys import Key, Keys
from dptext.service.problems import Problem
from dptext.service.settings import Secret, Settings
from dptext.service.store import Event, Store
from dptext.service.work import Models, Wanted, cost, released, settled
from dptext.synthesis.spec import SynthesisSpec
from dptext.text.files import create_private
from dptext.text.formats import Format
from dptext.types import Json
from dptext.version import __version__

PAGE: Final = Path(__file__).parent / "page"
_TRACER: Final = trace.get_tracer("dptext.service")
_LONGEST: Final = 200
_KINDS: Final = {
    Format.JSONL: "application/jsonl",
    Format.CSV: "text/csv",
    Format.PARQUET: "application/vnd.apache.parquet",
}


class Row(BaseModel):
    """A private record."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str
    id: str | None = None
    label: str | None = None
    author: str | None = None


class Records(BaseModel):
    """A few private records."""

    model_config = ConfigDict(extra="forbid", strict=True)
    records: list[Row] = Field(min_length=1)
    max_per_author: int | None = Field(None, ge=1, le=1_000_000)
    delta: float = Field(0.0, ge=0, lt=1)

    def wanted(self) -> Wanted:
        """The same without what was left out."""
        rows = [each.model_dump(exclude_none=True) for each in self.records]
        return Wanted(rows, self.max_per_author, self.delta)


class Question(BaseModel):
    """Of which unit, at which delta."""

    model_config = ConfigDict(extra="forbid", strict=True)
    unit: str | None = None
    delta: float = Field(0.0, ge=0, lt=1)


class Opening(BaseModel):
    """A new account."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = Field(min_length=1, max_length=_LONGEST)
    epsilon: float = Field(gt=0, le=1e6)
    delta: float = Field(0.0, ge=0, lt=1)
    unit: str = "document"
    relation: str = "replace_one"
    dataset: str | None = Field(None, min_length=1, max_length=_LONGEST)


class Gateway:
    """What the routes share."""

    def __init__(self, settings: Settings) -> None:
        secret = Secret.at(settings.key_file)
        self.settings = settings
        self.ledger = Ledger.at(settings.ledger)
        self.store = Store(settings.ledger)
        self.keys = Keys(self.store, secret)
        self.answers = Answers(self.store, secret, settings.seconds, settings.kept_hours * 3_600)
        self.models = Models(settings.models)
        self.jobs = Jobs(settings, self.store, secret, self.ledger, self.models)
        self.rates = Rates(settings.requests_a_minute, settings.bytes_a_minute)
        self.counts = Counts()
        self.computing = asyncio.Semaphore(settings.threads)

    def key(self, request: Request, scope: str) -> Key:
        """Who asks, who must have this scope; a Problem for anybody else."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        found = self.keys.find(given.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise Problem(401, "unauthorized", "Expected the header Authorization: Bearer KEY, with a key that holds.")
        length = request.headers.get("content-length", "0")
        wait = self.rates.wait(found.prefix, int(length) if length.isdigit() else 0)
        if wait:
            raise Problem(429, "rate", "This key has asked too much in this minute.", retry_after=wait)
        if not found.may(scope):
            raise Problem(403, "scope", f"Expected a key with the scope {scope}.")
        return found

    def allowed(self, key: Key, model: str) -> str:
        """The name of a model that a key may use."""
        if key.models and model not in key.models:
            raise Problem(404, "no-model", "There is no such model, or this key may not use it.")
        self.models.path(model)
        return model


def create_app(settings: Settings) -> FastAPI:
    """The gateway as an ASGI application. LedgerError: there is no ledger; ConfigError: a setting cannot be used."""
    gate = Gateway(settings)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        gate.answers.sweep()
        gate.jobs.start()
        yield
        gate.jobs.close()
        gate.store.close()
        gate.ledger.close()

    app = FastAPI(title="dptext gateway", version=__version__, lifespan=living, docs_url=None, redoc_url=None)
    app.state.gate = gate
    problems.install(app)
    _models(app, gate)
    _releases(app, gate)
    _jobs(app, gate)
    _accounts(app, gate)
    _health(app, gate)
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    app.add_middleware(Guard, settings=settings, counts=gate.counts)
    return app


def _as(gate: Gateway, scope: str) -> Any:
    """The key of a request, with this scope."""

    def key(request: Request) -> Key:
        return gate.key(request, scope)

    return Depends(key)


def _models(app: FastAPI, gate: Gateway) -> None:
    @app.get("/v1/models")
    def models(key: Annotated[Key, _as(gate, "privatize")]) -> list[dict[str, Any]]:
        """The models that this key may use, in words and data."""
        names = [name for name in gate.models.names() if not key.models or name in key.models]
        return [gate.models.told(name) for name in names]

    @app.get("/v1/models/{name}")
    def model(name: str, key: Annotated[Key, _as(gate, "privatize")]) -> dict[str, Any]:
        """One model."""
        return gate.models.told(gate.allowed(key, name))

    @app.post("/v1/models/{name}/explain")
    def explain(name: str, question: Question, key: Annotated[Key, _as(gate, "privatize")]) -> dict[str, Any]:
        """What one model guarantees for a unit, at a delta."""
        return gate.models.told(gate.allowed(key, name), unit=question.unit, delta=question.delta)


def _releases(app: FastAPI, gate: Gateway) -> None:
    def checked(name: str, body: Records, key: Key) -> Wanted:
        gate.allowed(key, name)
        if len(body.records) > gate.settings.max_records:
            raise Problem(413, "too-many", f"Expected at most {gate.settings.max_records:,} records; more are a job.")
        return body.wanted()

    @app.post("/v1/models/{name}/cost")
    def price(name: str, body: Records, key: Annotated[Key, _as(gate, "privatize")]) -> dict[str, Any]:
        """What a release of these records would cost; nothing is charged or drawn."""
        return cost(gate.ledger, key, gate.models.loaded(name), checked(name, body, key))

    @app.post("/v1/models/{name}/privatize")
    async def privatize(
        name: str,
        body: Records,
        request: Request,
        key: Annotated[Key, _as(gate, "privatize")],
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Privatize a few records at once. The same key and payload give the same answer again."""
        wanted = checked(name, body, key)
        payload = name.encode() + b"\0" + await request.body()

        def release() -> tuple[Stored, bool]:
            with _TRACER.start_as_current_span("privatize", attributes={"model": name}):
                found = gate.answers.attempt(key, idempotency_key, payload)
                if isinstance(found, Stored):
                    settled(gate.ledger, key, found)
                    return found, True
                return released(gate.ledger, gate.store, key, name, gate.models.loaded(name), wanted, found), False

        usable(idempotency_key)
        async with gate.computing:
            stored, again = await run_in_threadpool(release)
        if not again:
            gate.counts.released.labels(name).inc()
        headers = {"Idempotent-Replayed": "true"} if again else {}
        return Response(stored.answer, 200, headers, "application/json")


def _jobs(app: FastAPI, gate: Gateway) -> None:
    async def queued(request: Request, key: Key, idempotency_key: str | None, wish: Wish) -> Response:
        name = usable(idempotency_key)
        gate.allowed(key, wish.model)
        if isinstance(gate.models.spec(wish.model), SynthesisSpec) != (wish.kind == "synthesize"):
            raise Problem(422, "synthesis", "A synthesis is asked for by POST /v1/synthesize, all else by /v1/jobs.")
        if wish.format not in FORMATS:
            raise Problem(415, "format", f"Expected a file in {', '.join(FORMATS)}.")
        folder = gate.jobs.spool()
        try:
            digest = hashlib.sha256()
            with create_private(folder / "input") as file:
                async for block in request.stream():
                    digest.update(block)
                    file.write(block)
            job, new = await run_in_threadpool(gate.jobs.queue, key, name, wish, folder, digest.hexdigest())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return JSONResponse(gate.jobs.told(job, key), 202 if new else 200, {"Location": f"/v1/jobs/{job}"})

    def wish_of(kind: str, query: Any) -> Wish:
        try:
            return Wish(kind, **{**query, "format": Format(query["format"])})
        except ValueError:
            raise Problem(415, "format", f"Expected format among {', '.join(FORMATS)}.") from None

    @app.post("/v1/jobs", status_code=202)
    async def job(
        request: Request,
        model: str,
        key: Annotated[Key, _as(gate, "jobs")],
        format: str = "jsonl",
        text_field: Annotated[str, Query(min_length=1, max_length=_LONGEST)] = "text",
        id_field: Annotated[str | None, Query(min_length=1, max_length=_LONGEST)] = None,
        label_field: Annotated[str | None, Query(min_length=1, max_length=_LONGEST)] = None,
        author_field: Annotated[str | None, Query(min_length=1, max_length=_LONGEST)] = None,
        max_per_author: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
        delta: Annotated[float, Query(ge=0, lt=1)] = 0.0,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Privatize a file, which is the body. It is done later: ask for the job."""
        names = ("model", "format", "text_field", "id_field", "label_field", "author_field", "max_per_author", "delta")
        given = locals()
        return await queued(request, key, idempotency_key, wish_of("privatize", {each: given[each] for each in names}))

    @app.post("/v1/synthesize", status_code=202)
    async def synthesize(
        request: Request,
        model: str,
        key: Annotated[Key, _as(gate, "synthesize")],
        format: str = "jsonl",
        text_field: Annotated[str, Query(min_length=1, max_length=_LONGEST)] = "text",
        label_field: Annotated[str | None, Query(min_length=1, max_length=_LONGEST)] = None,
        author_field: Annotated[str | None, Query(min_length=1, max_length=_LONGEST)] = None,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Write a synthetic corpus for a private one, which is the body."""
        names = ("model", "format", "text_field", "label_field", "author_field")
        given = locals()
        return await queued(request, key, idempotency_key, wish_of("synthesize", {each: given[each] for each in names}))

    @app.get("/v1/jobs/{name}")
    def one(name: str, key: Annotated[Key, _as(gate, "jobs")]) -> dict[str, Any]:
        """Where a job stands."""
        return gate.jobs.told(name, key)

    @app.get("/v1/jobs/{name}/events")
    async def events(name: str, key: Annotated[Key, _as(gate, "jobs")]) -> StreamingResponse:
        """The same as server-sent events, until it ends."""
        await run_in_threadpool(gate.jobs.told, name, key)

        async def told() -> AsyncIterator[str]:
            while True:
                found = await run_in_threadpool(gate.jobs.told, name, key)
                yield f"data: {json.dumps(found)}\n\n"
                if found["state"] not in ("queued", "running", "cancelling"):
                    return
                await asyncio.sleep(1)

        return StreamingResponse(told(), media_type="text/event-stream")

    @app.get("/v1/jobs/{name}/result")
    def result(name: str, key: Annotated[Key, _as(gate, "jobs")]) -> FileResponse:
        """The released file."""
        path = gate.jobs.file(name, key)
        kinds = {suffix: _KINDS[kind] for kind, suffix in FORMATS.items()}
        return FileResponse(path, media_type=kinds.get(path.suffix, "application/json"), filename=path.name)

    @app.get("/v1/jobs/{name}/certificate")
    def certificate(name: str, key: Annotated[Key, _as(gate, "jobs")]) -> FileResponse:
        """Its certificate."""
        path = gate.jobs.file(name, key, "certificate")
        return FileResponse(path, media_type="application/json", filename=path.name)

    @app.get("/v1/topics/{name}")
    def topics(name: str, key: Annotated[Key, _as(gate, "synthesize")]) -> FileResponse:
        """The noisy topics of a synthesis."""
        return FileResponse(gate.jobs.file(name, key, "topics"), media_type="application/json")

    @app.delete("/v1/jobs/{name}", status_code=202)
    def cancel(name: str, key: Annotated[Key, _as(gate, "jobs")]) -> dict[str, Any]:
        """Stop a job."""
        gate.jobs.cancel(name, key)
        return gate.jobs.told(name, key)


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
        if "admin" not in key.scopes and name != key.account:
            raise Problem(404, "no-account", "There is no such account, or this key may not see it.")
        if all(each.name != name for each in gate.ledger.accounts()):
            raise Problem(404, "no-account", "There is no such account, or this key may not see it.")
        return name

    @app.get("/v1/accounts")
    def accounts(key: Annotated[Key, _as(gate, "accounts")]) -> list[dict[str, Any]]:
        """The accounts that this key may see: administrators all, others the one that they charge."""
        names = [each.name for each in gate.ledger.accounts()]
        return [told(name) for name in names if "admin" in key.scopes or name == key.account]

    @app.get("/v1/accounts/{name}")
    def account(name: str, key: Annotated[Key, _as(gate, "accounts")]) -> dict[str, Any]:
        """One account, with its last charges."""
        log: list[Json] = [
            {
                "number": each.number,
                "at": each.at,
                "kind": str(each.request.settings.get("kind")),
                "release": each.release,
            }
            for each in gate.ledger.log(own(key, name), last=100)
        ]
        return {**told(name), "log": log[::-1]}

    @app.get("/v1/events")
    def events(key: Annotated[Key, _as(gate, "accounts")], last: Annotated[int, Query(ge=1, le=1000)] = 100) -> Any:
        """The audit log, the newest first."""
        return gate.store.events(None if "admin" in key.scopes else key.account or "", last)

    @app.post("/v1/accounts", status_code=201)
    def open_account(body: Opening, key: Annotated[Key, _as(gate, "admin")]) -> dict[str, Any]:
        """Open an account. Its limit never changes."""
        if body.unit not in ("document", "author") or body.relation not in ("replace_one", "add_or_remove_one"):
            raise Problem(422, "unit", "Expected unit document or author, relation replace_one or add_or_remove_one.")
        limit = Guarantee(body.epsilon, body.delta, Unit(body.unit), Relation(body.relation))
        gate.ledger.open_account(body.name, limit, dataset=body.dataset)
        gate.store.note(Event(key.who, "account opened", body.name))
        return told(body.name)


def _health(app: FastAPI, gate: Gateway) -> None:
    @app.get("/healthz")
    def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get("/readyz")
    def ready() -> dict[str, str]:
        """Whether the ledger answers, too."""
        try:
            gate.ledger.accounts()
        except DPTextError:
            raise Problem(503, "ledger", "The ledger does not answer.", retry_after=5) from None
        return {"status": "ok"}

    @app.get("/metrics")
    def metrics(_: Annotated[Key, _as(gate, "metrics")]) -> Response:
        """Counts for Prometheus."""
        return Response(generate_latest(gate.counts.registry), media_type="text/plain; version=0.0.4")
