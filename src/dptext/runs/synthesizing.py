"""`dptext.synthesize`: from a private corpus to a synthetic corpus with its certificate.

No part of the private corpus is written to a disk: sums stay in memory. `dptext.runs.unpublished` keeps a drawn corpus
until it is published.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dptext.errors import BrokenFileError, ConfigError, DataError, DPTextError
from dptext.mechanism import OnProgress
from dptext.privacy.guarantee import Unit
from dptext.runs.apart import refuse_same
from dptext.runs.carried import Carried, require_own_names
from dptext.runs.certificate import READING, Certificate, Charged, stream_mark
from dptext.runs.known_languages import in_other_language
from dptext.runs.private import Private
from dptext.runs.results import IN_MEMORY
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.statements import Statement, stated
from dptext.runs.synthesized import Synthesized
from dptext.sampling.randomness import Randomness, secure
from dptext.synthesis.spec import CorpusSpec, Fitted, Progress, SynthesisSpec, Synthetic
from dptext.synthesis.summary import Summary, WritesFromSummary, measured_first
from dptext.synthesis.sums import Draws
from dptext.text.column_types import corpus_label_type, of_data, of_parquet, of_values
from dptext.text.columns import Columns
from dptext.text.formats import Format, file_format
from dptext.text.reading import as_records, of_public_files
from dptext.text.records import TEXT_FIELD, Fields, Record, Release
from dptext.text.tables import Texts
from dptext.types import Json

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Due, Payment

#: Called with a summary as bytes, and its certificate, before anything is written from it.
OnMeasured = Callable[[bytes, Certificate], None]
_SEVERAL: Final = (
    "A subject has several records, so nothing is released: where unit='document' a subject is one record, which is "
    "charged once. Name documents, or take unit='author'."
)


def synthesize(
    private: Texts,
    public: Texts,
    *,
    kind: str = "prototypes",
    text: str = TEXT_FIELD,
    label: str | None = None,
    author: str | None = None,
    public_text: str | None = None,
    carry: Sequence[str] = (),
    record: str | None = None,
    payment: Payment | None = None,
    randomness: Randomness | None = None,
    seed: int | None = None,
    on_progress: OnProgress | None = None,
    **set_: Json,
) -> Synthesized:
    """Return a synthetic corpus that resembles a private corpus, under one epsilon for the whole corpus.

    A private record that cannot be read, or says nothing, adds nothing. No error reports such a record, because an
    error would tell that the record exists. The first JSON object or row must have the named fields.

    Args:
        private: texts, rows, records, a data frame, a Dataset, or the path of a file, which may have no records.
        public: the pool, of which texts leave. Its labels are ignored, but for those of the examples of `steering`.
        kind: kind of the synthesis: "prototypes" (needs labels), "votes", "topics" (a report alone), "steering" (new
            texts by a language model), or "summary" (noisy numbers alone).
        text: column of the texts.
        label: column of the labels, if the settings have labels.
        author: column of the authors, needed for unit="author".
        public_text: column of the pool's texts; None for the same name as `text`.
        carry: columns of the pool that leave with its texts, as in `dptext.write`; for "prototypes" and "votes".
        record: record of a private plain text file: "file", "line" or "block"; see `read_records`.
        payment: the account that is charged for everyone in it, before any noise is drawn.
        randomness: `randomness.secure()` by default; seeded randomness voids the guarantee.
        seed: seed of clusters and directions of the pool, which are public.
        on_progress: called with a `dptext.mechanism.FitProgress` as public texts are read. Nothing tells how far the
            private ones are.
        set_: settings: epsilon, delta, unit, labels, size, and those of the kind; see `dptext.Prototypes`.

    Raises:
        ConfigError: a setting cannot be used, or a needed column is not named.
        BrokenFileError: the file cannot be read to its end. HeaderError, a BrokenFileError: the header lacks a column.
            Both come before the charge.
        DataError: a subject has several records.
        BudgetExceededError: the account cannot pay.
        MissingExtraError: a package is not installed.

    An error or an interruption in writing, after the noise was drawn, has `unwritten`: `error.unwritten.write()` writes
    from the noisy numbers that were kept, and neither reads a private text, nor draws noise, nor charges anything.
    """
    set_ = listed_labels(set_)
    spec = synthesis_from_settings({"kind": kind, **set_})
    spec = with_label_type(spec, public, label, public_text or text, given=set_.get("labels", ()))
    fields = Fields(text=text, label=label, author=author, measured=spec.measured_fields)
    corpus = Private(private, fields, {"record": record})
    require_pool_leaves(spec, carry)
    columns = Columns(label=bool(spec.labels), fields=Fields(text=text, label=label)).names(Format.JSONL)
    require_own_names(carry, columns)
    fitted, pool = read_pool(
        spec, corpus, public, text=public_text or text, keep=tuple(carry), seed=seed, on_progress=on_progress
    )
    carried = Carried.of(pool, carry, public)
    found = run(corpus, fitted, payment=payment, randomness=randomness)
    return found.joined(carried) if carry else found


def listed_labels(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose labels and names, if they are a range, a tuple or an array, are lists."""
    found = dict(settings)
    for name in ("labels", "names"):
        given = found.get(name)
        if isinstance(given, np.ndarray):
            found[name] = given.tolist()
        elif isinstance(given, range | tuple):
            found[name] = [*given]
    return found


