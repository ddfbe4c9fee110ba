"""`dptext.write`: write a corpus from a summary, for free."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from dptext import _validate
from dptext.doors import Door
from dptext.embeddings.encoders import OwnEncoder
from dptext.errors import ConfigError, MissingExtraError
from dptext.language.reading import INSTALL, SMOLLM2, is_there
from dptext.runs.carried import Carried, require_own_names
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.known_languages import written_in
from dptext.runs.results import IN_MEMORY
from dptext.runs.specs import require_setting
from dptext.runs.summarizing import ReadSummary, read_summary
from dptext.runs.synthesized import Synthesized
from dptext.runs.written_columns import WrittenColumns
from dptext.sampling.randomness import secure, seeded
from dptext.synthesis.blocks import POINTS, TOPICS, WORDS
from dptext.synthesis.from_drafts import FromDrafts
from dptext.synthesis.from_model import FromLanguage
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.kept_writing import KeptWriting
from dptext.synthesis.pool import pool_texts
from dptext.synthesis.spec import Progress, Synthetic
from dptext.synthesis.summary import Summary
from dptext.text.formats import spelled
from dptext.text.labels import meaning
from dptext.text.reading import as_records, of_public_files
from dptext.text.records import ID_FIELD, LABEL_FIELD, TEXT_FIELD, Fields, Release
from dptext.text.schema import IdColumn
from dptext.text.tables import Texts
from dptext.types import Json
from dptext.version import __version__

_SHOWN: Final = 8  # labels with their shares
#: dptext's writers: name, and place of the class of settings.
OUR_WRITERS: Final = {
    "pool": "dptext.synthesis.from_pool:FromPool",
    "builtin": "dptext.synthesis.from_model:FromModel",
    "model": "dptext.synthesis.from_transformers:FromTransformers",
    "endpoint": "dptext.synthesis.from_endpoint:FromEndpoint",
}


class Writers(Door[type[FromPool] | type[FromLanguage]]):
    """The writers by name, and the class of their settings. A package brings one by an entry point.

    See `dptext.synthesis.from_drafts`.
    """

    def wrong(self, name: str, found: object) -> str:
        """Say what the class of a package should have been; empty if it is a class of settings of a writer."""
        right = isinstance(found, type) and issubclass(found, FromDrafts)
        return "" if right else "to be a subclass of dptext.synthesis.from_drafts.FromDrafts"

    def spelled(self, name: str) -> str:
        """Return how a writer is named, such as "model:PATH"."""
        takes = self[name].takes
        return f"{name}:{takes}" if takes else name


WRITERS: Final = Writers("dptext.writers", OUR_WRITERS, what="writer")


def default_writer(summary: Summary) -> str:
    """Return "pool" if it can choose texts, "builtin" if words were measured and drafted, or "" if no writer can.

    Beside columns any text will do.
    """
    return "pool" if summary.spec.pool_writes else "builtin" if summary.public.model else ""


def rows_counted(summary: Summary) -> int:
    """Return about the noisy number of rows of a table, in two digits: as many are written; 0 without columns."""
    if all(isinstance(each, IdColumn) for each in summary.spec.schema):
        return 0
    whole = max(1.0, float(summary.report.estimates.whole.numbers[0]))
    return min(_validate.MOST_TEXTS, int(float(f"{whole:.2g}")))


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be written: a summary with the wanted mix of labels, and a writer with its settings.

    Attributes:
        writer: name of the writer.
        how: its settings.
        carried: columns that leave with texts of the pool.
    """

    summary: Summary
    certificate: Certificate
    sha256: str
    inputs: tuple[Path, ...]
    writer: str
    how: FromPool | FromLanguage
    mix: Mapping[str, float] | None
    carried: Carried = field(default_factory=Carried, repr=False)

    @property
    def said(self) -> dict[str, Json]:
        """Writer, settings and mix, as the certificate has them."""
        settings = self.how.said() if isinstance(self.how, FromLanguage) else asdict(self.how)
        table = {name: True for name in ("rounded", "drop_other") if getattr(self.summary, name)}
        carry: list[Json] = [*self.carried.names]
        more = {**({"mix": dict(self.mix)} if self.mix else {}), **({"carry": carry} if carry else {})}
        return {"writer": self.writer, **settings, **more, **table}

    def asks(self, price: tuple[float, float] | None = None) -> Iterator[str]:
        """Yield sentences on what would be asked of whom. `price` is that of a million tokens read, and written."""
        if isinstance(self.how, FromPool):
            size = self.how.size or len(self.summary.public.pool.texts)
            yield f"At most {size:,} texts of the pool would leave. No model is asked, and nothing leaves this machine."
            if price is not None:
                yield "Nothing is paid for them, as no server is asked: --price is for endpoint:BASE_URL#MODEL."
            return
        if self.warning:
            yield self.warning
        yield from self.how.asks(self.summary, price)

    @property
    def warning(self) -> str:
        """What is said before a language model writes in a language that it does not know; empty if nothing is."""
        return written_in(self.summary.public.language, self.how.model) if isinstance(self.how, FromLanguage) else ""


