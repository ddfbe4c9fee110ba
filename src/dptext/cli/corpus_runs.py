"""The run of `synthesize` and of `summarize`: from a private corpus to files with a certificate, charged once."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dptext.batch.corpora import synthesize_dataset
from dptext.batch.shards import shards_of
from dptext.cli import options
from dptext.cli.chosen import say_if_in_other_language
from dptext.cli.corpus_answers import say_what_was_made, say_what_would_be
from dptext.cli.corpus_options import CorpusReading, Ending
from dptext.cli.kept import kept_beside
from dptext.cli.many import is_dataset, refuse_for_a_file
from dptext.cli.paying import CHARGED, Paying, rehearsed_force, said_key
from dptext.cli.terminal import DRAFTED, Tell, advising, counted, finishing, say
from dptext.embeddings.embedder import encoder_folder
from dptext.errors import ConfigError
from dptext.mechanism import settings
from dptext.runs.apart import refuse_same
from dptext.runs.carried import Carried, require_own_names
from dptext.runs.certificate import Certificate, stream_mark
from dptext.runs.plan import Plan
from dptext.runs.private import Private
from dptext.runs.states import run_settings
from dptext.runs.streaming import guarantees
from dptext.runs.summarizing import without_drafts
from dptext.runs.synthesized import Synthesized, file_columns, paths_of
from dptext.runs.synthesizing import finished, require_pool_leaves, run, with_label_type
from dptext.runs.unpublished import Unpublished
from dptext.sampling.randomness import Randomness, secure, seeded
from dptext.synthesis.space import ENCODERS
from dptext.synthesis.spec import CorpusSpec, Fitted, Progress, SynthesisSpec
from dptext.synthesis.summary import FittedSummary
from dptext.text.inputs import telling
from dptext.text.records import ID_FIELD, LABEL_FIELD, Fields, Record, records_digest
from dptext.types import Json

_TIMED: Final = 64  # texts of the pool
_LONG: Final = 2.0  # seconds

if TYPE_CHECKING:  # the ledger is loaded only if it is used
    from dptext.batch.engines import Workers
    from dptext.runs.payment import Due, Payment


def release(
    source: str,
    target: Path,
    wanted: CorpusSpec,
    reading: CorpusReading,
    paying: Paying,
    ending: Ending,
    *,
    public: Path | None,
    carry: tuple[str, ...] = (),
    fitted: Fitted | None = None,
    inputs: tuple[Path | None, ...] = (),
) -> None:
    """Measure the corpus, charge once, publish the files, and say what was made.

    `public` is the file of the pool; None with a synthesis that is `fitted` already. Columns of it that leave with its
    texts are in `carry`. `inputs` are further files.
    """
    _check_fields(wanted, reading, carry)
    payment, dataset, layout = paying.payment(), is_dataset(source), reading.layout
    read = tuple(path for path in (Path(source), public, *inputs) if path is not None)
    paying.refuse_inputs(paths_of(target), read, payment)
    place = Unpublished(target, _force(target, ending), read)
    place.check(resume=place.goes_on(paying.charge_key, resume=ending.resume))
    if fitted is None:
        wanted = _typed(wanted, public, reading, ending, place.label_type(paying.charge_key, resume=ending.resume))
    drawn = place.drawn(wanted, payment, paying.charge_key, resume=ending.resume)
    if drawn is None:  # once the corpus is drawn, its inputs may be gone
        _check_inputs(source, public, reading)
    fields = Fields(
        layout.text_field, label=reading.label_field, author=reading.author_field, subject=paying.subject_field,
        measured=wanted.measured_fields,
    )  # fmt: skip
    file_columns(target, None, settings(wanted), Fields(layout.text_field, label=reading.label_field, keep=carry))
    randomness = secure() if ending.seed is None else seeded(ending.seed)
    due = None if payment is None else payment.due(wanted, randomness=randomness, fields=fields)
    if ending.dry_run:
        left = _still_due(due, place, paying, resume=ending.resume) if due and drawn is None else None
        say_what_would_be(
            wanted, guarantees(wanted, randomness=randomness), source, reading, payment, left, ending, public=public
        )
        return
    plan = Plan(fields, **layout.settings())
    private = Private(Path(source), fields, {"format": plan.input_format, **plan.reading})
    begun_by, pool = drawn, list[Record]()
    if begun_by is None:
        begun = place.goes_on(paying.charge_key, resume=ending.resume)
        _check_first(None if dataset else private, None if begun or fields.subject is not None else due)
        pool = _read_pool(wanted, layout, public, reading.label_field, carry, fitted)
        own = {"public": records_digest(pool)} if fitted is None else dict(fitted.digests)
        leaving: dict[str, Json] = {"carry": list(carry)} if carry else {}
        begun_by = run_settings(wanted, own, plan, randomness, payment, source=source, **leaving)
    with place.held(), _advising(place):
        state = place.begun(begun_by, payment, resume=ending.resume)
        payment = said_key(payment and replace(payment, key=state.charge_key))
        if drawn is not None and not (state.files or place.has_summary):
            raise ConfigError(f"Another run has begun beside {target} at this moment. Look at it, and try again.")
        if not state.files:
            with place.unpaid(payment, state):
                with _writing() as tell:
                    if (measured := place.summary()) is not None:
                        found = _finished(wanted, measured, payment, fields, randomness, tell)
                    else:
                        ready = fitted or _fitted(wanted, pool, ending.seed, public)
                        paid: dict[str, Any] = {"payment": payment, "randomness": randomness}
                        paid |= {"on_measured": place.measured, "on_progress": tell}
                        workers = reading.who.made() if dataset else None
                        found = _drawn(source if dataset else private, ready, plan, workers, **paid)
                state = place.keep(_with_columns(found, carry, pool, layout, public, source), state)
        with finishing():
            certificate = place.publish(state, payment)
    say_what_was_made(target, state, certificate, payment, as_json=ending.as_json)


def _force(target: Path, ending: Ending) -> bool:
    if not ending.dry_run:
        return ending.force
    return rehearsed_force(*paths_of(target), force=ending.force, resume=ending.resume)


def _typed(
    wanted: CorpusSpec, public: Path | None, reading: CorpusReading, ending: Ending, known: str | None
) -> CorpusSpec:
    """Return settings whose labels leave in the type of the pool's labels. A dry run does not read them.

    `known` is the type of a run to resume, whose pool may be gone.
    """
    if known is not None:
        return replace(wanted, label_type=known)
    if ending.dry_run:
        return wanted
    layout = reading.layout
    own = layout.public_label_field or reading.label_field
    return with_label_type(wanted, public, own, layout.public_text_field or layout.text_field)


def _with_columns(
    found: Synthesized,
    carry: tuple[str, ...],
    pool: Sequence[Record],
    layout: options.Layout,
    public: Path | None,
    source: str,
) -> Synthesized:
    """Return what was made with the columns of the pool that leave. Of a run that had drawn, the pool is read again."""
    if not carry:
        return found
    if not pool and public is not None:
        refuse_same(source, public)
    read = pool or layout.read_public(public, keep=carry)
    return found.joined(Carried.of(read, carry, public, layout.settings()["input_format"]))


def _fitted(wanted: CorpusSpec, pool: Sequence[Record], seed: int | None, public: Path | None) -> Fitted:
    """Return the synthesis, fitted to the pool, and show how far it is. All that is read is public."""
    if not wanted.tells:
        return wanted.fit(public=pool, seed=seed)
    fit: Callable[..., Fitted] = wanted.fit
    with kept_beside(public, pool), counted("fitting") as tell:
        found = fit(public=pool, seed=seed, on_progress=lambda at: tell(at.done, at.total, at.unit))
    if said := without_drafts(found):
        for line in f"Warning: {said}".splitlines():
            say(line)
    return found


@contextlib.contextmanager
def _writing() -> Iterator[Progress]:
    """Show how far the writing is, from its first call on: nothing is shown while the private corpus is read."""
    with contextlib.ExitStack() as shown:

        @cache
        def bar() -> Tell:
            return shown.enter_context(counted("writing", DRAFTED))

        def tell(done: int, whole: int) -> None:
            bar()(done, whole)

        yield tell


def _drawn(private: Private | str, ready: Fitted, plan: Plan, workers: Workers | None, **paid: Any) -> Synthesized:
    """Sum up a corpus, or the place of one of many files, and write; the caller settles the charge."""
    say("Summing up the private corpus. No progress is shown, because it would reveal the corpus' size.")
    if isinstance(ready, FittedSummary) and (seconds := _expected(ready)) > _LONG:
        say(f"About {ready.spec.about:,} texts as long as public ones take about {seconds:,.0f} s on one core.")
    if isinstance(private, str):
        return synthesize_dataset(private, ready, plan=plan, workers=workers, settled=False, **paid)
    return run(private, ready, settled=False, **paid)


def _expected(ready: FittedSummary) -> float:
    """Return about how many seconds `about` texts take to be read, by a few texts of the pool; 0 if it is not known."""
    pool = ready.public.pool
    if (
        pool.space is None or not (pool.texts and ready.spec.reads_points) or ready.spec.unit == "author"
    ):  # who may have many texts
        return 0.0
    texts = pool.texts[:: max(1, len(pool.texts) // _TIMED)]
    taken = []
    for _ in range(2):  # the first one may compile; the processor's time is not that of other programs
        begun = time.process_time()
        pool.space.features(texts)
        taken.append(time.process_time() - begun)
    return min(taken) / len(texts) * ready.spec.about


def _finished(
    wanted: CorpusSpec,
    measured: tuple[bytes, Certificate],
    payment: Payment | None,
    fields: Fields,
    randomness: Randomness,
    tell: Progress,
) -> Synthesized:
    """Write from the summary that a run kept before it died: nothing is read, drawn or charged."""
    data, certificate = measured
    say("The noisy numbers of the unfinished run are there: nothing private is read, and no noise is drawn.")
    if payment is not None and certificate.charged is not None:
        payment.settle(payment.charge_key(), stream_mark(certificate.charged.stream or ""))
    return finished(wanted, data, certificate, fields=fields, randomness=randomness, on_progress=tell)


def _still_due(due: Due, place: Unpublished, paying: Paying, *, resume: bool) -> Due | None:
    """Return the debt of a run; None if its charge is in the ledger. Errors as of the charge.

    Subjects that are charged by name are not known before the corpus is read. Nobody of them has more left than one
    who was never charged by name.
    """
    begun = place.load() if place.goes_on(paying.charge_key, resume=resume) else None
    key = begun.charge_key if begun else paying.charge_key
    if paying.subject_field is None:
        return due if due.weigh(key, None) else None
    if key is None:
        due.payment.ledger.weigh(due.account.name, due.request, [secrets.token_hex(16)])
    return due


def _public_label(layout: options.Layout, public: Path | None, label_field: str | None) -> str | None:
    """Return the label field of the pool, whose labels are shown to a language model; None if it has none."""
    return None if public is None else layout.public_label(public, label_field)


def _check_first(private: Private | None, due: Due | None) -> None:
    """Raise the errors of a private file and an account that can be found before the pool is read."""
    if private is not None:
        private.check()
    if due is not None:
        due.weigh(due.payment.key, None)


def _check_inputs(source: str, public: Path | None, reading: CorpusReading) -> None:
    """Raise ConfigError if a file is not there, or the pool is the private corpus. No record is read."""
    files = [] if public is None else [public]
    if is_dataset(source):
        shards_of(source, format=reading.layout.settings()["input_format"], options={})  # lists the names
    else:
        refuse_for_a_file(reading.who)
        files = [options.named(options.file_path, source, "PRIVATE"), *files]
    for path in files:
        with telling(path, "read"):
            path.stat()
    if public is not None:
        refuse_same(source, public)


def _check_fields(wanted: CorpusSpec, reading: CorpusReading, carry: tuple[str, ...]) -> None:
    """Raise ConfigError unless the settings and the named fields agree, and an encoder of the user's own is here."""
    label_field, author_field = reading.label_field, reading.author_field
    if wanted.encoder not in ENCODERS:
        encoder_folder(wanted.encoder)
    require_pool_leaves(wanted, carry)
    labels = [label_field or LABEL_FIELD] if wanted.labels else []
    require_own_names(carry, [ID_FIELD, reading.layout.text_field, *labels])
    if wanted.labels and label_field is None:
        raise ConfigError(f"Expected --label-field NAME: {wanted.kind} with labels reads the label of each record.")
    if label_field is not None and not wanted.labels:
        raise ConfigError(
            f"Expected the set of labels with --label-field {label_field!r}: it is public and read from no text. Give "
            "--labels a,b."
        )
    if wanted.unit == "author" and author_field is None:
        raise ConfigError("Expected --author-field NAME, as --unit author: whose records are added up.")
    if wanted.unit != "author" and author_field is not None:
        raise ConfigError(
            f"Expected --author-field with --unit author, found unit={wanted.unit!r}. Add --unit author to protect "
            "all records of an author together, or leave the field out."
        )


