"""A private corpus in, a synthetic corpus and its certificate out: `dptext.synthesize`.

Nothing of the private corpus is on a disk at any time: sums are in memory. A run that is killed while it writes leaves
noisy files under names of their own, for their owner alone; the next run to the same output deletes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from glob import glob
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from dptext._wording import html_text
from dptext.errors import BrokenFileError, ConfigError, DataError, HeaderError, IncomparableError, NoGuaranteeError
from dptext.mechanism import settings
from dptext.privacy.guarantee import ONE_SPELLING, Basis, Guarantee, Unit
from dptext.privacy.names import COMPARED, normal_form
from dptext.runs.certificate import READING, Certificate, Charged, certificate_path, stream_mark
from dptext.runs.results import IN_MEMORY
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.streaming import BATCH_SIZE, guarantees, split
from dptext.sampling.source import Randomness, secure
from dptext.synthesis.report import Topics, topics_page
from dptext.synthesis.space import Corpus
from dptext.synthesis.spec import Fitted, SynthesisSpec
from dptext.text.batches import Batch
from dptext.text.columns import Columns
from dptext.text.files import Target, sha256_of, writing
from dptext.text.formats import Format, output_format
from dptext.text.packed_rows import load_pyarrow
from dptext.text.reading import OnError, as_records, read_batches, read_records
from dptext.text.records import TEXT_FIELD, Fields, Record, Release
from dptext.text.tables import Texts
from dptext.text.writers import encode_batch, write_all
from dptext.types import Json
from dptext.version import __version__

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Due, Payment

Item = TypeVar("Item")
#: What the names of the topic report end with, which lies beside an output file: as JSON, and as a page.
REPORT_SUFFIXES: Final = (".topics.json", ".topics.html")
_UNREADABLE: Final = (
    "The private corpus cannot be read to its end, so nothing is released. What is at fault is private here: "
    "`dptext check` shows it."
)
_NO_COLUMN: Final = (
    "The header of the private corpus lacks a column that was named, or has it several times, so nothing is released: "
    "`dptext check` shows its columns."
)
_SEVERAL: Final = (
    "A subject has several records, so nothing is released: where unit='document' a subject is one record, which is "
    "charged once. Name documents, or take unit='author'."
)


@dataclass(frozen=True, slots=True)
class Synthesized:
    """A synthetic corpus with its certificate.

    Attributes:
        releases: public texts with labels, under ids that belong to nobody.
        report: noisy numbers by label and topic.
        sentences: the report in plain words.
        certificate: of the releases as JSON Lines; `write` gives the one of a file.
        left: what the account has left in words, where one paid.
        inputs: the files that it was made from, which `write` never replaces.
        settle: of a run with settled=False, settles the charge: before anybody sees what was drawn.
    """

    releases: tuple[Release[str], ...]
    report: Topics
    sentences: tuple[str, ...]
    certificate: Certificate
    left: str = ""
    inputs: tuple[Path, ...] = ()
    settle: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What the whole of it guarantees."""
        return self.certificate.guarantees

    def write(
        self,
        path: str | PathLike[str],
        *,
        format: Format | None = None,
        force: bool = False,
        settle: Callable[[], None] | None = None,
    ) -> Certificate:
        """Write the corpus (a report alone: as JSON), its certificate, and a topic report where there is one.

        All are whole before any has its name; `settle` is called in between. ConfigError: a path cannot be used.
        """
        target, beside, *reports = (Target(each, force, self.inputs, private=False) for each in paths_of(Path(path)))
        for each in (target, beside, *reports):
            each.check()
            each.clear()  # another draw under the same charge
        kind, columns = file_columns(target.path, format, self.certificate.settings)
        page = topics_page(self.report, [self.guarantees[-1].sentence(), *self.sentences]).encode()
        with contextlib.ExitStack() as whole:  # left in the other order: the certificate has its name first
            file = whole.enter_context(target.opened())
            if self.releases:
                write_all(file, target.path, [self.releases], kind, lambda _: columns)
            else:
                _put(target, file, _as_json(self.report))
            file.flush()
            named = replace(self.certificate, output=target.path.name, sha256=sha256_of(Path(file.name)))
            contents = _as_json(self.report), page, named.to_json().encode()
            for each, data in zip((*reports, beside), contents, strict=True):
                _put(each, whole.enter_context(each.opened()), data)
            if settle is not None:
                settle()
        return named

    def to_dict(self) -> dict[str, list[str | None]]:
        """The columns id, text and label, as a data frame takes them."""
        names = {"id": "id", "text": "output", "label": "label"}
        return {name: [getattr(each, its) for each in self.releases] for name, its in names.items()}

    def __repr__(self) -> str:
        return f"Synthesized({self.certificate.settings['kind']}, {len(self.releases):,} texts)"

    def _repr_html_(self) -> str:
        return html_text("\n".join([self.guarantees[-1].sentence(), *self.sentences]))