def prepared(
    summary: str | PathLike[str] | Synthesized | ReadSummary,
    *,
    writer: str | None = None,
    size: int = 0,
    mix: Mapping[str, float] | None = None,
    public: Texts | None = None,
    public_text: str | None = None,
    text: str | None = None,
    carry: Sequence[str] = (),
    rounded: bool = False,
    drop_other: bool = False,
    **set_: Json,
) -> Prepared:
    """Read a summary and the settings of a writer. Arguments and errors are those of `write`."""
    inputs: tuple[Path, ...] = ()
    if isinstance(summary, Synthesized):
        found, certificate, digest = summary.summary, summary.certificate, summary.certificate.sha256
        inputs = summary.inputs
    elif isinstance(summary, ReadSummary):
        found, certificate, digest = summary
    else:
        found, certificate, digest = read_summary(summary)
        inputs = (Path(summary), certificate_path(Path(summary)))
    carried = Carried()
    if public is not None:
        own = public_text or text or certificate.fields.get(TEXT_FIELD, TEXT_FIELD)
        with of_public_files("public_text"):
            records = as_records(public, text=own, keep=tuple(carry))
        found = found.with_pool(pool_texts(records))
        carried = Carried.of(records, carry, public)
        inputs += (Path(public),) if isinstance(public, str | PathLike) else ()
    if not found.public.has_pool:
        raise ConfigError(
            f"Expected the pool, as this summary leaves it out ({found.public.pool_named}): give --public POOL, or "
            "public=POOL in Python."
        )
    if (rounded or drop_other) and not found.spec.columns:
        raise ConfigError("Expected a summary of columns for rounded and drop_other, found none: it has no table.")
    name, place = _writer_of(found, writer, set_)
    if carry and (name != "pool" or public is None):
        said = "no pool" if public is None else f"the writer {name}, whose texts are new"
        raise ConfigError(
            f"Expected the pool and the writer pool for columns that leave with its texts, found {said}: give --public "
            "POOL --writer pool (public=POOL, writer='pool' in Python)."
        )
    size = size or (rows_counted(found) if name == "pool" else 0)
    given = {**({"size": size} if size else {}), **set_}
    kind = WRITERS[name]
    if issubclass(kind, FromLanguage):
        given = {**(kind.at(place) if place else {}), **given}
    known = [each.name for each in fields(kind)]
    models = {each.name for each in fields(WRITERS["builtin"])} - {*known}
    for key in given:
        if key in models and kind is FromPool:
            raise ConfigError(
                f"Expected a setting of the writer pool, found {key!r}, which is a setting of the writer builtin: add "
                "--writer builtin (writer='builtin' in Python)."
            )
        require_setting(key, f"the writer {name}", known)
    try:
        how = kind(**given)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigError(
            f"Expected settings of the writer {name} of their types, such as size=200, found {', '.join(given)}."
        ) from None
    if isinstance(how, FromLanguage):
        how = how.of_summary(found.spec)
        how.require_words(found)
        how.require_place()
        space = found.public.pool.space
        if space is not None and isinstance(space.encoder, OwnEncoder):
            space.encoder.embed([])  # it judges what is written: that it is not here is said before the work
    mix = None if mix is None else _by_label(mix, found.spec.labels)
    mixed = replace(found if mix is None else found.mixed(mix), rounded=rounded, drop_other=drop_other)
    return Prepared(mixed, certificate, digest, inputs, name, how, mix, carried)


def names_of(
    summary: Summary, certificate: Certificate, text: str | None, label: str | None, carry: Sequence[str] = ()
) -> Fields:
    """Return the names of the columns of texts and labels: those given, or those that the measured file had.

    The default name takes the place of one that another column of what is written has.
    """
    taken = {ID_FIELD, *carry, *(column.name for column in summary.spec.schema)}
    found = {name: own for name, own in certificate.fields.items() if own not in taken}
    text = text or found.get(TEXT_FIELD, TEXT_FIELD)
    own = label or found.get(LABEL_FIELD)
    return Fields(text=text, label=own if label or own != text else None)


