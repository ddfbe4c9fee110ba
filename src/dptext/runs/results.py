"""`dptext.privatize`: from private texts to releases in memory, with their certificate."""

import itertools
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dptext import _validate
from dptext._wording import html_table, plural
from dptext.errors import ConfigError, needing
from dptext.mechanism import Mechanism, Spec
from dptext.privacy.guarantee import Guarantee
from dptext.runs.certificate import Certificate, Charged, certificate_path, reading_revealed, stream_mark
from dptext.runs.drawing import Drawing, Stream
from dptext.runs.plan import reveals_of
from dptext.runs.statements import Statement, stated
from dptext.runs.streaming import BATCH_SIZE, layout, limited, released, require_apart, require_guarantee, typed
from dptext.runs.typed_frames import pandas_columns, polars_frame, to_dataset
from dptext.sampling.randomness import Randomness, secure
from dptext.text.batches import Batch
from dptext.text.column_types import array, as_number, of_data
from dptext.text.columns import VECTOR_FIELD, Columns
from dptext.text.files import Target, sha256_of
from dptext.text.formats import Format, output_format
from dptext.text.reading import read_records, read_rows, require_records
from dptext.text.records import ID_FIELD, TEXT_FIELD, Fields, Record, Release
from dptext.text.tables import Texts, index_of, own_columns
from dptext.text.writers import encode_batch, write_all

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment

#: The output name in a certificate of releases in memory, which certifies their bytes as JSON Lines.
IN_MEMORY: Final = "releases.jsonl"
_READY: Final = "the ids and kept fields of ready records, if there are any"
_SHOWN: Final = 5  # rows in a notebook
_ADVICE: Final = "Repair it or take it out. Nothing after it was released."
_UNPAID: Final = "Repair it or take it out. Nothing is charged or released."