def with_label_type(
    spec: CorpusSpec, public: Texts | None, label: str | None, text: str, *, given: object = ()
) -> CorpusSpec:
    """Return settings whose labels leave in the type of the public column of this name, unless they name a type.

    Public data frames, Datasets and Parquet files have types, and values of JSON, workbooks and rows say theirs. The
    type of a private column may follow one of its values, so it says nothing here. Without such a column the labels
    that are `given` in Python say it: numbers leave as numbers.
    """
    if spec.label_type or not spec.labels or label is None:
        return spec
    own = {label: of_values(given)} if isinstance(given, list) else {}
    if public is None or isinstance(public, Iterator):
        return replace(spec, label_type=corpus_label_type(own, label, spec.labels))
    found: Mapping[str, Any] | None = None
    with contextlib.suppress(DPTextError):  # there are no labels; what else is wrong is said by what reads the pool
        is_file = isinstance(public, str | PathLike)
        kind = file_format(Path(public), None) if isinstance(public, str | PathLike) else None
        found = of_parquet(Path(public)) if kind is Format.PARQUET else {} if is_file else of_data(public)
        if not found and kind in (None, Format.JSONL, Format.JSON, Format.XLSX):
            values = (each.kept.get(label) for each in as_records(public, text=text, keep=(label,)))
            found = {label: of_values(values)}
    found = {**own, **{name: kind for name, kind in (found or {}).items() if kind is not None}}
    return replace(spec, label_type=corpus_label_type(found, label, spec.labels))


def require_pool_leaves(spec: CorpusSpec, carry: Sequence[str]) -> None:
    """Raise ConfigError if columns are to leave with public texts, and no public text leaves."""
    if carry and not (isinstance(spec, SynthesisSpec) and spec.repeats is not None):
        raise ConfigError(
            f"Expected prototypes or votes for columns that leave with texts of the pool, found {spec.kind}, which "
            "releases no such texts."
        )


def read_pool(
    spec: CorpusSpec,
    private: Private,
    public: Texts | None,
    *,
    text: str,
    keep: tuple[str, ...] = (),
    seed: int | None,
    on_progress: OnProgress | None = None,
) -> tuple[Fitted, tuple[Record, ...]]:
    """Return the synthesis, fitted to the pool, and the pool; errors as `synthesize`, before the charge.

    A warning, at the call of the caller, comes of a pool in a language that the readers of the settings do not know.
    """
    refuse_same(private.source, public)
    private.check()
    with of_public_files("public_text"):
        pool = tuple(as_records(public, text=text, keep=keep))
    if said := in_other_language(spec, [record.text for record in pool]):
        warnings.warn(said, stacklevel=3)
    return spec.fit(public=pool, seed=seed, **({"on_progress": on_progress} if spec.tells else {})), pool


