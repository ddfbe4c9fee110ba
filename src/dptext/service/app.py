"""The routes of the gateway: `create_app(settings)` is an ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.staticfiles import StaticFiles
from opentelemetry import trace
from prometheus_client import generate_latest
from pydantic import BaseModel, ConfigDict, Field

from dptext.errors import DPTextError
from dptext.ledger.spending import format_left
from dptext.privacy.guarantee import Guarantee, Relation, Unit, format_epsilon
from dptext.service import problems
from dptext.service.answers import Stored, usable
from dptext.service.gateway import Gateway, asking
from dptext.service.guarding import Guard
from dptext.service.job_routes import add_asking, add_jobs
from dptext.service.keys import Key
from dptext.service.problems import Problem
from dptext.service.settings import Settings
from dptext.service.store import Event
from dptext.service.work import Wanted, cost, released, settled
from dptext.types import Json
from dptext.version import __version__

PAGE: Final = Path(__file__).parent / "page"
_TRACER: Final = trace.get_tracer("dptext.service")
_LONGEST: Final = 200


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

    app = FastAPI(title="dptext gateway", version=__version__, lifespan=living, docs_url=None, redoc_url=None)
    app.state.gate = gate
    problems.install(app)
    _models(app, gate)
    _releases(app, gate)
    add_asking(app, gate)
    add_jobs(app, gate)
    _accounts(app, gate)
    _health(app, gate)
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    app.add_middleware(Guard, settings=settings, counts=gate.counts)
    return app


def _models(app: FastAPI, gate: Gateway) -> None:
    @app.get("/v1/models")
    def models(key: Annotated[Key, asking(gate, "privatize")]) -> list[dict[str, Any]]:
        """The models that this key may use, in words and data."""
        names = [name for name in gate.models.names() if not key.models or name in key.models]
        return [gate.models.told(name) for name in names]

    @app.get("/v1/models/{name}")
    def model(name: str, key: Annotated[Key, asking(gate, "privatize")]) -> dict[str, Any]:
        """One model."""
        return gate.models.told(gate.allowed(key, name))

    @app.post("/v1/models/{name}/explain")
    def explain(name: str, question: Question, key: Annotated[Key, asking(gate, "privatize")]) -> dict[str, Any]:
        """What one model guarantees for a unit, at a delta."""
        return gate.models.told(gate.allowed(key, name), unit=question.unit, delta=question.delta)


def _releases(app: FastAPI, gate: Gateway) -> None:
    def checked(name: str, body: Records, key: Key) -> Wanted:
        gate.allowed(key, name)
        if len(body.records) > gate.settings.max_records:
            raise Problem(413, "too-many", f"Expected at most {gate.settings.max_records:,} records; more are a job.")
        return body.wanted()

    @app.get("/v1/models/{name}/cost")
    def price(
        name: str,
        key: Annotated[Key, asking(gate, "privatize")],
        max_per_author: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    ) -> dict[str, Any]:
        """What one release by a model would cost, of a few records or of a file; nothing is charged or drawn."""
        return cost(gate.ledger, key, gate.models.spec(gate.allowed(key, name)), max_per_author)

    @app.post("/v1/models/{name}/privatize")
    async def privatize(
        name: str,
        body: Records,
        request: Request,
        key: Annotated[Key, asking(gate, "privatize")],
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Privatize a few records at once. The same key and payload give the same answer again."""
        wanted = checked(name, body, key)
        payload = name.encode() + b"\0" + await request.body()

        def release() -> tuple[Stored, bool]:
            with _TRACER.start_as_current_span(
                "privatize",
                attributes={"model": name},
                record_exception=False,  # its message may hold a text
                set_status_on_exception=False,
            ):
                found = gate.answers.attempt(key, idempotency_key, payload)
                if isinstance(found, Stored):
                    settled(gate.ledger, key, found)
                    return found, True
                own = gate.models.loaded(name)
                return released(gate.ledger, key, name, own, wanted, found, gate.computing), False

        usable(idempotency_key)
        stored, again = await run_in_threadpool(release)
        if not again:
            gate.counts.released.labels(name).inc()
        headers = {"Idempotent-Replayed": "true"} if again else {}
        return Response(stored.answer, 200, headers, "application/json")


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
    def accounts(key: Annotated[Key, asking(gate, "accounts")]) -> list[dict[str, Any]]:
        """The accounts that this key may see: administrators all, others the one that they charge."""
        names = [each.name for each in gate.ledger.accounts()]
        return [told(name) for name in names if "admin" in key.scopes or name == key.account]

    @app.get("/v1/accounts/{name}")
    def account(name: str, key: Annotated[Key, asking(gate, "accounts")]) -> dict[str, Any]:
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
    def events(key: Annotated[Key, asking(gate, "accounts")], last: Annotated[int, Query(ge=1, le=1000)] = 100) -> Any:
        """The audit log, the newest first."""
        return gate.store.events(None if "admin" in key.scopes else key.account or "", last)

    @app.post("/v1/accounts", status_code=201)
    def open_account(body: Opening, key: Annotated[Key, asking(gate, "admin")]) -> dict[str, Any]:
        """Open an account. Its limit never changes."""
        if body.unit not in ("document", "author") or body.relation not in ("replace_one", "add_or_remove_one"):
            raise Problem(422, "unit", "Expected unit document or author, relation replace_one or add_or_remove_one.")
        limit = Guarantee(body.epsilon, body.delta, Unit(body.unit), Relation(body.relation))
        gate.ledger.open_account(body.name, limit, dataset=body.dataset)
        gate.store.note(Event(key.who, "account opened", body.name))
        return told(body.name)


def _health(app: FastAPI, gate: Gateway) -> None:
    @app.get("/healthz")
    async def health() -> dict[str, str]:
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
    def metrics(_: Annotated[Key, asking(gate, "metrics")]) -> Response:
        """Counts for Prometheus."""
        return Response(generate_latest(gate.counts.registry), media_type="text/plain; version=0.0.4")
