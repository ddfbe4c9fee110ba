"""`dptext synthesize`: a private corpus in, a synthetic corpus and its certificate out."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from dptext.batch.corpora import synthesize_dataset
from dptext.cli import options
from dptext.cli.chosen import set_values
from dptext.cli.privatize_folder import Paying, Who, cost, is_dataset, refuse_for_a_file, said_key
from dptext.cli.terminal import say
from dptext.errors import ConfigError
from dptext.mechanism import settings
from dptext.runs.certificate import certificate_path
from dptext.runs.plan import Plan
from dptext.runs.specs import read_toml, synthesis_from_settings
from dptext.runs.streaming import guarantees
from dptext.runs.synthesizing import REPORT_SUFFIXES, Private, due_of, file_columns, paths_of, refuse_same, run
from dptext.sampling.source import secure, seeded
from dptext.text.files import Target
from dptext.text.records import Fields


@options.spread
def synthesize(
    source: Annotated[
        str,
        Argument(
            metavar="PRIVATE",
            parser=options.place,
            help="The private corpus: file, folder, glob or URL. A record that cannot be read adds nothing.",
        ),
    ],
    target: Annotated[
        Path,
        Argument(
            metavar="OUT",
            parser=options.output_path,
            help="The synthetic corpus; beside it OUT.guarantee.json, OUT.topics.json and OUT.topics.html.",
        ),
    ],
    *,
    public: Annotated[Path, options.file_option(help="The pool: public texts, of which some leave.")],
    mechanism: Annotated[
        str | None, Option("--mechanism", "-m", help="prototypes (default), votes, topics, prediction or steering.")
    ] = None,
    assignments: options.SetOption = None,
    spec: options.SpecOption = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    author_field: Annotated[str | None, Option(help="Field of the author.")] = None,
    paying: Paying,
    who: Who,
    seed: Annotated[int | None, Option(help="For experiments: voids the guarantee.")] = None,
    force: options.ForceOption = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be guaranteed and paid; read nothing.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    changes = set_values(assignments, "way")
    written = {} if spec is None else read_toml(spec)
    kind = mechanism or written.get("kind") or "prototypes"
    wanted = synthesis_from_settings({**written, "kind": kind, **changes})
    if wanted.labels and label_field is None:
        raise ConfigError(f"Expected --label-field NAME: {wanted.kind} with labels reads the label of each record.")
    if label_field is not None and not wanted.labels:
        raise ConfigError(
            f"Expected the set of labels with --label-field {label_field!r}: it is public and read from no text. Give "
            '--set \'labels=["a", "b"]\'.'
        )
    if wanted.unit == "author" and author_field is None:
        raise ConfigError('Expected --author-field NAME, as unit="author": whose records are added up.')
    if wanted.kind == "votes" and wanted.labels:
        say("votes with labels measured worse than public text on most corpora: prototypes is the way with labels.")
    payment, dataset = paying.payment(), is_dataset(source)
    if not dataset:
        refuse_for_a_file(who)
        options.named(options.file_path, source, "PRIVATE")
    refuse_same(source, public)
    inputs = tuple(path for path in (Path(source), public, spec) if path is not None)
    paying.refuse_inputs(paths_of(target), inputs, payment)
    for path in paths_of(target):
        Target(path, force, inputs, private=False).check()
    file_columns(target, None, settings(wanted))
    randomness = secure() if seed is None else seeded(seed)
    fields = Fields(layout.text_field, label=label_field, author=author_field, subject=paying.subject_field)
    promised = guarantees(wanted, randomness=randomness)[-1]
    if dry_run:
        due = None if payment is None else due_of(payment, wanted, randomness, fields)
        print(f"A run would release one corpus. Nothing was read, drawn, charged or written.\n{promised.sentence()}")
        if due is not None and payment is not None:
            print(f"{cost(due)} {payment.left()}")
        return
    payment, pool = said_key(payment), layout.read_public(public)
    less = f" No more leave: size={wanted.size:,} is too many." if wanted.kind in ("prototypes", "votes") else ""
    say(f"Reading the pool of {len(pool):,} public texts.{less if wanted.size > len(pool) else ''}")
    fitted = wanted.fit(public=pool, seed=seed)
    say("Summing up the private corpus. How far that is shows its size, and is not told.")
    plan = Plan(fields, **layout.settings())
    paid: dict[str, Any] = {"payment": payment, "randomness": randomness, "settled": False}
    if dataset:
        found = synthesize_dataset(source, fitted, plan=plan, workers=who.made(), **paid)
    else:
        found = run(Private(Path(source), fields, {"format": plan.input_format, **plan.reading}), fitted, **paid)
    certificate = found.write(target, force=force, settle=found.settle)
    if as_json:
        told = {"certificate": str(certificate_path(target)), **json.loads(certificate.to_json())}
        print(json.dumps({**told, "report": found.report.to_dict()}, indent=2))
        return
    print("\n".join([promised.sentence(), *found.sentences, "", certificate.explain()]))
    if payment is not None:
        print(f"\n{found.left}")
    print(f"\nWritten: {target}, {certificate_path(target).name} and {target.name}{REPORT_SUFFIXES[1]}.")
    print(f"Next: {shlex.join(['dptext', 'explain', str(target)])}; open {target.name}{REPORT_SUFFIXES[1]}.")
