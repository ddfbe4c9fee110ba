"""The routes of jobs: the body is a file, and its result is asked for later."""

import asyncio
import hashlib
import json
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse

from dptext.errors import MissingExtraError
from dptext.mechanism import Answers
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.synthesized import REPORT_SUFFIXES
from dptext.runs.verification import read_certificate
from dptext.text.files import create_private, sync_folder, to_disk
from dptext.text.formats import Format
from dptext.text.packed_rows import load_pyarrow
from dptext_gateway.answers import usable
from dptext_gateway.gateway import Gateway, asking
from dptext_gateway.jobs import FORMATS, Wish
from dptext_gateway.keys import Key
from dptext_gateway.problems import Problem
from dptext_gateway.schemas import IDEMPOTENT, KEYED, NAMED, IdempotencyKey, JobTold, Words, file_of, refusals
from dptext_gateway.store import OPEN, Event
from dptext_gateway.work import LEGAL_SUFFIX, in_words, legal, named, spec_of

_LONGEST: Final = 200
LOOK_SECONDS: Final = 1.0  # seconds from one look at a job, which may bring an event, to the next
QUIET_SECONDS: Final = 15.0  # seconds without an event, after which a comment keeps the connection open
_KINDS: Final = {
    Format.JSONL: "application/jsonl",
    Format.CSV: "text/csv",
    Format.PARQUET: "application/vnd.apache.parquet",
}
_JSON_TYPE: Final = "application/json"
_JSON: Final = {"content": {_JSON_TYPE: {"schema": {"type": "object"}}}}
_HTML: Final = {"content": {"text/html": {"schema": {"type": "string"}}}}
_REPORT: Final = {"content": {**_JSON["content"], **_HTML["content"]}}
_STREAM: Final = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
_FILE: Final[dict[str, Any]] = {
    **IDEMPOTENT,
    "requestBody": {**file_of("The file", *_KINDS.values()), "required": True},
}
_TAKEN: Final = {**NAMED, **refusals(400), 200: {"model": JobTold, "description": "The job was there already"}}
#: Problems of routes of a finished job.
READY: Final = {**NAMED, **refusals(409, 410)}
_Name = Annotated[str | None, Query(min_length=1, max_length=_LONGEST)]


async def _queued(gate: Gateway, request: Request, key: Key, idempotency_key: str | None, wish: Wish) -> Response:
    name, digest = usable(idempotency_key), hashlib.sha256()
    folder = await run_in_threadpool(_room, gate, key, wish)

    def take(block: bytes) -> None:
        digest.update(block)
        file.write(block)

    def queue() -> tuple[dict[str, Any], bool]:
        job, new = gate.jobs.queue(key, name, wish, folder, digest.hexdigest())
        gate.worker.wake()
        return gate.jobs.told(job, key), new

    try:
        with await run_in_threadpool(create_private, folder / "input") as file:
            async for block in request.stream():
                await run_in_threadpool(take, block)
            await run_in_threadpool(to_disk, file)  # before the answer says that the file was taken
            await run_in_threadpool(sync_folder, folder)
        told, new = await run_in_threadpool(queue)
    finally:
        await asyncio.shield(run_in_threadpool(shutil.rmtree, folder, ignore_errors=True))
    return JSONResponse(told, 202 if new else 200, {"Location": f"/v1/jobs/{told['id']}"})


def _room(gate: Gateway, key: Key, wish: Wish) -> Path:
    """Check a request for a job, and return a folder for its file."""
    gate.allowed(key, wish.model)
    gate.require_payer(key)
    spec = gate.models.spec(wish.model)
    if (spec.traits.answers is Answers.CORPUS) != (wish.kind == "synthesize"):
        raise Problem(422, "synthesis", "A synthesis is asked for by POST /v1/synthesize, all else by /v1/jobs.")
    if wish.kind != "synthesize" and spec.traits.reads_labels and wish.label_field is None:
        raise Problem(422, "settings", f"Expected label_field: {spec.kind} reads the label with the text.")
    if wish.format not in FORMATS:
        raise Problem(415, "format", f"Expected a file in {', '.join(FORMATS)}.")
    if wish.format is Format.PARQUET:
        require_parquet()
    return gate.jobs.spool()