def synthesize(
    private: Texts,
    public: Texts,
    *,
    kind: str = "prototypes",
    text: str = TEXT_FIELD,
    label: str | None = None,
    author: str | None = None,
    public_text: str | None = None,
    payment: Payment | None = None,
    randomness: Randomness | None = None,
    seed: int | None = None,
    **set_: Json,
) -> Synthesized:
    """A synthetic corpus that says what a private one says, under one epsilon for all of it.

    A private record that cannot be read, or says nothing, adds nothing, and nobody is told: an error would tell that it
    is there. Fields that no JSON object or row has give noise alone, too: look with `dptext check` first.

    Args:
        private: texts, rows, records, a data frame, a Dataset, or the path of a file, which may have no records.
        public: the pool, of which texts leave; its labels are not looked at.
        kind: the way: "prototypes" (labels wanted), "votes", or "topics" (a report alone).
        text: column of the texts.
        label: column of the labels, where the settings have some.
        author: column of the authors, wanted where unit="author".
        public_text: column of the pool's texts, where it has another name.
        payment: the account that is charged, for everyone in it, before any noise is drawn.
        randomness: `randomness.secure()` by default; a seeded one voids the guarantee.
        seed: of clusters and directions of the pool, which are public.
        set_: settings: epsilon, delta, unit, labels, size, and those of the way; see `dptext.Prototypes`.

    Raises:
        ConfigError: settings that cannot be used, or a column that is needed.
        BrokenFileError: the file cannot be read to its end; HeaderError, where its header lacks a column. Before the
            account is charged.
        DataError: a subject has several records.
        BudgetExceededError: the account cannot pay.
        MissingExtraError: a package is not installed.
    """
    spec = synthesis_from_settings({"kind": kind, **set_})
    refuse_same(private, public)
    fitted = spec.fit(public=as_records(public, text=public_text or text), seed=seed)
    fields = Fields(text=text, label=label, author=author)
    return run(Private(private, fields, {}), fitted, payment=payment, randomness=randomness)


def refuse_same(private: object, public: object) -> None:
    """ConfigError where the private corpus is or holds the pool, whose texts leave as they are."""
    same = private is public
    if isinstance(private, str | PathLike) and isinstance(public, str | PathLike):
        mine, pool = Path(private).resolve(), Path(public).resolve()
        same = mine == pool or mine in pool.parents or (mine.exists() and pool.exists() and mine.samefile(pool))
        among = glob(str(private), recursive=True)  # noqa: PTH207  # a pattern may be absolute
        same = same or any(Path(each).resolve() == pool for each in among)
    if same:
        found = f" Found both in {str(private)!r}." if isinstance(private, str | PathLike) else ""
        fault = "Expected a public pool beside the private corpus: texts of the pool leave as they are."
        raise ConfigError(fault + found)