def require_apart(summary: Summary, text: str, label: str | None, carry: Sequence[str] = ()) -> None:
    """Raise ConfigError if two columns of what is written would have one name."""
    named = {"text": text, **({"label": label or LABEL_FIELD} if summary.spec.labels else {})}
    for option, name in named.items():
        if any(column.name == name for column in summary.spec.schema):
            raise ConfigError(
                f"Expected {option}s to be written under a name that no column of the table has, found {name!r}: "
                f"give --{option}-field NAME ({option}=NAME in Python)."
            )
    require_own_names(carry, [ID_FIELD, *named.values(), *(column.name for column in summary.spec.schema)])


def _writer_of(summary: Summary, given: str | None, set_: Mapping[str, Json]) -> tuple[str, str]:
    """Return the name of the writer, and its place.

    ConfigError, MissingExtraError: the writer is unknown, has no place or one too many, or its model is not here.
    """
    name, _, place = (default_writer(summary) or "pool" if given is None else given).partition(":")
    takes = WRITERS.named(name, f"writer={name!r}").takes
    if bool(takes) != bool(place):
        found = f"{name} without it" if takes else f"{name} with something after it"
        raise ConfigError(f"Expected --writer {WRITERS.spelled(name)}, found {found}.")
    if name != "builtin" or WORDS not in summary.spec.blocks:
        return name, place
    model = str(set_.get("model") or summary.spec.model)
    if is_there(model):
        return name, place
    remedy = f"run: {INSTALL}" if model == SMOLLM2 else "give its place with --set model=PATH (model=PATH in Python)."
    others = "take --writer pool (writer='pool' in Python), or " if summary.spec.pool_writes else ""
    error = MissingExtraError if model == SMOLLM2 else ConfigError
    raise error(f"Expected the language model {model}, which is not here: {others}{remedy}")


def write(
    summary: str | PathLike[str] | Synthesized | ReadSummary | Prepared,
    *,
    writer: str | None = None,
    size: int = 0,
    mix: Mapping[str, float] | None = None,
    public: Texts | None = None,
    public_text: str | None = None,
    text: str | None = None,
    label: str | None = None,
    carry: Sequence[str] = (),
    rounded: bool = False,
    drop_other: bool = False,
    seed: int | None = None,
    keep: str | PathLike[str] | None = None,
    force: bool = False,
    on_progress: Progress | None = None,
    **set_: Json,
) -> Synthesized:
    """Return a corpus that is written from a summary. It costs no privacy, and can be repeated.

    Args:
        summary: the path of a summary with its certificate beside it, the result of `dptext.summarize`, or what
            `read_summary` or `prepared` returned; for the last, no other setting counts but text, label and those
            below.
        writer: "pool" chooses and labels public texts. The others let a language model write new ones: "builtin"
            (SmolLM2), "model:PATH" (a folder or file that transformers loads), "endpoint:BASE_URL#MODEL" (a server),
            or the name of an installed package's. None takes "pool" if the summary measured what chooses texts, and
            "builtin" otherwise.
        size: number of texts; 0 takes the writer's default, of a table about as many rows as were counted. The pool
            gives each of its texts at most once, but for tables: a warning says if fewer leave.
        mix: shares of labels in the place of the noisy ones; labels that are not named keep their noisy share of the
            rest.
        public: the pool, for a summary that leaves it out. Its digest is checked. For a seed, texts in the same order
            give the same corpus.
        public_text: column of the pool's texts; None for the same name as `text`.
        text: name of the column of texts; None for the name that it had in the measured file.
        label: name of the column of labels; None likewise.
        carry: columns of the pool that leave with its texts, as they are public, such as slots or a rating; of a text
            that stands there twice the first. `public` must have them, as texts, numbers or dates.
        rounded: whether the values of columns are apportioned to the noisy numbers by largest remainders, not drawn.
        drop_other: whether the listed values of columns alone are written.
        seed: seed of the writer's choices.
        keep: a file that keeps what a language model has written, so that a run that was stopped goes on. It stays
            until it is removed.
        force: whether what another run kept in that file may be replaced.
        on_progress: called with the number of texts written so far and of all texts.
        set_: more settings of the writer; see `FromPool`, `FromModel`, `FromTransformers` and `FromEndpoint` in
            `dptext.synthesis`.

    Raises:
        ConfigError: the writer needs what was not measured, the pool is missing or another one, or a setting cannot be
            used.
        DataError: the summary or its certificate does not hold.
        MissingExtraError: the language model is not installed.
        ServerError: the server fails, or refuses. `keep` holds what was written before.
    """
    by, asked = summary, not isinstance(summary, Prepared)
    if not isinstance(by, Prepared):
        by = prepared(
            by, writer=writer, size=size, mix=mix, public=public, public_text=public_text, text=text, carry=carry,
            rounded=rounded, drop_other=drop_other, **set_,
        )  # fmt: skip
    named = names_of(by.summary, by.certificate, text, label, by.carried.names)
    require_apart(by.summary, named.text, named.label, by.carried.names)
    how, more = by.how, dict[str, Any]()
    source = secure() if seed is None else seeded(seed)
    if isinstance(how, FromLanguage):
        more["on_progress"] = on_progress
        if keep is not None:
            given = {name: value for name, value in by.said.items() if name not in how.means}
            run: dict[str, Json] = {"summary": by.sha256, "seed": seed, "version": __version__, **given}
            begun = secrets.randbits(32) if seed is None else seed
            kept = more["kept"] = KeptWriting.begin(Path(keep), run, begun, replace=force)
            source = seeded(kept.seed)
    made = how.write(by.summary, source, **more)
    if asked and (fewer := _fewer(made, how.size)):
        warnings.warn(fewer, stacklevel=2)
    table = WrittenColumns.of(by.summary, made, source)
    said = (
        *filter(None, [by.warning]), *_too_large(by.summary, how), *made.sentences,
        *_shares(by.summary, by.mix), *table.undeclared(by.summary), *filter(None, [by.summary.spec.means_moved]),
    )  # fmt: skip
    model = {**({"weights": made.weights} if made.weights else {}), **made.way}
    return _derived(
        replace(made, sentences=said), table, by.certificate, by.sha256, {**by.said, **model}, by.inputs,
        replace(named, id=table.id, keep=tuple(table.columns)), by.carried,
    )  # fmt: skip