async def _changes(now: Callable[[], dict[str, Any]]) -> AsyncIterator[str]:
    """The states of a job as server-sent events: each that is new, until the job or the key ends."""
    before, last = dict[str, Any](), 0.0
    while True:
        try:
            found = await run_in_threadpool(now)
        except Problem:  # the key is no longer valid
            return
        if found != before:
            before, last = found, time.monotonic()
            yield f"data: {json.dumps(found)}\n\n"
        elif time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            yield ": nothing new\n\n"
        if found["state"] not in OPEN:
            return
        await asyncio.sleep(LOOK_SECONDS)


def require_parquet() -> None:
    """Raise a Problem if the package that reads Parquet, an extra of its own, is not installed."""
    try:
        load_pyarrow()
    except MissingExtraError:
        said = "No Parquet here: ask for jsonl or csv. Whoever runs this gateway can install 'dptext[files]'."
        raise Problem(415, "format", said) from None


def _wish_of(kind: str, given: Mapping[str, Any]) -> Wish:
    """Return the wish that the parameters of a route state."""
    named: dict[str, Any] = {each.name: given[each.name] for each in fields(Wish) if each.name in given}
    try:
        return Wish(**{**named, "kind": kind, "format": Format(given["format"])})
    except ValueError:
        raise Problem(415, "format", f"Expected format among {', '.join(FORMATS)}.") from None


