"""The routes of summaries: what can be written from one, and corpora that are written from it without a charge.

A summary is the result of a job. A corpus comes from its noisy numbers and public texts alone, so nothing is charged,
and each call draws anew. The writer is the pool: the gateway runs no language model.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, cast
from zipfile import ZIP_DEFLATED, ZipFile

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from dptext.errors import ConfigError, DataError
from dptext.runs.certificate import Certificate
from dptext.runs.summarizing import ReadSummary, read_summary
from dptext.runs.synthesized import paths_of
from dptext.runs.verification import read_certificate
from dptext.runs.writing import prepared, rows_counted, write
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.text.formats import Format
from dptext_gateway.gateway import Gateway, asking
from dptext_gateway.job_routes import READY, require_parquet
from dptext_gateway.jobs import FORMATS, Wish
from dptext_gateway.keys import Key
from dptext_gateway.problems import Problem
from dptext_gateway.schemas import CorpusWish, SummaryTold, file_of
from dptext_gateway.settings import MOST_RECORDS
from dptext_gateway.store import Event
from dptext_gateway.work import LEGAL_SUFFIX, legal, spec_of

ZIP_TYPE: Final = "application/zip"
_BLOCK: Final = 1 << 20  # bytes of an answer that are read at once
_WAITED: Final = 5  # seconds until a call that had no turn asks again
_WITHOUT_POOL: Final = (
    "This summary leaves its pool out, so the gateway writes nothing from it: download it, and run "
    "dptext write --public POOL."
)
_WORDS_ALONE: Final = (
    "This summary measured nothing by which public texts can be chosen: download it, and run "
    "dptext write --writer builtin."
)


def add_summaries(app: FastAPI, gate: Gateway) -> None:
    """Add the routes of summaries."""

    def settings_of(id: str, key: Key) -> SummarySpec:
        """Return the settings of a summary. They stand in its certificate: its model may be gone."""
        spec = spec_of(read_certificate(gate.jobs.file(id, key, "certificate")))
        if not isinstance(spec, SummarySpec):
            raise Problem(404, "no-summary", "This job made no summary.")
        return spec

    def checked(id: str, key: Key, body: CorpusWish) -> Format:
        """Refuse a wish that cannot be fulfilled, before it waits for its turn."""
        refused = _refusal(settings_of(id, key))
        if refused is not None:
            raise Problem(422, "no-writing", refused)
        if body.size > MOST_RECORDS:
            raise Problem(413, "too-many", f"Expected size to be at most {MOST_RECORDS:,}; dptext write writes more.")
        wanted = Format(body.format)
        if wanted is Format.PARQUET:
            require_parquet()
        return wanted

    @app.get("/v1/summaries/{id}", response_model=SummaryTold, responses=READY)
    def summary(id: str, key: Annotated[Key, asking("synthesize")]) -> dict[str, Any]:
        """What can be written from the summary that a job made. `/v1/topics/ID` has its noisy numbers."""
        spec = settings_of(id, key)
        read, refused = _read(gate.jobs.file(id, key)).summary, _refusal(spec)
        shares = read.shares.tolist() if spec.labels else []
        most = 0 if refused else _most(read)
        own = {"labels": list(spec.labels), "shares": shares, "columns": list(spec.columns)}
        return {**own, "most": most, "refused": refused}

    @app.post(
        "/v1/summaries/{id}/write",
        response_class=StreamingResponse,
        responses={**READY, 200: file_of("The corpus, its certificate, its report and its legal page", ZIP_TYPE)},
    )
    async def written(id: str, body: CorpusWish, key: Annotated[Key, asking("synthesize")]) -> StreamingResponse:
        """Write a corpus from a summary. Nothing is charged, and each call draws anew.

        The texts are public texts of the summary's pool. The answer is a ZIP file; `dptext explain` verifies the corpus
        in it against the certificate beside it.
        """
        wanted = await run_in_threadpool(checked, id, key, body)
        with await _turn(gate, key):
            name, file = await run_in_threadpool(_packed, gate, id, key, body, wanted)
        headers = {"Content-Disposition": f'attachment; filename="{name}.zip"'}
        return StreamingResponse(_blocks(file), 200, headers, ZIP_TYPE)


def _refusal(spec: SummarySpec) -> str | None:
    """Why the gateway writes nothing from such a summary, or None."""
    if spec.without_pool:
        return _WITHOUT_POOL
    return None if spec.pool_writes else _WORDS_ALONE


def _most(summary: Summary) -> int:
    """Return the most texts of one corpus: what the pool can give, and at most what a call may write."""
    there = FromPool.limit(summary)
    return MOST_RECORDS if there is None else min(there, MOST_RECORDS)


async def _turn(gate: Gateway, key: Key) -> ExitStack:
    """Wait without a thread for a turn. Problem: it did not come in time."""
    try:
        async with asyncio.timeout(gate.settings.seconds):
            return await gate.turns.take(key.account or "")
    except TimeoutError:
        raise Problem(503, "waiting", "Its turn did not come in time: ask again.", retry_after=_WAITED) from None


def _packed(gate: Gateway, id: str, key: Key, body: CorpusWish, wanted: Format) -> tuple[str, BinaryIO]:
    """Write a corpus, and note it in the audit log. Return its name, and a ZIP file that nobody else can open."""
    gate.jobs.require_spool()
    gate.space.measure()
    gate.space.room()
    path, row = gate.jobs.file(id, key), gate.jobs.row(id)
    wish, name, folder = Wish.of(row.settings), f"corpus-{secrets.token_hex(4)}", gate.jobs.spool()
    try:
        out = folder / f"{name}{FORMATS[wanted]}"
        certificate = _corpus(_read(path), body, wish, out, wanted)
        file = _zipped(out, certificate)
    except (ConfigError, DataError) as error:
        if str(gate.settings.spool) in str(error):  # no answer names a path of this machine
            raise Problem(503, "failed", "The corpus could not be written here: try again.", retry_after=5) from None
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    paid = certificate.charged.number if certificate.charged else None
    try:
        gate.store.note(Event(key.who, "corpus written", key.account, row.model, paid, certificate.sha256))
    except Exception:
        file.close()
        raise
    return name, file


def _read(path: Path) -> ReadSummary:
    try:
        return read_summary(path)
    except (ConfigError, DataError):
        said = "The summary is damaged or gone here: nothing is written from it. Whoever runs the gateway can look."
        raise Problem(503, "damaged", said, retry_after=60) from None


def _corpus(read: ReadSummary, body: CorpusWish, wish: Wish, out: Path, wanted: Format) -> Certificate:
    """Write a corpus with its certificate and reports; texts and labels have the columns of the measured file."""
    # Without a size the writer takes the rows of a table, or most of the pool: there may be more than a call may write.
    if body.size > (there := _most(read.summary)):
        raise Problem(422, "too-many", f"Expected size to be at most {there:,}, as many texts as the pool can give.")
    usual = rows_counted(read.summary) or len(read.summary.public.pool.texts)
    most = MOST_RECORDS if usual > MOST_RECORDS else 0
    chosen = prepared(
        read, writer="pool", size=body.size or most, mix=body.mix, text=wish.text_field, drop_other=body.drop_other
    )
    made = write(chosen, text=wish.text_field, label=wish.label_field)
    return made.write(out, format=wanted, private=True)


def _zipped(out: Path, certificate: Certificate) -> BinaryIO:
    # Without a name, so that a kill leaves nothing of it; `_blocks` closes it.
    file = cast("BinaryIO", tempfile.TemporaryFile(dir=out.parent))  # noqa: SIM115
    with ZipFile(file, "w", ZIP_DEFLATED) as packed:
        for each in paths_of(out):
            packed.write(each, each.name)
        packed.writestr(out.name + LEGAL_SUFFIX, legal(certificate, spec_of(certificate)).html())
    file.seek(0)
    return file


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        yield from iter(lambda: file.read(_BLOCK), b"")