@dataclass(eq=False, repr=False, kw_only=True)
class Privatized(Iterable[Release[str]]):
    """The releases of a run, one per record, in order, with their certificate.

    No release is drawn twice. Releases of data in memory (a list, a frame, a Dataset) are kept as they are drawn, so
    that they can be iterated again, also by several threads at once. Releases of a stream (an iterator, a file) are
    drawn once and not kept: iterate, or call `to_records` or `write` first. Threads may share one iterator of a stream.

    A result belongs to the process that made it. It cannot be copied or pickled: send `to_records()`. A forked child
    has the releases drawn before the fork; a further draw there raises PrivacyError.

    Attributes:
        spec: the settings of the mechanism.
        left: the balance of the account in words; empty if no account paid.
    """

    spec: Spec
    left: str
    _statement: Statement
    _drawing: Drawing
    _fields: Fields
    _charged: Charged | None
    _index: object
    _own: Mapping[str, Any]  # columns that leave as they are: ids and kept fields, if the input has columns
    _types: Mapping[str, Any]  # types of the input's columns, by its schema
    _features: Mapping[str, Any]  # features of a Dataset's columns
    _inputs: tuple[Path, ...]

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees of each release, smallest unit first. They are known before the first draw."""
        return self._statement.guarantees

    def __iter__(self) -> Iterator[Release[str]]:
        """Iterate over the releases.

        Raises:
            ConfigError: the releases were drawn already and not kept.
            DataError: a record cannot be read, or an author has too many records.
        """
        return Stream(self._drawing) if self._drawing.kept is None else self._again(self._drawing.kept)

    def _again(self, kept: Sequence[Release[str]]) -> Iterator[Release[str]]:
        done = 0
        while self._drawing.has(done):
            yield kept[done]
            done += 1

    def __reduce__(self) -> str:
        raise TypeError(
            "A result of privatize cannot be copied or sent to another process: two copies would draw for one charge. "
            "Send to_records(), or write(path)."
        )

    @property
    def certificate(self) -> Certificate:
        """The certificate of all releases. Releases of data in memory are drawn now, if they are not yet.

        The certificate has the sha256 of the releases as JSON Lines; `write` returns the certificate of a file.
        ConfigError: not all releases of a stream are drawn. DataError: there are no releases.
        """
        if self._drawing.kept is not None:
            self._drawing.finish()
        if not self._drawing.is_complete:
            raise ConfigError(
                f"So far {plural(self._drawing.n, 'release')} drawn. The certificate is complete when the stream is: "
                "iterate to its end, or call to_records() or write(path)."
            )
        return self._certificate(IN_MEMORY, self._drawing.sha256)

    def to_records(self) -> list[Release[str]]:
        """Return all releases and keep them. ConfigError: releases were drawn already and not kept."""
        self._drawing.keep()
        self._drawing.finish()
        return list(self._drawing.kept or ())

    def json_lines(self) -> bytes:
        """Return the releases as JSON Lines, the bytes whose sha256 `certificate` has. ConfigError as `to_records`."""
        return _json_lines(self.to_records(), self.spec, self._fields, self._types)

    def to_pandas(self) -> Any:
        """Return a pandas data frame with the input's column names and the index of the privatized frame.

        Ids and kept fields keep their values and types, so that frames merge by them. Labels have the type of their
        input column if each label of the public set is a value of that type. Columns of public texts that leave have
        the types of the public table.

        The index is the private frame's own: reset the index before you hand the frame on.

        Errors as `to_records`; MissingExtraError: pandas is not installed.
        """
        with needing("A data frame", "dptext[frames]"):
            import pandas as pd  # noqa: PLC0415 (an extra)
        found = {name: _of_pandas(own) for name, own in self._typed().items()}
        found = pandas_columns(found, dict(self.spec.traits.carried_types))
        return pd.DataFrame({**found, **self._own}, index=self._index)

    def to_polars(self) -> Any:
        """Return a polars data frame of these columns. Errors as `to_records`; MissingExtraError: without polars."""
        own = {name: list(column) for name, column in self._own.items()}
        return polars_frame({**self._typed(), **own}, dict(self.spec.traits.carried_types))

    def _typed(self) -> dict[str, Any]:
        found, columns = self._columns(), self._layout([])
        kinds = {name: kind for name, kind in columns.types if columns.label and name == self._fields.label}
        return {name: _of_type(own, kinds[name]) if name in kinds else own for name, own in found.items()}

    def to_dataset(self) -> Any:
        """Return a `datasets.Dataset` of Hugging Face with the input's column names.

        Columns of an input Dataset keep their types. A column of classes does so if each public label is a class.

        Errors as `to_records`; MissingExtraError: datasets is not installed.
        """
        found = {**self._columns(), **{name: list(column) for name, column in self._own.items()}}
        label, labels, types = self._fields.label, self.spec.traits.labels, dict(self._layout([]).types)
        if label in types and self.spec.traits.releases_labels:
            found[label] = array(found[label], types[label]).to_pylist()
        features = dict[str, Any]()
        for name, kind in self._features.items():
            classes = set(getattr(kind, "names", ()))
            if name in self._own or (name == label and (name in types or set(labels) <= classes) and labels):
                features[name] = kind
        return to_dataset(found, dict(self.spec.traits.carried_types), features)

    def write(self, path: str | Path, *, format: Format | None = None, force: bool = False) -> Certificate:
        """Write the releases to a file and the certificate beside it; return the certificate.

        Args:
            path: path of the file, which is gzipped if the path ends in `.gz`.
            format: format of the file; None infers it from the extension.
            force: whether existing files are replaced.

        ConfigError: a path cannot be used, or the releases were drawn already and not kept.
        """
        paths = Path(path), certificate_path(Path(path))
        target, beside = (Target(each, force, self._inputs, private=False) for each in paths)
        kind = output_format(target.path, format)
        for each in (target, beside):
            each.check()  # a faulty path must fail before a draw costs privacy
        if self._drawing.kept is None:
            self._drawing.begin()
            parts: Iterator[Sequence[Release[str]]] = iter(self._drawing.part, [])
        else:
            parts = iter([self.to_records()])
        with target.opened() as file:
            write_all(file, target.path, parts, kind, self._layout)
            file.flush()
            found = self._certificate(target.path.name, sha256_of(Path(file.name)))
            beside.write(found.to_json().encode())  # the certificate comes first: no text without its certificate
        return found

    def __repr__(self) -> str:
        return f"Privatized({self.spec.kind}, {plural(self._drawing.n, 'release')} drawn)"

    def _repr_html_(self) -> str:
        said = [self.guarantees[-1].sentence(), self.left]
        head = "".join(f"<p>{escape(each)}</p>" for each in said if each)
        drawing = self._drawing
        if drawing.kept is None:
            return f"{head}<p>A stream, with {plural(drawing.n, 'release')} drawn. to_records() keeps them.</p>"
        drawing.has(_SHOWN - 1)
        columns = self._columns(drawing.kept[:_SHOWN])
        whole = plural(drawing.n, "release") if drawing.is_complete else "the releases"
        return head + html_table(list(columns), zip(*columns.values(), strict=True), f"The first of {whole}.")

    def _certificate(self, name: str, sha256: str) -> Certificate:
        require_records(self._drawing.n, "The private texts")
        return self._statement.certificate(
            name, sha256, self._drawing.n, charged=self._charged, fields=self._layout([]).renamed
        )

    def _layout(self, first: Sequence[Release[str]]) -> Columns:
        return _layout(self.spec, first[0].kept if first else self._fields.keep, self._fields, self._types)

    def _columns(self, releases: Sequence[Release[str]] | None = None) -> dict[str, list[Any]]:
        releases = self.to_records() if releases is None else releases
        fields, traits = self._fields, self.spec.traits
        found: dict[str, list[Any]] = {fields.id or ID_FIELD: [each.id for each in releases]}
        if traits.releases_text:
            found[fields.text] = [each.output for each in releases]
        if traits.releases_vectors:
            found[VECTOR_FIELD] = [list(each.vector or ()) for each in releases]
        if traits.releases_labels:
            found[fields.label or "label"] = [each.label for each in releases]
        for name in dict.fromkeys(name for each in releases for name in each.kept):
            found[name] = [each.kept.get(name) for each in releases]
        return found


def privatize(
    private: Texts,
    mechanism: Mechanism[str],
    *,
    text: str = TEXT_FIELD,
    label: str | None = None,
    id: str | None = None,
    author: str | None = None,
    keep: Iterable[str] = (),
    empty_nulls: bool = False,
    record: str | None = None,
    randomness: Randomness | None = None,
    delta: float = 0.0,
    batch_size: int = BATCH_SIZE,
    max_per_author: int | None = None,
    without_guarantee: bool = False,
    payment: "Payment | None" = None,
) -> Privatized:
    """Privatize texts. Releases are drawn when the result is used.

    If an account pays, data that can be read again (in memory, or the path of a file) are read to their end and
    checked before the charge. Of data that can be read only once (an iterator, a pipe), the first record is checked
    before the charge. A fault in a later record is found after the charge, and the charge is not undone.

    Args:
        private: texts; rows as mappings; records; a frame or series of pandas, polars or pyarrow; a Dataset; the path
            of a file; or an iterator of rows, which is read as releases are drawn, in constant memory.
        mechanism: a fitted mechanism.
        text: column of the texts.
        label: column of the labels, if the mechanism privatizes labels.
        id: column of the ids, which leave as they are; None numbers the rows.
        author: column of the authors, for `max_per_author`.
        keep: names of columns that are public and leave as they are.
        empty_nulls: True reads a null text as an empty text; False makes it an error.
        record: record of a plain text file: "file", "line" or "block"; see `read_records`.
        randomness: `randomness.secure()` by default; seeded randomness voids the guarantee.
        delta: the delta at which the guarantee is stated.
        batch_size: number of records that are computed together; changes speed only.
        max_per_author: most records of one author. The first record beyond this number is refused (DataError).
        without_guarantee: say that a mechanism of basis NONE is meant.
        payment: the account that is charged for everyone in it before `privatize` returns: the subjects of a stream
            cannot be counted before the draws. `privatize_file` can charge named subjects.

    Raises:
        NoGuaranteeError: the mechanism guarantees nothing, and `without_guarantee` is not set or `payment` is.
        BudgetExceededError: the account cannot pay.
        ConfigError: a setting is wrong, or `private` holds no texts.
        DataError: a record cannot be read, an author has too many records, or there is no record to pay for. The error
            comes while drawing, or before the charge as said above.
    """
    _validate.count(batch_size=batch_size)
    if isinstance(mechanism, Spec):
        raise ConfigError(f"Expected a fitted mechanism, found settings. Fit them: dp.fit({mechanism.kind}, public).")
    require_guarantee(mechanism.spec, without_guarantee)
    traits, kind = mechanism.spec.traits, mechanism.spec.kind
    if label is not None and not traits.releases_labels:
        raise ConfigError(f"Expected no label={label!r}: {kind} with these settings does not privatize labels.")
    if label is None and traits.reads_labels and not _may_be_ready(private):
        raise ConfigError(
            f"Expected label=NAME, the column of the labels: {kind} reads them together with the texts. Without any, "
            "fit it without labels."
        )
    randomness, kept = randomness or secure(), (keep,) if isinstance(keep, str) else tuple(keep)
    fields = Fields(text=text, id=id, label=label, author=author, keep=kept)
    require_apart(mechanism.spec, fields)
    in_memory = isinstance(private, Sized) and not isinstance(private, str)
    if max_per_author is not None:
        _validate.count(max_per_author=max_per_author)

    def read(advice: str) -> Iterator[Batch]:
        if isinstance(private, list | tuple) and record is None:
            batches: Iterator[Batch] = read_rows(private, fields, empty_nulls=empty_nulls, advice=advice)
        else:
            records = read_records(private, fields, empty_nulls=empty_nulls, record=record, advice=advice)
            batches = (Batch.of([each]) for each in records)
        return batches if max_per_author is None else limited(batches, max_per_author)

    types, own = of_data(private), own_columns(private, [*([] if id is None else [id]), *kept])
    batches = read(_UNPAID if payment is not None and in_memory else _ADVICE)
    reading = ("empty_nulls",) * empty_nulls
    ready = (_READY,) if _may_be_ready(private) else ()
    reveals = (*reveals_of(fields), *ready, *reading_revealed(reading))
    statement = stated(
        mechanism,
        randomness=randomness,
        delta=delta,
        max_per_author=max_per_author,
        reveals=reveals,
        reading=reading,
        record=record,
        payment=payment,
    )
    charged, left, due = None, "", statement.due
    if payment is not None and due is not None:
        due.weigh(payment.key, None)  # errors come before a record of a stream is taken
        is_file = isinstance(private, str | PathLike) and Path(private).is_file()
        batches = _checked(batches, in_memory=in_memory, before=read(_UNPAID) if is_file else None)
        key, stream = payment.charge_key(), secrets.token_hex(32)
        charged = statement.charged(due.charge(key, None), stream)
        due.settle(key, stream_mark(stream))  # the charge pays for this stream alone
        left = payment.left()
    return Privatized(
        spec=mechanism.spec,
        left=left,
        _statement=statement,
        _drawing=Drawing(
            released(batches, mechanism, randomness, batch_size=batch_size),
            lambda part: _json_lines(part, mechanism.spec, fields, types),
            keep=in_memory,
        ),
        _fields=fields,
        _charged=charged,
        _index=index_of(private),
        _own=own,
        _types=types,
        _features=getattr(private, "features", None) or {},
        _inputs=(Path(private),) if isinstance(private, str | PathLike) else (),
    )


def _checked(batches: Iterator[Batch], *, in_memory: bool, before: Iterator[Batch] | None) -> Iterator[Batch]:
    """Return the records after the checks that are possible before the charge. DataError: a faulty or no record.

    `before` has the records of a file a second time, to be read now and not kept.
    """
    if in_memory:
        batches = iter([Batch.of([record for batch in batches for record in batch])])
    elif before is not None:
        require_records(sum(map(len, before)), "The private texts")
        return batches
    first = next(batches, None)
    require_records(0 if first is None else len(first), "The private texts")
    return itertools.chain(filter(None, [first]), batches)


def _may_be_ready(private: Texts) -> bool:
    """Return whether the rows may contain `Record` objects, which have ids and kept fields of their own."""
    if isinstance(private, str | PathLike) or hasattr(private, "columns") or hasattr(private, "column_names"):
        return False  # a file, a frame, a Dataset
    rows: Any = private
    return not isinstance(private, Sized) or any(isinstance(row, Record) for row in rows)


def _layout(spec: Spec, keep: Iterable[str], fields: Fields, types: Mapping[str, Any]) -> Columns:
    return typed(layout(spec, keep, fields), types, spec)


def _of_type(labels: Sequence[str | None], kind: Any) -> Any:
    """Return labels as an array of pyarrow of a type. A type given by name is a type of numbers, which are a list."""
    if isinstance(kind, str):
        return [None if each is None else as_number(each, kind) for each in labels]
    return array(labels, kind)


def _of_pandas(column: Any) -> Any:
    return column.to_pandas().array if hasattr(column, "to_pandas") else column


def _json_lines(part: Sequence[Release[str]], spec: Spec, fields: Fields, types: Mapping[str, Any]) -> bytes:
    if not part:
        return b""
    if len({tuple(release.kept) for release in part}) > 1:
        return b"".join(_json_lines([release], spec, fields, types) for release in part)
    return encode_batch(part, Format.JSONL, _layout(spec, part[0].kept, fields, types))