@dataclass(frozen=True, slots=True, repr=False)
class Private:
    """The private corpus and how it is read.

    Attributes:
        source: read from its beginning at each pass; what can be read once only is kept in memory.
        reading: keywords of `read_batches`, but for what is done with records that cannot be read: they add nothing.
    """

    source: Texts
    fields: Fields
    reading: dict[str, object]

    def batches(self) -> Generator[Batch, None, None]:
        """The records, in batches of a public size. No error says which record, or how many there are."""
        return untold(split(map(_named, self.found()), BATCH_SIZE))

    def found(self) -> Iterator[Batch]:
        """The records that can be read, of a file that may be empty."""
        reading: dict[str, Any] = {**self.reading, "on_error": OnError.SKIP}
        if isinstance(self.source, str | PathLike):
            return read_batches(self.source, self.fields, **reading, allow_empty=True)
        records = read_records(self.source, self.fields, **reading)
        return (Batch.of([record]) for record in records)

    @property
    def corpus(self) -> Corpus:
        """The records, to be read more than once."""
        return self.batches

    @property
    def of_records(self) -> bool:
        """Whether labels and authors stand in records, so that no column needs to be named."""
        source = self.source
        return isinstance(source, list | tuple) and all(isinstance(each, Record) for each in source[:1])

    def kept(self) -> Private:
        """The same, readable more than once. A file is read to its end: errors come before anything is paid."""
        if isinstance(self.source, Iterator):
            return replace(self, source=list(self.source))
        found = self.batches()  # refuses a frame that lacks a column
        if isinstance(self.source, str | PathLike):
            if Path(self.source).is_fifo():
                return replace(self, source=[record for batch in found for record in batch])
            for _ in found:
                pass
        return self


def untold(found: Iterable[Item]) -> Generator[Item, None, None]:
    """The same; an error of a file becomes one that does not say where, or of how many records."""
    fault: DataError | None = None
    try:
        yield from found
    except HeaderError:
        fault = HeaderError(_NO_COLUMN)
    except DataError:
        fault = BrokenFileError(_UNREADABLE)
    if fault is not None:
        raise fault  # outside of `except`: nothing of the record is chained to it


def _named(batch: Batch) -> Batch:
    """Authors are compared in normal form; white space alone names nobody."""
    authors = [normal_form(name or "") or None for name in batch.authors]
    return Batch(batch.ids, batch.texts, batch.labels, authors, batch.subjects, batch.kept)


def run(
    private: Private,
    fitted: Fitted,
    *,
    payment: Payment | None = None,
    randomness: Randomness | None = None,
    delta: float = 0.0,
    settled: bool = True,
) -> Synthesized:
    """Charge, sum up, add noise, settle; see `synthesize`. Who says settled=False settles before it shows anything."""
    spec, randomness = fitted.spec, randomness or secure()
    fields, private = private.fields, private.kept()
    if spec.labels and fields.label is None and not private.of_records:
        raise ConfigError("Expected the column of the labels: label=NAME, or --label-field NAME.")
    if spec.unit == "author" and fields.author is None and not private.of_records:
        raise ConfigError("Expected the column of the authors, as unit='author': author=NAME, or --author-field NAME.")
    promised = guarantees(spec, randomness=randomness, delta=delta)
    due = None if payment is None else due_of(payment, spec, randomness, fields)
    charged, left, key = None, "", ""
    if due is not None and payment is not None:
        key = payment.key or secrets.token_hex(16)
        charged, left = _charge(due, key, private), payment.left()
    try:
        found = fitted.synthesize(private.corpus, randomness)
    except BaseException as error:
        if charged is not None:
            error.add_note(f"Charge key {key!r} was charged and released nothing: a run under it is not charged again.")
        raise
    both = enumerate(zip(found.texts, found.labels, strict=True))
    releases = tuple(Release(str(i), text, label) for i, (text, label) in both)
    columns = Columns(label=bool(releases) and releases[0].label is not None)
    data = encode_batch(releases, Format.JSONL, columns) if releases else _as_json(found.report)
    settle = None
    if due is not None and charged is not None:
        stream = secrets.token_hex(32)
        settle = partial(due.settle, key, stream_mark(stream))
        if settled:
            settle()
            settle = None
        charged = replace(charged, stream=stream)
    certificate = Certificate(
        settings=settings(spec),
        events=spec.events(spec.units[0]),
        guarantees=promised,
        records=len(releases),
        output=IN_MEMORY,
        sha256=hashlib.sha256(data).hexdigest(),
        digests=fitted.digests,
        randomness="secure" if randomness.is_secure else "seeded",
        delta=delta,
        max_per_author=None,
        also_reveals=(),
        version=__version__,
        charged=charged,
        reading=tuple(name for name in READING if private.reading.get(name)),
    )
    inputs = (Path(private.source),) if isinstance(private.source, str | PathLike) else ()
    return Synthesized(releases, found.report, found.sentences, certificate, left, inputs, settle)


