"""The bodies of requests and answers, which `/openapi.json` describes."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Header
from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, WithJsonSchema, model_validator

from dptext.text.formats import Scalar
from dptext_gateway.answers import FORM
from dptext_gateway.problems import TITLES
from dptext_gateway.settings import MOST_RECORDS
from dptext_gateway.work import Wanted

_LONGEST: Final = 200


class _RequestBody(BaseModel):
    """A body, refused at its first unknown field: an error for each unknown field could be as long as the body."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def known(cls, given: Any) -> Any:
        """Return the body. ValueError: it has an unknown field."""
        if isinstance(given, dict) and not given.keys() <= cls.model_fields.keys():
            raise ValueError("There is a field that nobody knows.")
        return given


def _plain(value: Any) -> Scalar:
    if isinstance(value, str | int | float | bool | None):
        return value
    raise AssertionError("It is a list or an object.")  # pydantic reports this kind of error as `PLAIN`


#: JSON type of an id, a label or an author; the reader of records, which files and jobs share, checks the value.
Plain = Annotated[
    Any,
    AfterValidator(_plain),
    WithJsonSchema({"anyOf": [{"type": each} for each in ("string", "number", "boolean", "null")]}),
]


class Row(_RequestBody):
    """A private record."""

    text: str
    id: Plain = None
    label: Plain = None
    author: Plain = None


class Records(_RequestBody):
    """A few private records."""

    records: Annotated[list[Row], FailFast()] = Field(min_length=1, max_length=MOST_RECORDS)
    max_per_author: int | None = Field(None, ge=1, le=1_000_000)
    delta: float = Field(0.0, ge=0, lt=1)

    def wanted(self) -> Wanted:
        """Return the request without the fields that its records leave out."""
        rows = [each.model_dump(exclude_unset=True) for each in self.records]
        return Wanted(rows, self.max_per_author, self.delta)


class Question(_RequestBody):
    """A request to explain a model: the protected unit, and the delta at which guarantees are stated."""

    unit: str | None = None
    delta: float = Field(0.0, ge=0, lt=1)


class Opening(_RequestBody):
    """A new account."""

    name: str = Field(min_length=1, max_length=_LONGEST)
    epsilon: float = Field(gt=0, le=1e6)
    delta: float = Field(0.0, ge=0, lt=1)
    unit: str = "document"
    relation: str = "replace_one"
    dataset: str | None = Field(None, min_length=1, max_length=_LONGEST)


class CorpusWish(_RequestBody):
    """A wish for a corpus from a summary. A seed is no part of it: whoever knows a seed knows the choices.

    Attributes:
        size: number of texts; 0 takes most of the pool, in the `shares` of labels of the summary.
        mix: shares of labels in the place of these; other labels keep their share of the rest.
        drop_other: whether columns have declared values alone. A summary without columns refuses it.
    """

    size: int = Field(0, ge=0)
    mix: dict[str, Annotated[float, Field(ge=0, le=1)]] | None = None
    format: Literal["jsonl", "csv", "parquet"] = "jsonl"
    drop_other: bool = False


class KeyTold(BaseModel):
    """A key: its name, its account and its rights; `max_file` is in bytes."""

    name: str
    account: str | None
    unit: str | None
    scopes: list[str]
    max_file: int


class ModelTold(BaseModel):
    """A model: its settings and guarantees, as data and in words."""

    name: str
    kind: str
    answers: str = Field(description='"each text" or "a corpus"')
    settings: dict[str, Any]
    reads_labels: bool
    labels: list[str]
    measured: list[str] = Field(description="columns of the file that are measured beside text, label and author")
    guarantees: list[dict[str, Any]]
    sentence: str
    words: list[str]


class Cost(BaseModel):
    """The cost of a release, and the balance of the account in words."""

    epsilon: str
    balance_in_words: str


class SummaryTold(BaseModel):
    """What can be written from a summary."""

    labels: list[str]
    columns: list[str] = Field(description="the declared columns, which a corpus has, too")
    shares: list[float] = Field(description="share of each label without a mix: noisy, pulled towards equal by noise")
    most: int = Field(description="most texts of one corpus, as the pool can give; 0 if none is written")
    refused: str | None = Field(description="why the gateway writes nothing from it")


class Words(BaseModel):
    """A certificate in plain words, and on one page for the person who answers for the release."""

    words: str
    legal: str
    legal_page: dict[str, Any] = Field(description="title, sections of heading, lines and table, footer")


class Answer(Words):
    """The releases of a request, with their certificate."""

    releases: str = Field(description="JSON Lines, one line per record")
    certificate: str = Field(description="JSON")
    sentence: str
    balance_in_words: str


class AccountBalance(BaseModel):
    """An account, and what is left of it."""

    name: str
    dataset: str
    unit: str
    relation: str
    epsilon: float
    delta: float
    spent: str
    left: str
    charges: int


class ChargeTold(BaseModel):
    """A charge, and the mark of the release that it paid for: null until it is settled.

    The mark is the sha256 of the released file, or "stream" and the `charged.stream` of the certificate.
    """

    number: int
    at: str
    kind: str
    epsilon: str
    release_mark: str | None


class Log(AccountBalance):
    """An account with its last charges, the newest first."""

    log: list[ChargeTold]


class Noted(BaseModel):
    """A line of the audit log. `number` counts the lines of all accounts; only administrators see it.

    `charge` is the number of a charge. `result_sha256` is the sha256 of the result, as its certificate states it.
    """

    number: int | None
    at: float
    who: str
    account: str | None
    model: str | None
    event: str
    charge: int | None
    result_sha256: str | None


class JobTold(BaseModel):
    """The state of a job. `problem` speaks of the file's contents only to the key that sent the file."""

    id: str
    kind: str
    model: str
    summary: bool = Field(description="whether it makes a summary, from which corpora are written")
    state: str
    records_done: int
    problem: str | None
    created: float
    result_sha256: str | None
    expires: float | None


class Refusal(BaseModel):
    """A problem by RFC 9457; `budget-exhausted` has the further fields asked, left and missing."""

    model_config = ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    detail: str


#: Names of the fields of request bodies.
FIELDS: Final = frozenset(name for each in (Records, Row, Question, Opening, CorpusWish) for name in each.model_fields)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of a route's answers with these statuses, each a problem."""
    content = {"application/problem+json": {"schema": Refusal.model_json_schema()}}
    return {status: {"description": TITLES[status], "content": content} for status in statuses}


#: Problems of every route that needs a key.
KEYED: Final = refusals(401, 403, 408, 413, 415, 422, 429, 503)
#: Problems of routes whose path names a model, an account or a job.
NAMED: Final = {**KEYED, **refusals(404)}


#: Description of the required header; `usable` refuses a request without it.
IDEMPOTENT: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "schema": {"type": "string", "pattern": f"^{FORM.pattern}$"},
        }
    ]
}
IdempotencyKey = Annotated[str | None, Header(include_in_schema=False)]


def file_of(description: str, *kinds: str) -> dict[str, Any]:
    """Return the description of a body that is a file of one of these media types."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {"description": description, "content": dict.fromkeys(kinds, binary)}