def require_columns(spec: CorpusSpec, fields: Fields) -> None:
    """Raise ConfigError if a column that is measured is not read: all of its values would count as null."""
    if unread := [name for name in spec.measured_fields if name not in fields.measured]:
        raise ConfigError(
            f"Expected the measured columns to be read, found {', '.join(unread)} not among Fields(measured=...)."
        )


def run(
    private: Private,
    fitted: Fitted,
    *,
    payment: Payment | None = None,
    randomness: Randomness | None = None,
    delta: float = 0.0,
    settled: bool = True,
    on_measured: OnMeasured | None = None,
    on_progress: Progress | None = None,
) -> Synthesized:
    """Charge, sum up, add noise, settle; see `synthesize`. With settled=False the caller settles before it shows texts.

    Errors that need no private text come first, then errors from reading the corpus, then the charge.

    `on_measured` keeps the summary of a synthesis that measures one summary first, and then writes from it. The charge
    is settled as soon as the summary is kept, so that no other numbers are ever drawn under it. If the writing dies,
    `finished` goes on from the summary that was kept. If the charge is settled here, an error in writing keeps the
    summary, too, as its `unwritten`. `on_progress` is called as texts are written; of the private corpus nothing is
    told.
    """
    spec, randomness, fields = fitted.spec, randomness or secure(), private.fields
    if spec.labels and fields.label is None and not private.of_records:
        raise ConfigError("Expected the column of the labels: label=NAME, or --label-field NAME.")
    if not private.of_records:
        require_columns(spec, fields)
    if spec.unit == "author" and fields.author is None and not private.of_records:
        raise ConfigError("Expected the column of the authors, as unit='author': author=NAME, or --author-field NAME.")
    statement = stated(
        fitted,
        randomness=randomness,
        delta=delta,
        reading=[name for name in READING if private.reading.get(name)],
        record=str(private.reading.get("record") or ""),
        forms=private.forms,
        payment=payment,
        fields=fields,
    )
    due = statement.due
    if due is not None and fields.subject is None:
        due.weigh(due.payment.key, None)
    fitted.rehearse(private.nothing)
    first = measured_first(fitted) if settled or on_measured is not None else None
    here = Private((), fields, {}).nothing
    if first is not None and (first[0] is not fitted or private.nothing is not here):
        first[0].rehearse(here)  # in this process: the summary can be written as bytes
    certified = statement.certificate(IN_MEMORY, "", 0, charged=None, fields={})
    private = private.kept()
    charged, left, key, settle = None, "", "", None
    if due is not None and payment is not None:
        key, stream = payment.charge_key(), secrets.token_hex(32)
        charged, left = _charge(statement, due, key, private), payment.left()
        if charged is not None:
            charged, settle = replace(charged, stream=stream), partial(due.settle, key, stream_mark(stream))
    certified = replace(certified, charged=charged)
    try:
        if first is None:
            found = fitted.synthesize(private.corpus, Draws(randomness))
        else:
            summary = first[0].measure(private.corpus, Draws(randomness))
            data = summary.to_bytes()
            measured = replace(certified, sha256=hashlib.sha256(data).hexdigest())
            if on_measured is not None:
                on_measured(data, measured)
    except BaseException as error:
        if charged is not None:
            error.add_note(f"Charge key {key!r} was charged and released nothing: a run under it is not charged again.")
        raise
    if settle is not None and (settled or first is not None):
        settle()
        settle = None
    inputs = (Path(private.source),) if isinstance(private.source, str | PathLike) else ()
    if first is not None:
        try:
            found = _written(first[1], summary, randomness, on_progress)
        except BaseException as error:  # of any kind: it is raised again, with what the writing can go on from
            if settled:
                Unwritten(spec, data, measured, fields, left, inputs).put_on(error)
            raise
    return replace(_whole(found, certified, fields), left=left, inputs=inputs, settle=settle)