def paths_of(target: Path) -> tuple[Path, ...]:
    """The files of one output: the corpus, its certificate, the report as JSON, the report as a page."""
    return target, certificate_path(target), *(target.with_name(target.name + end) for end in REPORT_SUFFIXES)


def file_columns(target: Path, format: Format | None, spec: Mapping[str, Json]) -> tuple[Format, Columns]:
    """The format and the columns of an output; ConfigError where they do not fit, to be raised before a run is paid."""
    wanted = synthesis_from_settings(spec)
    columns = Columns(label=bool(wanted.labels))
    if not wanted.writes:
        if target.suffix != ".json":
            raise ConfigError(f"Expected OUT.json, found {str(target)!r}: {wanted.kind} writes a report alone.")
        return Format.JSON, columns
    kind = output_format(target, format)
    columns.names(kind)
    if kind is Format.PARQUET:
        load_pyarrow()
    return kind, columns


def _put(target: Target, file: BinaryIO, data: bytes) -> None:
    with writing(target.path):
        file.write(data)
        file.flush()


def _as_json(report: Topics) -> bytes:
    return json.dumps(report.to_dict(), indent=2, ensure_ascii=False).encode()


def _subjects(private: Private, due: Due) -> Iterator[str]:
    """The subject of each record; of authors, each once, as the account compares names."""
    digest, seen = due.payment.ledger.subjects_digest(due.account.name), set[bytes]()
    for batch in private.batches():
        for subject in batch.subjects:
            if due.request.unit is Unit.AUTHOR:
                hashed = digest.add(subject or "")
                if hashed in seen:
                    continue
                seen.add(hashed)
            yield subject or ""


def _charge(due: Due, key: str, private: Private) -> Charged:
    """Pay before any noise is drawn. No error says how many records a subject has."""
    fault = None
    try:
        named = None if private.fields.subject is None else _subjects(private, due)
        return due.charged(due.charge(key, named))
    except DataError as error:
        fault = error if isinstance(error, BrokenFileError) else DataError(_SEVERAL)
    raise fault


def due_of(payment: Payment, spec: SynthesisSpec, randomness: Randomness, fields: Fields) -> Due:
    """What the run has to pay: all of it once, for everyone in the account or for each subject.

    A document is a record, so a subject that is a document has one record; a subject that is an author is the author
    whose records are added up.
    """
    from dptext.ledger.requests import Request, Terms  # noqa: PLC0415 (loads the ledger, as whoever pays did)
    from dptext.runs.payment import Due  # noqa: PLC0415

    if not randomness.is_secure:
        raise NoGuaranteeError("Expected secure randomness where a ledger pays: who knows the seed undoes the noise.")
    account = payment.found(by_subject=fields.subject is not None)
    if account.limit.unit is not Unit(spec.unit):
        raise IncomparableError(
            f"Expected unit={account.limit.unit.value!r}, as account {account.name!r} is per "
            f"{account.limit.unit.value}, found {spec.unit!r}."
        )
    if spec.unit == "author" and fields.subject not in (None, fields.author):
        raise ConfigError(
            f"Expected the subjects of account {account.name!r}, which is per author, to be the authors: name the same "
            "field for both, or leave the field of the subjects out."
        )
    promised = spec.guarantee()
    assumed = [*promised.assumptions, *([ONE_SPELLING] if spec.unit == "author" else [])]
    if fields.subject is not None:
        assumed.append(
            f"each subject has one name in all runs (names are {payment.ledger.naming(account.name).compared})"
        )
    elif spec.unit == "author":
        assumed.append(f"names of authors are {COMPARED}")
    terms, unit = Terms(promised.trust, Basis.CONDITIONAL, tuple(assumed)), Unit(spec.unit)
    return Due(payment, account, Request(spec.events(unit), unit, promised.relation, terms, settings(spec)))
