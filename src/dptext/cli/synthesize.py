"""`dptext synthesize`: make a synthetic corpus, with its certificate, from a private corpus."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from dptext.batch.corpora import synthesize_dataset
from dptext.cli import options
from dptext.cli.chosen import set_values
from dptext.cli.grouped import promises, runs
from dptext.cli.many import Who, is_dataset, refuse_for_a_file
from dptext.cli.paying import Paying, cost, said_key
from dptext.cli.terminal import advising, finishing, say
from dptext.errors import ConfigError
from dptext.mechanism import settings
from dptext.privacy.guarantee import Guarantee
from dptext.runs.apart import refuse_same
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.plan import Plan
from dptext.runs.private import Private
from dptext.runs.specs import read_toml, synthesis_from_settings
from dptext.runs.states import CorpusState, settings_digest
from dptext.runs.streaming import guarantees
from dptext.runs.synthesized import REPORT_SUFFIXES, file_columns, paths_of
from dptext.runs.synthesizing import run
from dptext.runs.unpublished import Unpublished
from dptext.sampling.randomness import secure, seeded
from dptext.synthesis.report import HARDLY_MORE_THAN_NOISE
from dptext.synthesis.spec import SynthesisSpec
from dptext.text.records import Fields, Record, records_digest

if TYPE_CHECKING:  # the ledger is loaded only if it is used
    from dptext.runs.payment import Due, Payment


def synthesize(
    source: Annotated[
        str,
        Argument(
            metavar="PRIVATE",
            parser=options.place,
            help="The private corpus: a file, a folder, a glob or a URL. A record that cannot be read adds nothing.",
        ),
    ],
    target: Annotated[
        Path,
        Argument(
            metavar="OUT",
            parser=options.output_path,
            help="The synthetic corpus. OUT.guarantee.json, OUT.topics.json and OUT.topics.html are written beside it.",
        ),
    ],
    *,
    public: Annotated[Path, options.file_option(help="The pool: public texts. Some of them leave.")],
    mechanism: Annotated[
        str | None,
        promises(
            "--mechanism", "-m", metavar="NAME", help="prototypes (default), votes, topics, prediction or steering."
        ),
    ] = None,
    assignments: options.SetOption = None,
    spec: options.SpecOption = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    author_field: options.AuthorFieldOption = None,
    paying: Paying,
    who: Who,
    seed: options.VoidingSeedOption = None,
    force: options.ForceOption = False,
    resume: options.ResumeOption = False,
    dry_run: Annotated[
        bool, runs("--dry-run", help="Say what a run would guarantee and cost. Nothing is read, drawn or charged.")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    changes = set_values(assignments, "way")
    written = {} if spec is None else read_toml(spec)
    kind = mechanism or written.get("kind") or "prototypes"
    wanted = synthesis_from_settings({**written, "kind": kind, **changes})
    _check_fields(wanted, label_field, author_field)
    payment, dataset = paying.payment(), is_dataset(source)
    inputs = tuple(path for path in (Path(source), public, spec) if path is not None)
    paying.refuse_inputs(paths_of(target), inputs, payment)
    place = Unpublished(target, force, inputs)
    place.check(resume=place.goes_on(paying.charge_key, resume=resume))
    drawn = place.drawn(wanted, payment, paying.charge_key, resume=resume)
    if drawn is None:  # once the corpus is drawn, its inputs may be gone
        _check_inputs(source, public, who)
    file_columns(target, None, settings(wanted))
    randomness = secure() if seed is None else seeded(seed)
    fields = Fields(layout.text_field, label=label_field, author=author_field, subject=paying.subject_field)
    promised = guarantees(wanted, randomness=randomness)[-1]
    due = None if payment is None else payment.due(wanted, randomness=randomness, fields=fields)
    if dry_run:
        print(f"A run would release one corpus. Nothing was read, drawn, charged or written.\n{promised.sentence()}")
        if due is not None and payment is not None:
            print(f"{cost(due)} {payment.left()}")
        return
    plan = Plan(fields, **layout.settings())
    private = Private(Path(source), fields, {"format": plan.input_format, **plan.reading})
    digest, pool = drawn, list[Record]()
    if digest is None:
        begun = place.goes_on(paying.charge_key, resume=resume)
        _check_first(None if dataset else private, None if begun or fields.subject is not None else due)
        pool = layout.read_public(public)
        _say_of_the_pool(wanted, len(pool))
        digest = settings_digest(wanted, {"public": records_digest(pool)}, plan, randomness, payment, source=source)
    with place.held(), advising(lambda: _left_there(place)):
        state = place.begun(digest, payment, resume=resume)
        payment = said_key(payment and replace(payment, key=state.charge_key))
        if drawn is not None and not state.files:
            raise ConfigError(f"Another run has begun beside {target} at this moment. Look at it, and try again.")
        if not state.files:
            with place.unpaid(payment, state):
                fitted = wanted.fit(public=pool, seed=seed)
                say("Summing up the private corpus. No progress is shown, because it would reveal the corpus' size.")
                paid: dict[str, Any] = {"payment": payment, "randomness": randomness, "settled": False}
                paid["public"] = [record.text for record in pool]
                if dataset:
                    found = synthesize_dataset(source, fitted, plan=plan, workers=who.made(), **paid)
                else:
                    found = run(private, fitted, **paid)
                state = place.keep(found, state)
        with finishing():
            certificate = place.publish(state, payment)
    _say_what_was_made(target, state, certificate, promised, payment, as_json=as_json)


def _check_first(private: Private | None, due: Due | None) -> None:
    """Raise the errors of a private file and an account that can be found before the pool is read."""
    if private is not None:
        private.check()
    if due is not None:
        due.weigh(due.payment.key, None)


def _check_inputs(source: str, public: Path, who: Who) -> None:
    if not is_dataset(source):
        refuse_for_a_file(who)
        options.named(options.file_path, source, "PRIVATE")
    refuse_same(source, public)


def _check_fields(wanted: SynthesisSpec, label_field: str | None, author_field: str | None) -> None:
    """Raise ConfigError unless the settings and the named fields agree."""
    if wanted.labels and label_field is None:
        raise ConfigError(f"Expected --label-field NAME: {wanted.kind} with labels reads the label of each record.")
    if label_field is not None and not wanted.labels:
        raise ConfigError(
            f"Expected the set of labels with --label-field {label_field!r}: it is public and read from no text. Give "
            '--set \'labels=["a", "b"]\'.'
        )
    if wanted.unit == "author" and author_field is None:
        raise ConfigError('Expected --author-field NAME, as unit="author": whose records are added up.')
    if wanted.unit != "author" and author_field is not None:
        raise ConfigError(
            f"Expected --author-field with unit='author', found unit={wanted.unit!r}. Add --set unit=author to protect "
            "all records of an author together, or leave the field out."
        )


def _say_what_was_made(
    target: Path,
    state: CorpusState,
    certificate: Certificate,
    promised: Guarantee,
    payment: Payment | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        told = {"certificate": str(certificate_path(target)), **json.loads(certificate.to_json())}
        report = json.loads(target.with_name(target.name + REPORT_SUFFIXES[0]).read_bytes())
        print(json.dumps({**told, "report": report}, indent=2))
        return
    print("\n".join([promised.sentence(), *state.sentences, "", certificate.explain()]))
    if payment is not None:
        print(f"\n{payment.left()}")
    print(f"\nWritten: {target}, {certificate_path(target).name} and {target.name}{REPORT_SUFFIXES[1]}.")
    if HARDLY_MORE_THAN_NOISE in state.sentences:
        return
    print(f"Next: {shlex.join(['dptext', 'explain', str(target)])}; open {target.name}{REPORT_SUFFIXES[1]}.")


def _say_of_the_pool(wanted: SynthesisSpec, n_texts: int) -> None:
    if wanted.kind == "votes" and wanted.labels:
        say("votes with labels measured worse than public text on most corpora: prototypes is the way with labels.")
    less = f" No more leave: size={wanted.size:,} is too many." if wanted.kind in ("prototypes", "votes") else ""
    say(f"Reading the pool of {n_texts:,} public texts.{less if wanted.size > n_texts else ''}")


def _left_there(place: Unpublished) -> str:
    state = place.load()
    if state is None:
        return "Nothing was charged or written."
    done = "The corpus lies whole and unpublished" if state.files else "Nothing is drawn: an unfinished run lies"
    charge = " What was charged stays charged: --resume finds the charge." if state.charge_key else ""
    return f"{done} beside {place.target}: --resume goes on, --force begins anew.{charge}"