@dataclass(frozen=True, slots=True)
class Unwritten:
    """The noisy numbers of a synthesis whose writing failed, as `unwritten` of the error.

    Attributes:
        spec: settings of the synthesis.
        data: the summary, as bytes of its file.
        certificate: its certificate.
        fields: names of the columns.
        left: the balance of the account in words.
        inputs: the input files.
    """

    spec: CorpusSpec
    data: bytes = field(repr=False)
    certificate: Certificate = field(repr=False)
    fields: Fields
    left: str
    inputs: tuple[Path, ...]

    def put_on(self, error: BaseException) -> None:
        """Make this the `unwritten` of an error, and say so in a note."""
        error.unwritten = self  # type: ignore[attr-defined]
        error.add_note("The noisy numbers are kept: error.unwritten.write() writes from them, and charges nothing.")

    def write(self, *, randomness: Randomness | None = None, on_progress: Progress | None = None) -> Synthesized:
        """Write from the kept numbers: nothing private is read, and no noise is drawn or charged."""
        found = finished(
            self.spec, self.data, self.certificate, fields=self.fields, randomness=randomness, on_progress=on_progress
        )
        return replace(found, left=self.left, inputs=self.inputs)


def finished(
    spec: CorpusSpec,
    data: bytes,
    certificate: Certificate,
    *,
    fields: Fields,
    randomness: Randomness | None = None,
    on_progress: Progress | None = None,
) -> Synthesized:
    """Write from a summary that a run kept by `on_measured`. No private record is read, and nothing is drawn.

    ConfigError: the synthesis does not write from a summary. DataError: `data` is no summary.
    """
    if not isinstance(spec, WritesFromSummary):
        raise ConfigError(f"Expected a synthesis that writes from a summary, found {spec.kind}.")
    found = _written(spec, Summary.of_bytes(data), randomness or secure(), on_progress)
    return _whole(found, certificate, fields)


def _written(spec: WritesFromSummary, summary: Summary, source: Randomness, on_progress: Progress | None) -> Synthetic:
    tells = on_progress is not None and isinstance(spec, CorpusSpec) and spec.tells
    call: Callable[..., Synthetic] = spec.written
    found = call(summary, source, on_progress) if tells else call(summary, source)
    if isinstance(spec, CorpusSpec) and spec.writes and not found.texts:
        raise DataError("Expected texts from the writer, found none that can be read. Try again, or another model.")
    return found


def _whole(found: Synthetic, certified: Certificate, fields: Fields) -> Synthesized:
    """Return what was written, with the certificate of the run for its sha256 and number of records."""
    both = enumerate(zip(found.texts, found.labels, strict=True))
    releases = tuple(Release(str(i), text, label) for i, (text, label) in both)
    alone = b"" if releases else found.data or found.report.to_json()
    named = Fields(text=fields.text, label=fields.label)
    unsigned = replace(certified, records=len(releases))
    made = Synthesized(releases, found.report, found.sentences, unsigned, data=alone, fields=named)
    if made.has_summary:  # names of columns are the user's words, and those of what is written from it
        unsigned = replace(unsigned, fields=made.columns.renamed)
    return replace(made, certificate=replace(unsigned, sha256=hashlib.sha256(made.json_lines()).hexdigest()))


def _subjects(private: Private, due: Due) -> Iterator[str]:
    """Yield the subject of each record. An author is yielded once, by the account's comparison of names."""
    digest, seen = due.payment.ledger.subjects_digest(due.account.name), set[bytes]()
    for batch in private.batches():
        for subject in batch.subjects:
            if due.request.unit is Unit.AUTHOR:
                hashed = digest.add(subject or "")
                if hashed in seen:
                    continue
                seen.add(hashed)
            yield subject or ""


def _charge(statement: Statement, due: Due, key: str, private: Private) -> Charged | None:
    """Pay before any noise is drawn. No error tells the number of a subject's records."""
    fault = None
    try:
        named = None if private.fields.subject is None else _subjects(private, due)
        return statement.charged(due.charge(key, named))
    except DataError as error:
        fault = error if isinstance(error, BrokenFileError) else DataError(_SEVERAL)
    raise fault