def add_asking(app: FastAPI, gate: Gateway) -> None:
    """Add the routes that take files."""

    @app.post("/v1/jobs", status_code=202, response_model=JobTold, responses=_TAKEN, openapi_extra=_FILE)
    async def job(
        request: Request,
        model: str,
        key: Annotated[Key, asking("jobs")],
        format: str = "jsonl",
        text_field: Annotated[str, Query(min_length=1, max_length=_LONGEST)] = "text",
        id_field: _Name = None,
        label_field: _Name = None,
        author_field: _Name = None,
        max_per_author: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
        delta: Annotated[float, Query(ge=0, lt=1)] = 0.0,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Privatize the file in the body. The job runs later: ask for it by its id.

        A job of an account per document fails, uncharged, where a text is there twice, in normal form: a charge pays
        for one release of each document. Records of an author have the public maximum `max_per_author`.
        """
        return await _queued(gate, request, key, idempotency_key, _wish_of("privatize", locals()))

    @app.post("/v1/synthesize", status_code=202, response_model=JobTold, responses=_TAKEN, openapi_extra=_FILE)
    async def synthesize(
        request: Request,
        model: str,
        key: Annotated[Key, asking("synthesize")],
        format: str = "jsonl",
        text_field: Annotated[str, Query(min_length=1, max_length=_LONGEST)] = "text",
        label_field: _Name = None,
        author_field: _Name = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Write a synthetic corpus for the private corpus in the body.

        Per document the guarantee holds for one record: a text that occurs k times has k times the epsilon. The gateway
        reports no copies, as a report would reveal a record: remove copies before, or take unit="author".
        """
        return await _queued(gate, request, key, idempotency_key, _wish_of("synthesize", locals()))


def add_jobs(app: FastAPI, gate: Gateway) -> None:
    """Add the routes that tell of jobs."""

    def certified(id: str, key: Key) -> Certificate:
        return named(read_certificate(gate.jobs.file(id, key, "certificate")))

    def noted(id: str, key: Key, what: str) -> Certificate:
        """Return the certificate of a job, and note in the audit log what of the job is downloaded."""
        found = certified(id, key)
        paid, model = found.charged.number if found.charged else None, gate.jobs.row(id).model
        gate.store.note(Event(key.who, f"{what} downloaded", key.account, model, paid, found.sha256))
        return found

    def taken(id: str, key: Key, what: str) -> tuple[Path, Certificate]:
        """Return a file of a job and its certificate; the download is noted."""
        return gate.jobs.file(id, key, what), noted(id, key, what or "result")

    @app.get("/v1/jobs", response_model=list[JobTold], responses=KEYED)
    def listed(key: Annotated[Key, asking("jobs", "synthesize")]) -> list[dict[str, Any]]:
        """The states of the last jobs that this key may see, newest first."""
        return gate.jobs.listed(key)

    @app.get("/v1/jobs/{id}", response_model=JobTold, responses=NAMED)
    def one(id: str, key: Annotated[Key, asking("jobs", "synthesize", "admin")]) -> dict[str, Any]:
        """The state of a job; administrators may ask for any job."""
        return gate.jobs.told(id, key)

    @app.get("/v1/jobs/{id}/events", response_class=StreamingResponse, responses={**NAMED, 200: _STREAM})
    async def events(id: str, request: Request, key: Annotated[Key, asking("jobs", "synthesize")]) -> StreamingResponse:
        """The state of a job as server-sent events, until the job or the key ends.

        The first event comes at once, and each further one when something has changed. After 15 seconds without an
        event comes a comment line, which begins with a colon, so that no proxy closes the connection.
        """

        def now() -> dict[str, Any]:
            return gate.jobs.told(id, gate.key(request.headers["authorization"].encode("latin-1")))

        await run_in_threadpool(gate.jobs.told, id, key)
        return StreamingResponse(_changes(now), media_type="text/event-stream")

    @app.get(
        "/v1/jobs/{id}/result",
        response_class=FileResponse,
        responses={**READY, 200: file_of("The released file", *_KINDS.values())},
    )
    def result(id: str, key: Annotated[Key, asking("jobs", "synthesize")]) -> FileResponse:
        """The released file."""
        path, found = taken(id, key, "")
        kinds = {suffix: _KINDS[kind] for kind, suffix in FORMATS.items()}
        return FileResponse(path, media_type=kinds.get(path.suffix, _JSON_TYPE), filename=found.output)

    @app.get("/v1/jobs/{id}/certificate", response_class=Response, responses={**READY, 200: _JSON})
    def certificate(id: str, key: Annotated[Key, asking("jobs", "synthesize")]) -> Response:
        """The certificate of the released file."""
        _, found = taken(id, key, "certificate")
        beside = certificate_path(Path(found.output)).name
        return Response(found.to_json(), 200, {"Content-Disposition": f'attachment; filename="{beside}"'}, _JSON_TYPE)

    @app.get("/v1/jobs/{id}/words", response_model=Words, responses=READY)
    def words(id: str, key: Annotated[Key, asking("jobs", "synthesize")]) -> dict[str, Any]:
        """The certificate in plain words, and on one page for whoever answers for the release."""
        found = certified(id, key)
        return in_words(found, spec_of(found))

    @app.get("/v1/jobs/{id}/legal", response_class=Response, responses={**READY, 200: _HTML})
    def legal_page(id: str, key: Annotated[Key, asking("jobs", "synthesize")]) -> Response:
        """The page for whoever answers for the release, as one HTML file to be saved."""
        found = noted(id, key, "legal page")
        saved = {"Content-Disposition": f'attachment; filename="{found.output}{LEGAL_SUFFIX}"'}
        return Response(legal(found, spec_of(found)).html(), 200, saved, "text/html")

    @app.get("/v1/topics/{id}", response_class=FileResponse, responses={**READY, 200: _REPORT})
    def topics(
        id: str, key: Annotated[Key, asking("synthesize")], format: Literal["json", "html"] = "json"
    ) -> FileResponse:
        """The noisy topics of a synthesis, as data or as a page to be saved."""
        path, found = taken(id, key, "topics")
        if format == "json":
            return FileResponse(path, media_type=_JSON_TYPE)
        # The page is only downloaded: it has its own styles, which the policy of this origin forbids.
        saved = found.output + REPORT_SUFFIXES[1]
        return FileResponse(path.with_suffix(".html"), media_type="text/html", filename=saved)

    @app.delete("/v1/jobs/{id}", status_code=202, response_model=JobTold, responses=NAMED)
    def cancel(id: str, key: Annotated[Key, asking("jobs", "synthesize", "admin")]) -> dict[str, Any]:
        """Stop an open job, or delete the files of a finished job. Administrators may stop any job."""
        gate.jobs.cancel(id, key)
        return gate.jobs.told(id, key)