def _fewer(made: Synthetic, size: int) -> str:
    """Return a warning that fewer texts, or others, leave than a call in Python asked for; empty if none is due."""
    if 0 < len(made.texts) < size:  # none is an error
        return f"{size:,} texts were asked for, and {len(made.texts):,} leave: `sentences` of the corpus say why."
    lacking = made.report.shortage
    return lacking.sentence if lacking is not None and lacking.others else ""


def _too_large(of: Summary, how: FromPool | FromLanguage) -> Iterator[str]:
    """Yield a sentence if more texts are wanted than the pool has."""
    there = len(of.public.pool.texts)
    if isinstance(how, FromPool) and how.size > there and {POINTS, TOPICS} & {*of.spec.blocks} and not of.spec.columns:
        yield f"{how.size:,} texts are wanted, and the pool has {there:,} different ones: no more leave."


def _by_label(mix: Mapping[str, float], labels: Sequence[str]) -> dict[str, float]:
    """Return a mix whose labels are spelled as those of the summary: they may be numbers, or spelled otherwise."""
    own = {meaning(each): each for each in labels}
    named = {name: str(spelled(name)) for name in mix}
    found = {own.get(meaning(text), text): mix[name] for name, text in named.items()}
    if len(found) < len(mix):
        raise ConfigError(f"Expected each label once in the mix, found {', '.join(named.values())}.")
    return found


def _shares(of: Summary, mix: Mapping[str, float] | None) -> Iterator[str]:
    """Yield a sentence with the largest shares of labels that no mix sets. The numbers stand in the report."""
    if len(mix or ()) >= len(of.spec.labels):
        return
    names, shares = of.report.shown, of.shares
    order = np.argsort(-shares, kind="stable").tolist()
    each = ", ".join(f"{names[i]}: {shares[i]:.0%}" for i in order[:_SHOWN])
    more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    how = ", those without a number" if mix else ""
    yield f"Wanted shares of labels{how}, pulled towards equal by the share of noise in them: {each}{more}."


def _derived(
    made: Synthetic,
    table: WrittenColumns,
    of: Certificate,
    digest: str,
    how: Mapping[str, Json],
    inputs: tuple[Path, ...],
    fields: Fields,
    carried: Carried,
) -> Synthesized:
    """Return texts with the certificate of the summary that they were written from."""
    rows = zip(table.ids, made.texts, made.labels, table.kept, strict=True)
    releases = tuple(Release(id_, text, label, kept) for id_, text, label, kept in rows)
    if not releases:
        raise ConfigError("Expected at least one text to leave, found none: take another writer, or more public texts.")
    certificate = replace(of, output=IN_MEMORY, records=len(releases), derived={"summary": digest, **how})
    found = Synthesized(releases, made.report, made.sentences, certificate, "", inputs, None, b"", fields)
    return found.joined(carried)
