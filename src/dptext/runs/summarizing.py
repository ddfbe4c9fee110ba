"""`dptext.summarize`: measure a private corpus once. Summaries are read, and added."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dptext.errors import ConfigError, DataError
from dptext.language.reading import INSTALL
from dptext.mechanism import OnProgress, Promise
from dptext.runs.apart import are_same
from dptext.runs.certificate import READING, Certificate, certificate_path
from dptext.runs.private import Private
from dptext.runs.results import IN_MEMORY
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.statements import stated
from dptext.runs.synthesized import Synthesized
from dptext.runs.synthesizing import listed_labels, read_pool, run, with_label_type
from dptext.runs.verification import verify
from dptext.sampling.randomness import Randomness, secure, seeded
from dptext.synthesis.adding import summed
from dptext.synthesis.blocks import COLUMNS, COUNTS, LENGTHS, POINTS, TOPICS, WORDS
from dptext.synthesis.few import without_words
from dptext.synthesis.lengths import USUAL_LENGTHS
from dptext.synthesis.marginals import LABEL
from dptext.synthesis.spec import CorpusSpec, Fitted
from dptext.synthesis.summary import FittedSummary, Summary, SummarySpec
from dptext.text.declarations import declared, schema_of, with_files
from dptext.text.function_words import ENGLISH
from dptext.text.inputs import lines_of, telling
from dptext.text.records import LABEL_FIELD, TEXT_FIELD, Fields
from dptext.text.schema import together
from dptext.text.survey import survey
from dptext.text.tables import Texts
from dptext.types import Json

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment

#: Blocks that `also` adds, with the settings that measure them.
_ALSO: Final[Mapping[str, Mapping[str, Json]]] = {
    WORDS: {"marks": 5}, TOPICS: {"topics": 64}, LENGTHS: {"lengths": [*USUAL_LENGTHS]},
}  # fmt: skip
_LEAST_TOPICS: Final = 4
_WORDLESS: Final = (
    "Expected names=[...], the meaning of each label in words, as these labels say nothing in words: public texts and "
    "language models are read by the names of labels. names=labels goes on without."
)
#: More settings where words are measured with lengths, as texts are long then (decision 26).
_LONG: Final[Mapping[str, Json]] = {"marks": 40, "tokens": 300}
_SHARES: Final = {
    POINTS: "point_share", COUNTS: "count_share", TOPICS: "topic_share", WORDS: "word_share", LENGTHS: "length_share",
    COLUMNS: "column_share",
}  # fmt: skip
#: What a summary needs for a corpus to be written from it.
WRITING_NEEDS: Final = (
    "the pool needs points of labelled texts, or topics; from words --writer builtin writes with a language model"
)
#: Settings that may differ from those of the summary that `like` names.
_OWN: Final = ("epsilon", "delta", "about", "without_pool", *_SHARES.values())
_MAY_DIFFER: Final = "only epsilon, delta, about, shares, and whether the pool is left out, may differ"


def measured_settings(
    also: Iterable[str] = (),
    without: Iterable[str] = (),
    shares: Mapping[str, float] | None = None,
    *,
    like: Summary | None = None,
) -> dict[str, Json]:
    """Return settings of a summary that measures `also` these blocks, and others not, at these shares of rho.

    With `like` the settings of the blocks are those of that summary. ConfigError: a name is unknown, or that summary
    measures something else.
    """
    found: dict[str, Json] = {}
    also = tuple(also)
    for name in also:
        if name not in _ALSO:
            raise ConfigError(f"Expected {name!r} to be one of {', '.join(_ALSO)}: what is measured besides.")
        if like is not None and name not in like.spec.blocks:
            raise ConfigError(
                f"Expected --with to repeat at most what the summary of --like measures, which lacks {name}."
            )
        found |= _ALSO[name] if like is None else {}
    if {WORDS, LENGTHS} <= {*also} and like is None:
        found |= _LONG
    for name in without:
        if name != POINTS:
            raise ConfigError(f"Expected {name!r} to be {POINTS!r}: nothing else can be left out.")
        if like is not None and POINTS in like.spec.blocks:
            raise ConfigError("Expected no --without points: the summary of --like measures them.")
        found |= {"points": False} if like is None else {}
    for name, share in (shares or {}).items():
        if name not in _SHARES:
            raise ConfigError(f"Expected a share of one of {', '.join(_SHARES)}, found {name!r}.")
        found[_SHARES[name]] = share
    return found


def fitting_topics(wanted: CorpusSpec, asked: Container[str]) -> CorpusSpec:
    """Return settings with as many of the usual topics as have numbers above their noise, by public settings alone.

    A number of topics that was `asked` for stays as it is.
    """
    if TOPICS in asked or not isinstance(wanted, SummarySpec):
        return wanted
    most = max(_LEAST_TOPICS, wanted.foreseen.most_topics)
    return replace(wanted, topics=most) if most < wanted.topics else wanted


def column_lines(given: Json) -> list[str]:
    """Return declarations as a list, from one or from a table of names, with the values of files that are named by @.

    ConfigError: a file cannot be read.
    """
    lines = [f"{name}: {what}" for name, what in given.items()] if isinstance(given, dict) else given or []
    if not isinstance(lines, list | tuple):
        raise ConfigError(f"Expected columns to be a list of declarations or a table, found {given!r:.80}.")
    return [with_files(str(each), lambda path: lines_of(path, f"@{path}")) for each in lines]


def columns_from(
    public: str | PathLike[str], given: Iterable[str] = (), *, text: str, without: Iterable[str | None] = (), **how: Any
) -> tuple[list[str], list[str]]:
    """Return declarations of the columns of a public table: those `given`, and for others what their values suggest.

    The second list names the columns of which values suggest no declaration, such as those of many different values.

    The column `text` and those `without` are left out; `how` says how the file is read, as `survey` takes it. Ends of
    numbers and dates are rounded outwards, but one of hundred skewed numbers may be above. They are in the order of the
    table, and given ones that it lacks come last.
    ConfigError: no column is left.
    """
    own, found = [*given], survey(Path(public), text=text, **how)
    named = dict(zip((each.name for each in schema_of(own)), own, strict=True))
    proposed = {declared(line).name: line for line in found.proposed()}
    there = {name: line for name, line in proposed.items() if name not in without} | named
    others = [name for name in found.columns if name not in {text, *without, *there}]
    own = [there.pop(name) for name in found.columns if name in there]
    own += there.values()
    if not own:
        raise ConfigError(f"Expected columns beside the texts in {public}, found none that can be declared.")
    return own, others


def require_other(private: object, public: str | PathLike[str]) -> None:
    """Raise ConfigError if the public table is a private file, a copy of one, or lies in a private folder."""
    if are_same(private, public):
        raise ConfigError(
            f"Expected a public table whose values declare columns, found the private file {Path(public).name}: its "
            "values would be released. Declare what you know of the form."
        )


def require_measured(spec: Promise, also: Iterable[str]) -> None:
    """Raise ConfigError if a setting turns off one of the blocks `also`, which are measured besides."""
    off = [name for name in also if isinstance(spec, SummarySpec) and name not in spec.blocks]
    if off:
        setting = next(iter(_ALSO[off[0]]))
        found = getattr(spec, setting)
        raise ConfigError(
            f"Expected --with {off[0]} or a setting that measures none, found both: {setting}="
            f"{json.dumps(found)}. Leave one out."
        )


def summarize(
    private: Texts,
    public: Texts | None = None,
    *,
    like: str | PathLike[str] | Synthesized | None = None,
    text: str = TEXT_FIELD,
    label: str | None = None,
    author: str | None = None,
    public_text: str | None = None,
    record: str | None = None,
    also: Sequence[str] = (),
    without: Sequence[str] = (),
    shares: Mapping[str, float] | None = None,
    schema_from: str | PathLike[str] | None = None,
    payment: Payment | None = None,
    randomness: Randomness | None = None,
    seed: int | None = None,
    on_progress: OnProgress | None = None,
    **set_: Json,
) -> Synthesized:
    """Return a summary of a private corpus: noisy numbers under one epsilon. Any number of corpora is written from it.

    Args:
        private: as in `dptext.synthesize`, like public, text, label, author, public_text, record, payment, randomness,
            seed and on_progress.
        public: the pool; None with `like`.
        like: another summary, as a path or as the result of this function: all that is public is taken from it, so that
            both can be added. Only epsilon, delta, about, shares and without_pool may differ.
        text: column of the texts.
        label: column of the labels.
        author: column of the authors.
        public_text: column of the pool's texts.
        record: record of a private plain text file.
        payment: the account that is charged.
        randomness: `randomness.secure()` by default.
        seed: seed of what is fitted on the pool.
        on_progress: called as public texts are read.
        also: what is measured besides counts and, with labels, points: "words", "topics", "lengths".
        without: "points", to measure no points.
        schema_from: a public table whose columns, but for texts, labels and authors, are declared by its own values;
            `columns` says otherwise.
        shares: shares of rho by "counts", "points", "topics", "lengths" and "words"; the others divide the rest.
        set_: settings: epsilon, delta, unit, relation, labels, names, about, and others of `SummarySpec`, such as
            without_pool=True, which leaves the pool's texts out of the summary.

    The summary is the result's `summary`. A warning comes before the charge if words are measured without public
    drafts. Errors as `dptext.synthesize`; DataError also: `like` is no summary. ConfigError also: a setting differs
    from that of `like`, or labels that say nothing in words have no names.
    """
    if (public is None) == (like is None):
        raise ConfigError("Expected one of public=POOL and like=OTHER: the public texts.")
    other = None
    if like is not None:
        other = like.summary if isinstance(like, Synthesized) else read_summary(like)[0]
    settings: dict[str, Json] = {**measured_settings(also, without, shares, like=other), **listed_labels(set_)}
    set_columns = column_lines(settings.get("columns"))
    if set_columns:
        settings["columns"] = [*set_columns]
    if schema_from is not None:
        require_other(private, schema_from)
        own, _ = columns_from(schema_from, set_columns, text=public_text or text, without=(label, author))
        settings["columns"] = [*own]
    settings = by_label(settings, label)
    fitted = None if other is None else fitted_like(other, settings)
    wanted = synthesis_from_settings({**settings, "kind": "summary"}) if fitted is None else fitted.spec
    if fitted is None:
        wanted = fitting_topics(wanted, set_)
        if isinstance(wanted, SummarySpec) and not wanted.names and without_words(wanted.labels, ()):
            raise ConfigError(_WORDLESS)  # a call cannot be answered as a command can
        wanted = with_label_type(wanted, public, label, public_text or text, given=settings.get("labels", ()))
    fields = Fields(text=text, label=label, author=author, measured=wanted.measured_fields)
    corpus = Private(private, fields, {"record": record})
    if fitted is not None:
        if public_text is not None or seed is not None:
            raise ConfigError("Expected no public_text and no seed with like: the pool is that of the other summary.")
        corpus.check()
        found = run(corpus, fitted, payment=payment, randomness=randomness)
        named = () if like is None or isinstance(like, Synthesized) else (Path(like),)
        return replace(found, inputs=(*found.inputs, *named))
    require_measured(wanted, also)
    ready, _ = read_pool(wanted, corpus, public, text=public_text or text, seed=seed, on_progress=on_progress)
    if said := without_drafts(ready):
        warnings.warn(said, stacklevel=2)
    return run(corpus, ready, payment=payment, randomness=randomness)


def by_label(settings: Mapping[str, Json], label: str | None) -> dict[str, Json]:
    """Return settings in which the column of the labels may have its own name, unless it is declared, too.

    In pairs it stands for the labels. Among columns that texts follow it is left out: texts follow labels anyway.
    """
    found, pairs, followed = dict(settings), settings.get("pairs"), settings.get("text_follows")
    declared = {each.name for each in schema_of(column_lines(settings.get("columns")))}
    if label is None or label in declared:
        return found
    if isinstance(followed, list | tuple) and label in followed:
        found["text_follows"] = [each for each in followed if each != label] or ["none"]
    if not isinstance(pairs, list | tuple):
        return found
    own = together([label])
    found["pairs"] = [
        f"{LABEL}{pair[len(own) :]}" if pair.startswith(f"{own}+") else
        f"{pair[: -len(own)]}{LABEL}" if pair.endswith(f"+{own}") else pair
        for pair in map(str, pairs)
    ]  # fmt: skip
    return found


def fitted_like(other: Summary, changes: Mapping[str, Json]) -> FittedSummary:
    """Return the settings of another summary with other noise, and its public parts. ConfigError: more would differ.

    After a sum, `about` is the mean of its parts, as one of them is measured anew.
    """
    spec = other.spec
    if "columns" in changes:
        changes = {**changes, "columns": [*column_lines(changes["columns"])]}
        if schema_of(column_lines(changes["columns"])) != spec.schema:
            raise ConfigError(f"Expected columns as in the summary of --like: {_MAY_DIFFER}.")
    kept = ("marks", "topics", "points", "lengths", "tokens", "columns", "pairs", "text_follows")
    as_there = {name: getattr(spec, name) for name in kept}
    wanted = synthesis_from_settings({"labels": list(spec.labels), **as_there, **changes, "kind": "summary"})
    known = {name: getattr(wanted, name) for name in _OWN if name in changes}
    known["without_pool"] = spec.without_pool or bool(known.get("without_pool"))  # it is not there
    known.setdefault("about", max(1, round(spec.about / (1 + len(spec.added)))))
    found = replace(spec, added=(), added_shares=(), disjoint=False, **known)
    apart = [
        name for name, value in changes.items() if name not in _OWN and getattr(wanted, name) != getattr(found, name)
    ]
    if apart:
        raise ConfigError(f"Expected {apart[0]} as in the summary of --like: {_MAY_DIFFER}.")
    return FittedSummary(found, other.public.without_pool() if found.without_pool else other.public)


def without_drafts(ready: Fitted) -> str:
    """Return a warning that words are measured without public drafts by a language model; empty if they are not."""
    if not isinstance(ready, FittedSummary) or not ready.spec.marks or ready.public.drafts:
        return ""
    absent, chooses = ready.spec.drafts > 0, ready.spec.pool_writes
    why = "no language model is installed" if absent else "drafts=0"
    said = f"No public drafts are written ({why}). Of words that the pool lacks, only frequent ones count.\n"
    said += "dptext summary show reads the summary" + ", and --writer pool writes from it" * chooses
    said += ". --writer builtin needs an installed language model, and those words alone steer it."
    known = ready.public.language == ENGLISH  # drafts of the model in another language are worth little
    return said + f"\nFor drafts, stop now, and run: {INSTALL}" * (absent and known)


class ReadSummary(NamedTuple):
    """A summary from a file, its verified certificate, and the sha256 of the file."""

    summary: Summary
    certificate: Certificate
    sha256: str


def read_summary(path: str | PathLike[str]) -> ReadSummary:
    """Return a summary, its verified certificate and its sha256. DataError: it is no summary, or not the certified one.

    ConfigError: no certificate lies beside it.
    """
    given = Path(path)
    with telling(given, "read"):
        data = given.read_bytes()
    beside = certificate_path(given)
    if not beside.is_file():
        _summary_of(given, data)
        raise ConfigError(f"Expected {beside} beside the summary: without its certificate nothing is written from it.")
    verified = verify(beside)
    certificate = verified.certificate
    digest = hashlib.sha256(data).hexdigest()
    if digest != certificate.sha256:
        raise DataError(f"{given} is not the summary that its certificate was written for: its sha256 differs.")
    found = _summary_of(given, data)
    if found.spec != verified.spec or not found.has_stated_noise:
        raise DataError(f"{given} says other settings than its certificate: nothing is written from it.")
    return ReadSummary(found, certificate, digest)


def _summary_of(path: Path, data: bytes) -> Summary:
    """Return the summary that a file holds. DataError: it holds none; the error names the file."""
    try:
        return Summary.of_bytes(data)
    except DataError as error:
        raise DataError(f"{path}: {error} Name a file that `dptext summarize` wrote.") from None


def add(first: str | PathLike[str], *others: str | PathLike[str], disjoint: bool = False) -> Synthesized:
    """Return the sum of summaries that have the same public parts: of several owners, or several months.

    `disjoint` says that nobody is in two of the corpora. Each person then keeps the guarantee of their own summary.
    Otherwise the guarantees add up.

    ConfigError: they measure other things, have other units or records, or hold a common release. DataError: a summary
    or its certificate does not hold.
    """
    if not others:
        raise ConfigError("Expected at least two summaries to add, found one.")
    whole, certificate, digest = read_summary(first)
    certificates, digests = [certificate], [digest]
    for each in others:
        more, other, digest = read_summary(each)
        certificates.append(other)
        digests.append(digest)
        whole = summed(whole, more, disjoint=disjoint)
    if len(records := {each.record for each in certificates}) > 1:
        found = " and ".join(sorted(each or "row" for each in records))
        raise ConfigError(f"Expected summaries of the same records, found {found}: their units are not the same.")
    fitted, data, report = FittedSummary(whole.spec, whole.public), whole.to_bytes(), whole.report
    source = secure() if all(each.randomness == "secure" for each in certificates) else seeded(0)
    read = [name for name in READING if any(name in each.reading for each in certificates)]
    forms = sorted({form for each in certificates for form in each.forms})
    statement = stated(fitted, randomness=source, reading=read, record=certificate.record or None, forms=forms)
    named = statement.certificate(IN_MEMORY, hashlib.sha256(data).hexdigest(), 0, charged=None, fields={})
    columns = certificate.fields if all(each.fields == certificate.fields for each in certificates) else {}
    named = replace(named, derived={"added": [*digests]}, fields=columns)
    inputs = tuple(Path(each) for path in (first, *others) for each in (path, certificate_path(Path(path))))
    fields = Fields(text=columns.get(TEXT_FIELD, TEXT_FIELD), label=columns.get(LABEL_FIELD))
    return Synthesized((), report, report.sentences(), named, "", inputs, None, data, fields)
