"""A client of the gateway, which asks again until it has the answer, under one idempotency key where that is charged.

summary = client.summarize(url, key, "inbox", "mail.csv", text="body", label="topic")  # charged once
corpus = client.write(url, key, summary, "corpora", size=90)  # for free, as often as you like
"""

from __future__ import annotations

import io
import json
import ssl
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote
from zipfile import BadZipFile, ZipFile

import httpx

from dptext.errors import DPTextError
from dptext.runs.certificate import certificate_path
from dptext.text.formats import Format, Scalar

_AGAIN: Final = (408, 409, 429, 502, 503, 504)  # in flight, too much, or a gateway or proxy that comes back
_LONGEST: Final = 30.0  # seconds between two tries where the gateway names none
_TIMEOUT: Final = 120.0  # seconds that each part of an answer may take
_GOOD: Final = (200, 202)
LOOK: Final = 1.0  # seconds between two looks at a job
_OVER: Final = ("done", "failed", "cancelled")  # states of a job that has ended
_FORMATS: Final = {".csv": Format.CSV, ".parquet": Format.PARQUET}
Found = TypeVar("Found")


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that TLS trusts. Reading them takes longer than a request, so they are read once."""
    return httpx.create_ssl_context()


class GatewayError(DPTextError):
    """The gateway gave no answer.

    Attributes:
        idempotency_key: the key that asks for the same answer again, which is charged once; "" where none is needed.
        status: the HTTP status; None if nobody answered.
        problem: fields of the gateway's problem, such as "type", "detail", "left".
    """

    def __init__(self, idempotency_key: str, status: int | None, problem: dict[str, Any]) -> None:
        said = problem.get("detail") or (f"HTTP {status}." if status else "Nobody answered.")
        again = f" idempotency_key={idempotency_key!r} asks for the same answer again."
        super().__init__(
            said + (again if idempotency_key and (status is None or status < 400 or status in _AGAIN) else "")
        )
        self.idempotency_key, self.status, self.problem = idempotency_key, status, problem


def privatize(
    url: str,
    key: str,
    model: str,
    records: Sequence[Mapping[str, Scalar]],
    *,
    idempotency_key: str | None = None,
    patience: float = 600.0,
    **settings: Any,
) -> dict[str, Any]:
    """Privatize a few records. The answer has "releases" as JSON Lines and "certificate" as JSON text.

    `dptext explain FILE` verifies releases in a file of the name that the certificate has as "output", with the
    certificate beside it as `FILE.guarantee.json`.

    Args:
        url: address of the gateway.
        key: an API key with the scope "privatize".
        model: name of the model.
        records: each with "text", and with "id", "label", "author" if there are any.
        idempotency_key: the key of an earlier call whose answer was lost; a new key charges anew.
        patience: seconds after which no further try begins; an attempt that died blocks the next for one minute.
        settings: `max_per_author`, `delta`.

    Raises:
        GatewayError: the request was refused, or nobody answered within `patience`. The error holds no record.
    """
    name, asked = idempotency_key or str(uuid.uuid4()), f"{_base(url)}/v1/models/{quote(model, safe='')}/privatize"
    headers = {**_bearer(key), "Idempotency-Key": name, "Content-Type": "application/json"}
    body = json.dumps(
        {"records": [*map(dict, records)], **settings}
    )  # in ASCII, so that no encoding error quotes a record

    def ask() -> httpx.Response:
        return httpx.post(asked, content=body, headers=headers, timeout=_TIMEOUT, verify=_trusted())

    return _answered(ask, _with("releases"), name, patience)


def summarize(
    url: str,
    key: str,
    model: str,
    file: str | PathLike[str],
    *,
    text: str | None = None,
    label: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    patience: float = 3_600.0,
) -> str:
    """Send a private file for a summary, wait until it was measured, and return the id of its job.

    Args:
        url: address of the gateway.
        key: an API key with the scope "synthesize".
        model: name of a model that makes summaries.
        file: a file in JSON Lines, CSV or Parquet; the ending of its name says in which.
        text: column of the texts; None for "text".
        label: column of the labels, if the model has labels.
        author: column of the authors, for an account per author.
        idempotency_key: the key of an earlier call whose answer was lost; a new key charges anew.
        patience: seconds after which no further try or look begins. The job goes on.

    Raises:
        GatewayError: the file was refused, the job failed, or nobody answered within `patience`. It says what was
            charged.
    """
    path, name, end = Path(file), idempotency_key or str(uuid.uuid4()), time.monotonic() + patience
    fields = {"text_field": text, "label_field": label, "author_field": author}
    wanted = {"model": model, "format": _FORMATS.get(path.suffix.lower(), Format.JSONL).value}
    params = {**wanted, **{field: column for field, column in fields.items() if column is not None}}

    def send() -> httpx.Response:
        with path.open("rb") as content:
            headers = {**_bearer(key), "Idempotency-Key": name}
            return httpx.post(
                f"{_base(url)}/v1/synthesize", params=params, content=content, headers=headers, timeout=_TIMEOUT,
                verify=_trusted(),
            )  # fmt: skip

    def look() -> httpx.Response:
        return httpx.get(f"{_base(url)}/v1/jobs/{job['id']}", headers=_bearer(key), timeout=_TIMEOUT, verify=_trusted())

    job = _answered(send, _with("id"), name, patience)
    while job.get("state") not in _OVER:
        if time.monotonic() + LOOK > end:
            raise GatewayError(name, None, {"detail": "The job has not ended yet."})
        time.sleep(LOOK)
        job = _answered(look, _with("id"), name, end - time.monotonic())
    if job["state"] != "done":
        raise GatewayError("", 200, {**job, "detail": job.get("problem") or "The job was cancelled."})
    return str(job["id"])


def write(
    url: str,
    key: str,
    summary: str,
    folder: str | PathLike[str],
    *,
    size: int = 0,
    mix: Mapping[str, float] | None = None,
    format: str = "jsonl",
    drop_other: bool = False,
    patience: float = 600.0,
) -> Path:
    """Write a corpus from a summary, which is never charged. Return its path; certificate and legal page lie beside it.

    Args:
        url: address of the gateway.
        key: an API key with the scope "synthesize".
        summary: the id that `summarize` returned.
        folder: the folder that gets the files.
        size: number of texts; 0 takes most of the pool, in the shares of labels that `GET /v1/summaries/ID` tells.
        mix: shares of labels; other labels keep their noisy share of the rest.
        format: "jsonl", "csv" or "parquet".
        drop_other: whether columns of a table have declared values alone.
        patience: seconds after which no further try begins.

    Raises:
        GatewayError: nothing is written from this summary, or nobody answered within `patience`.
    """
    asked, headers = f"{_base(url)}/v1/summaries/{quote(summary, safe='')}/write", _bearer(key)
    body = {
        "size": size,
        "format": format,
        **({"mix": dict(mix)} if mix else {}),
        **({"drop_other": True} if drop_other else {}),
    }

    def ask() -> httpx.Response:
        return httpx.post(asked, json=body, headers=headers, timeout=_TIMEOUT, verify=_trusted())

    with _answered(ask, _packed, "", patience) as packed:
        packed.extractall(folder)
        names = packed.namelist()
    return Path(folder) / next(each for each in names if certificate_path(Path(each)).name in names)


def _base(url: str) -> str:
    return url.rstrip("/")


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.strip()}"}


def _object(answer: httpx.Response) -> dict[str, Any] | None:
    found = answer.json()
    return found if isinstance(found, dict) else None


def _with(field: str) -> Callable[[httpx.Response], dict[str, Any] | None]:
    """Return a reader of answers: an object with this field, or None."""

    def read(answer: httpx.Response) -> dict[str, Any] | None:
        found = _object(answer)
        return found if found and field in found else None

    return read


def _packed(answer: httpx.Response) -> ZipFile | None:
    """Return a corpus with what lies beside it, or None."""
    with suppress(BadZipFile):
        return ZipFile(io.BytesIO(answer.content))
    return None


def _answered(
    ask: Callable[[], httpx.Response], read: Callable[[httpx.Response], Found | None], name: str, patience: float
) -> Found:
    """Ask until there is an answer that can be read. GatewayError: it was refused, or there is none in time."""
    end, pause = time.monotonic() + patience, 1.0
    while True:
        status, problem, wait, hopeless = None, dict[str, Any](), pause, False
        try:
            answer = ask()
            status, said = answer.status_code, answer.headers.get("Retry-After", "")
            wait = float(said) if said.isdigit() else pause
            if status in _GOOD and (found := read(answer)) is not None:
                return found
            problem = _object(answer) or problem
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL):  # they quote the key
            problem, hopeless = {"detail": "Expected an address like https://HOST, and keys of visible ASCII."}, True
        except (httpx.RequestError, ValueError) as error:  # nobody answered, or a proxy showed its page to sign in
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                problem, hopeless = {"detail": "The certificate at this address is not trusted."}, True
        if hopeless or status not in (None, *_AGAIN) or time.monotonic() + wait > end:
            raise GatewayError(name, status, problem)
        time.sleep(wait)
        pause = min(2 * pause, _LONGEST)
