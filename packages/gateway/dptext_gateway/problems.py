"""Errors as problem details (RFC 9457). No problem quotes a sent text; names in a request may come back."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from dptext.errors import (
    BudgetExceededError,
    ConfigError,
    DataError,
    DPTextError,
    LedgerError,
    LedgerGoneError,
    PrivacyError,
)
from dptext.ledger.entries import format_left
from dptext.privacy.guarantee import format_epsilon
from dptext.types import Json

TITLES: Final = {
    400: "The request cannot be read",
    401: "A key is needed",
    403: "The key does not allow this",
    404: "There is nothing here",
    405: "This cannot be done here",
    408: "It is too slow",
    409: "It is in flight",
    410: "It is gone",
    411: "Its length is needed",
    413: "It is too large",
    415: "This kind of content is not taken",
    422: "The request cannot be used",
    429: "Too many requests",
    503: "Not now",
}


#: Words of messages for the command line and Python, and their replacement in answers to requests.
_WORDS: Final = (
    # No request names an encoding, and which one it may be is guessed from the texts.
    (re.compile(" (The file looks like|Name the encoding with) .* as UTF-8[.]"), " Save the file as UTF-8."),
    (re.compile(", or read them as empty texts: --empty-nulls on the command line, empty_nulls=True in Python"), ""),
    (re.compile(r" \(take such rows out\)"), ""),
    (re.compile(", or skip such records: --on-error skip"), " or take it out"),
    (re.compile("label=NAME, or --label-field NAME"), "label_field=NAME"),
    (re.compile(r"\s+Nothing is charged and nothing is released[.]"), ""),  # each job says so
    (re.compile(r"\s+What one more corpus may take is said by `[^`]*`[.]"), ""),  # a command
    (
        re.compile("--author-field NAME --max-per-author N"),
        "max_per_author, and author in each record (author_field of a file)",
    ),
    (
        re.compile("Columns of a table are named by --column[.]"),
        "Columns of a table stand in the settings of the model, which `GET /v1/models` shows.",
    ),
    (re.compile(", --author-field, --subject-field or --keep"), " or --author-field"),
    (re.compile(" Named were [^:;()]* in Python[.]"), ""),
    (re.compile(" on the command line, [^:;()]*? in Python"), ""),
)


NO_MODEL: Final = "no-model"  # the kind of a problem
NOT_UTF8: Final = "Expected a body in UTF-8, found another encoding."
PLAIN: Final = "assertion_error"  # the kind of an error of a field
_FORM: Final = "is missing, or has not the form that /openapi.json says."
_FAULTS: Final = {
    "missing": "is missing.",
    "string_type": "is no text in quotes.",
    PLAIN: "is a list or an object: expected a text, a number, true, false or null.",
}


class BrokenModelError(ConfigError):
    """A model in the folder of models cannot be used."""


class Problem(Exception):  # noqa: N818  # the word of RFC 9457
    """A refusal with a kind, such as "budget-exhausted", and further fields for the client."""

    def __init__(
        self, status: int, kind: str, detail: str, *, retry_after: int = 0, more: Mapping[str, Json] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.more = status, kind, detail, more or {}
        self.headers = {"Retry-After": str(retry_after)} if retry_after else {}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"


def response_of(
    status: int,
    kind: str,
    detail: str,
    more: Mapping[str, Json] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return the answer for a problem."""
    body = {"type": f"urn:dptext:{kind}", "title": TITLES.get(status, "Refused"), "status": status, "detail": detail}
    return JSONResponse({**body, **(more or {})}, status, dict(headers or {}), "application/problem+json")


def in_words_of_the_api(said: str) -> str:
    """Return a message of the library with fields and settings named as in requests."""
    for found, instead in _WORDS:
        said = found.sub(instead, said)
    return re.sub("--([a-z-]+)", lambda option: option[1].replace("-", "_"), said)


def problem_of(error: DPTextError) -> Problem:
    """Return the problem of an error of dptext, whose messages hold no private text."""
    said = in_words_of_the_api(str(error))
    match error:
        case BudgetExceededError():
            numbers: dict[str, Json] = {
                "asked": format_epsilon(error.asked),
                "left": format_left(error.left),
                "missing": format_epsilon(error.gap),
            }
            return Problem(403, "budget-exhausted", str(error), more=numbers)
        case LedgerGoneError():
            gone = "The ledger is gone or was replaced: it has to come back, or the gateway to start again."
            return Problem(503, "ledger", gone, retry_after=60)
        case LedgerError():
            return Problem(503, "ledger", "The ledger cannot be used now: try again.", retry_after=5)
        case BrokenModelError():
            return Problem(503, "model", said, retry_after=60)
        case DataError():
            return Problem(422, "data", said)
        case ConfigError():
            return Problem(422, "settings", said)
        case PrivacyError():
            return Problem(422, "privacy", said)
        case _:
            return Problem(503, "failed", "It failed. Nothing of it is released.", retry_after=5)


def response_to(problem: Problem) -> JSONResponse:
    """Return the answer that refuses with this problem."""
    return response_of(problem.status, problem.kind, problem.detail, problem.more, problem.headers)


def failed() -> JSONResponse:
    """Return the answer to an unexpected error, without its message, which may hold a text."""
    return response_of(503, "failed", "It failed. Nothing of it is released.", headers={"Retry-After": "5"})


def _unread(cause: BaseException | None) -> str | None:
    """Why the framework could not read a body of JSON, whose error quotes it."""
    match cause:
        case UnicodeError():
            return NOT_UTF8
        case RecursionError():
            return "Expected a body whose lists and objects are nested less deeply."
        case ValueError():  # Python reads no number of so many digits
            return "Expected a body whose numbers have fewer digits."
        case _:
            return None


def parameters(request: Request) -> set[str]:
    """The names of the parameters of a route, without those of its path."""
    return {str(each.alias) for each in request.scope["route"].dependant.query_params}


def install(app: FastAPI, fields: Collection[str]) -> None:
    """Answer every error as a problem; `fields` are the names of fields in bodies."""

    async def problem(_: Request, error: Any) -> JSONResponse:
        return response_to(error)

    async def ours(_: Request, error: Any) -> JSONResponse:
        return response_to(problem_of(error))

    async def http(_: Request, error: Any) -> JSONResponse:
        said = _unread(error.__cause__) if error.status_code == 400 else None
        if said is not None:
            return response_of(400, "invalid", said)
        return response_of(error.status_code, "http", TITLES.get(error.status_code, "Refused."), headers=error.headers)

    async def invalid(request: Request, error: Any) -> JSONResponse:
        # The answer has place, kind and names of dptext alone: errors of the library quote the input.
        declared, found = parameters(request) | set(fields), list[Json]()
        said = "The request has not the form that /openapi.json says."
        for each in error.errors():
            kind, where, name = str(each["type"]), each["loc"], str(each["loc"][-1])
            named = name if name in declared else None
            row = where[2] if where[:2] == ("body", "records") and len(where) > 2 and type(where[2]) is int else None
            found.append({"in": str(where[0]), "kind": kind, "name": named} | ({} if row is None else {"record": row}))
            place = "" if row is None else f"records[{row}]"
            if kind == "json_invalid" or (kind == "model_attributes_type" and len(where) == 1):
                said = "Expected a body of JSON, and the header Content-Type: application/json."
            elif named or place:
                missing = " of ".join(filter(None, (named, place)))
                said = f"{missing} {_FAULTS.get(kind, _FORM)}"
        return response_of(422, "invalid", said, {"errors": found})

    async def unexpected(_: Request, __: Any) -> JSONResponse:
        return failed()

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(DPTextError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unexpected)