def _read_pool(
    wanted: CorpusSpec,
    layout: options.Layout,
    public: Path | None,
    label_field: str | None,
    carry: tuple[str, ...],
    fitted: Fitted | None,
) -> list[Record]:
    """Read the pool unless a synthesis is `fitted`, and say what is known of both before the private corpus is read.

    The language of the private corpus is judged by `check` alone.
    """
    for line in wanted.advice.splitlines():
        say(line)
    if fitted is not None:
        return []
    pool = layout.read_public(public, label=_public_label(layout, public, label_field), keep=carry)
    n_texts = len(pool)
    say(f"Reading the pool of {n_texts:,} public texts.")
    say_if_in_other_language(wanted, pool)
    if n_labelled := sum(record.label in wanted.labels for record in pool):
        say(
            f"{n_labelled:,} public texts have these labels, which choose no texts and measure nothing. They may teach "
            "as much as the corpus: `dptext utility corpus` compares both."
        )
    if isinstance(wanted, SynthesisSpec) and wanted.repeats is not None and wanted.size > n_texts:
        so = "some leave more than once" if wanted.repeats else "no more leave"
        say(f"{wanted.size:,} texts are wanted, and the pool has {n_texts:,}: {so}.")
    return pool


@contextlib.contextmanager
def _advising(place: Unpublished) -> Iterator[None]:
    """Say how to go on, of a run that is stopped, and of one that fails after its summary is kept."""
    with advising(lambda: _left_there(place)):
        try:
            yield
        except Exception:  # of any kind: it is raised again, after the advice
            if place.has_summary:
                say(_left_there(place))
            raise


def _left_there(place: Unpublished) -> str:
    state = place.load()
    if state is None:
        return "Nothing was charged or written."
    done = "Nothing is drawn: an unfinished run lies"
    if place.has_summary:
        done = "The noisy numbers are drawn and kept, and nothing is published: an unfinished run lies"
    if state.files:
        done = "The corpus lies whole and unpublished"
    charge = CHARGED if state.charge_key else ""
    return f"{done} beside {place.target}: --resume goes on, --force begins anew.{charge}"
