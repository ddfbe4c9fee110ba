"""`dptext recommend`: recommend a mechanism, with the measured rows that support it, or none."""

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from typer import prompt

from dptext.cli.answers import TAKE_NONE, by_law
from dptext.cli.grouped import promises, reads
from dptext.cli.options import DetailsOption, ForceOption, JsonOption, any_path, member, output_option
from dptext.cli.terminal import say
from dptext.doors import absent
from dptext.errors import ConfigError
from dptext.mechanism import setting_fields
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from dptext.recommend.corpora import BETTER, DELTA, LEAST, Row, measured_at, texts_at
from dptext.recommend.measured import MeasuredTable
from dptext.recommend.pooled import MeasuredRow
from dptext.recommend.recommendation import (
    FIDELITY,
    LABEL_KEPT,
    MADE_BY,
    TASKS,
    Asked,
    Recommendation,
    Verdict,
    largest_of,
    measured_epsilons,
    not_measured,
    recommendations,
    reduced,
)
from dptext.recommend.tables import json_bytes, read_measured
from dptext.registry import MECHANISMS
from dptext.runs.specs import spec_from_settings
from dptext.text.files import Target
from dptext.text.inputs import parse_json
from dptext.types import Json
from dptext.utility.tables import PUBLIC_ONLY

_SHOWN: Final = 5
_SCOPE: Final = (
    "Measured on these corpora and no others: run `dptext compare` with your own before you rely on it. A guarantee "
    "that is conditional holds as long as its assumptions do: `dptext explain` says which."
)


_ASKED: Final = "Do readers need each text, or a corpus that says what all of them say?"
_BOTH: Final = (
    f"{_ASKED}\n--of corpus: one epsilon for all of them, and one party sees them: another question. --of texts:"
)


#: By task: what a recommended mechanism does better than public text.
_BEATS: Final = {
    "classification": "teaches a classifier more than they do",
    "meaning": "keeps more meaning than they do",
    "authorship": "hides authors better than they do",
}

_FURTHER: Final = "On the splits of --of corpus, at an epsilon for each text:"

#: Measured syntheses that a summary and a writer do, too, with the same numbers and texts.
_WAYS: Final = {"prototypes": " (a summary, and its writer pool)"}
Of = StrEnum("Of", ["TEXTS", "CORPUS"])  # the kind of release


def recommend(
    of: Annotated[
        str | None,
        promises(
            help="What is released: texts (each of them), or corpus (what all say, under one epsilon). Default: asked."
        ),
    ] = None,
    unit: Annotated[str, promises(help="What one epsilon protects: token, sentence, document or author.")] = "document",
    epsilon: Annotated[float, promises(help="Largest epsilon of a release.")] = 10.0,
    task: Annotated[
        str, promises(help="Use of the releases: classification, meaning, or authorship (which is to stay hidden).")
    ] = "classification",
    delta: Annotated[float, promises(help="Largest delta of a release. A delta above 1e-3 protects nothing.")] = 1e-3,
    table: Annotated[
        Path | None,
        reads(
            parser=any_path,
            metavar="PLACE",
            help="Measurements: a folder of `dptext compare` or a file of --reduce. Default: ours.",
        ),
    ] = None,
    reduce: Annotated[
        Path | None,
        output_option(help="File for the rows of --table on which recommendations rest."),
    ] = None,
    force: ForceOption = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the answer for every corpus of the table. With --reduce, also write the rows that support the answer."""
    asks = of is None and table is None and not as_json
    if asks and sys.stdin.isatty():
        of = str(prompt(f"{_ASKED} (texts, corpus)", err=True))
    if member(Of, "--of", of or Of.TEXTS) is Of.CORPUS:
        if table is not None or reduce is not None:
            raise ConfigError("Expected no --table with --of corpus: `dptext compare` measures what answers each text.")
        if task != "classification":
            raise ConfigError("Expected --task classification with --of corpus: nothing else was measured of one.")
        _corpus(member(Unit, "--unit", unit), epsilon, delta, as_json)
        return
    measured = read_measured(table)
    if reduce is not None:
        if table is None:
            raise ConfigError("Expected --table DIR with --reduce: the folder of a finished `dptext compare`.")
        Target(reduce, force, (table,)).write(json_bytes(reduced(measured).model_dump()))
        say(f"Written: {reduce}")
    asked = Asked(member(Unit, "--unit", unit), epsilon, delta, task)
    answers, levels = recommendations(measured.rows, asked), measured_epsilons(measured.rows, asked.unit)
    more = texts_at(asked.unit, epsilon) if table is None and task == "classification" else ()
    if as_json:
        print(json.dumps(_data(measured, asked, answers, more, levels), indent=2))
        return
    print("\n".join([*([_BOTH] if asks and of is None else []), *_answer(answers, asked, more, levels)]))
    if left := measured.about.cells.left:
        print(f"Warning: {left} cells of the table are not done yet; run `dptext compare` again to go on.")
    if not details:
        print("--details shows the rows behind it, their settings, and what was not recommended and why.")
        return
    about = measured.about
    print(f"\nTable: {about.name}, written {about.written} by {about.command} (dptext {about.version}).")
    print(f"To measure it anew: {MADE_BY}")
    for answer in answers:
        print("", *_lines(answer), sep="\n")
    if more:
        print(f"\n{_FURTHER}", *map(_further, more), sep="\n")
    print(f"\n{_SCOPE}")


def _corpus(unit: Unit, epsilon: float, delta: float, as_json: bool) -> None:
    """Print the best measured synthesis of a whole corpus for this unit, at the largest measured epsilon allowed."""
    measured = measured_at(unit, epsilon, delta)
    best, worth, by_author = measured.best, measured.worth, unit is Unit.AUTHOR
    law = by_law(Guarantee(measured.epsilon, DELTA, unit, Relation.ADD_OR_REMOVE_ONE)) if best else ""
    asked_more = not_measured(measured.levels, epsilon, unit)
    kind, n = Counter(row["way"] for row in worth).most_common(1)[0] if worth else ("none", 0)
    if as_json:
        rows_told = [{**row, "beats_public_text": row in worth} for row in best]
        told = {"of": "corpus", "answer": kind if best else "not measured", "margin": BETTER, "by_law": law}
        told |= {"asked_epsilon": epsilon, "measured_epsilon": measured.epsilon if best else None}
        print(json.dumps({**told, "rows": rows_told}, indent=2))
        return
    if not best:
        print(
            f"Not measured at epsilon {epsilon:g} and delta {delta:g} per {unit.value} for the whole corpus: "
            f"measurements begin at {LEAST:g} and {DELTA:g}."
        )
        return
    if not worth:
        price = f"epsilon {measured.epsilon:g} and delta {DELTA:g} per {unit.value}"
        print(f"{TAKE_NONE} At {price} for the whole corpus nothing that was measured beats them by {BETTER:g}.")
        print(asked_more, end="\n" if asked_more else "")
        return
    price = f"epsilon {measured.epsilon:g}"
    print(
        f"Take {kind}{_WAYS.get(kind, '')}: at {price} and delta {DELTA:g} per {unit.value} for the whole corpus it "
        f"beats public text by more than {BETTER:g} of accuracy on {n} of {len(best)} "
        f"{'split' if len(best) == 1 else 'splits'}."
    )
    print(asked_more, end=" The commands below take that epsilon.\n" if asked_more else "")
    print("Without labels take votes (dptext synthesize), and for numbers alone the report of a summary.\n")
    for row in best:
        beside = f"public text {row['public_only']:.3f}, originals {row['original']:.3f}"
        none = "" if row in worth else f" take none ({_beside_public(row)} public text);"
        print(f"  {row['split']}:{none} accuracy of a classifier {row['accuracy']:.3f} ({beside})")
    settings = f"--public POOL --label-field LABEL --labels A,B --{price} --about N"
    settings += " --unit author --author-field AUTHOR" if by_author else ""
    print(f"\n{law}")
    if kind in _WAYS:
        print(f"Next: dptext summarize PRIVATE OUT.summary {settings}")
        print("      dptext write OUT.summary OUT.csv --writer pool")
    else:
        print(f"Next: dptext synthesize PRIVATE OUT --mechanism {kind} {settings}")
    again = "Only summarize is charged. " if kind in _WAYS else ""
    print(f"{again}Its epsilon is of all texts together, and one party sees them: it is no epsilon of each text.")


def _beside_public(row: Mapping[str, Json]) -> str:
    """Return how a row that is not worth its epsilon stands to public text."""
    return "below" if float(str(row["accuracy"])) < float(str(row["public_only"])) else f"no more than {BETTER:g} above"


def _more(found: Sequence[Row]) -> list[str]:
    """Return lines about the splits of corpora, of which single texts were measured, too."""
    gained, others = [row for row in found if row["gains"]], [row for row in found if not row["gains"]]
    if not found:
        return []
    none = f"  no more than public text: {'; '.join(row['split'] for row in others)}"
    return [_FURTHER, *map(_further, gained), *([none] if others else [])]


def _further(row: Row) -> str:
    return (
        f"  {row['split']}: {row['way']} epsilon={row['epsilon']:g}: accuracy {row['accuracy']:.3f} "
        f"(public text {row['public_only']:.3f}, originals {row['original']:.3f})"
    )


def _answer(answers: Sequence[Recommendation], asked: Asked, more: Sequence[Row], levels: Sequence[float]) -> list[str]:
    asked_more = [said for said in (not_measured(levels, asked.epsilon, asked.unit),) if said]
    chosen = [answer.qualified[0].row for answer in answers if answer.qualified]
    below = largest_of(levels, asked.epsilon)
    price = f"epsilon {below or asked.epsilon:g} per {asked.unit}"
    up_to = f" up to epsilon {below:g}" if asked_more and below else ""
    each = [_line(answer, up_to) for answer in answers]
    if not chosen and not any(answer.is_free for answer in answers):
        return [
            f"None: up to {price} no measured mechanism is worth taking for {asked.task}.",
            *asked_more,
            "Ask for a larger --epsilon or another --unit, release less, or measure your own: dptext compare.",
        ]
    free = [answer.corpus for answer in answers if answer.is_free]
    paid = [answer.qualified[0].row for answer in answers if answer.qualified and not answer.is_free]
    if not paid:
        said = f"Up to {price} nothing that was measured {_BEATS[asked.task]}, beyond the intervals (95%){_but(more)}."
        return [
            f"{TAKE_NONE} {said}" if below or not asked_more else TAKE_NONE,
            *asked_more,
            "",
            *each,
            *_more(more),
            "",
            "What each text means is another question: dptext recommend --task meaning.",
            "Measured on these corpora and no others: dptext compare measures yours.",
        ]
    kind, n = Counter(row.kind for row in paid).most_common(1)[0]
    lines = [f"Take {kind}: up to {price} it measured best for {asked.task} on {n} of {len(answers)} corpora."]
    lines += asked_more
    if free:
        lines.append(f"For {asked.task} alone, public text does no worse on {', '.join(free)}, and costs nothing.")
    lines.append("")
    lines += [*each, *_more(more)]
    best = next(row for row in paid if row.kind == kind)
    epsilon = _as_asked(best, asked, below) if asked_more else best.epsilon or 0.0
    return [
        *lines,
        "",
        by_law(Guarantee(epsilon, best.delta or 0.0, asked.unit, Relation.REPLACE_ONE)),
        *([_whether_measured(epsilon, asked)] if asked_more and best.kind in MECHANISMS else []),
        _next(best, epsilon),
        "Measured on these corpora and no others: dptext compare measures yours.",
    ]


def _but(more: Sequence[Row]) -> str:
    named = [row["split"] for row in more if row["gains"]]
    return f", but where they lack labels that private texts have ({'; '.join(named)})" if named else ""


def _as_asked(best: MeasuredRow, asked: Asked, below: float) -> float:
    """Return the epsilon of the next command, if nothing was measured at the one that was asked for.

    It is the one that was asked for, if a setting can hold it, and the best row is of the largest one below it.
    """
    own = best.epsilon or 0.0
    is_setting = best.kind in MECHANISMS and parse_json(best.settings).get("epsilon") == own
    return asked.epsilon if is_setting and below == float(f"{own:.6g}") else own


def _whether_measured(epsilon: float, asked: Asked) -> str:
    said = "as asked, though it was not measured" if epsilon == asked.epsilon else "which was measured"
    return f"The next command gives epsilon {epsilon:g} per {asked.unit}, {said}."


def _next(best: MeasuredRow, epsilon: float) -> str:
    if best.kind not in MECHANISMS:  # the table has rows of kinds that packages bring
        return f"Next: install {best.kind}, and ask again.{absent(MECHANISMS.group, best.kind)}"
    values = parse_json(best.settings)
    if epsilon != best.epsilon:
        values["epsilon"] = int(epsilon) if epsilon.is_integer() else epsilon
    settings = " ".join(f"--set {name}={value}" for name, value in _chosen(best.kind, values))
    return (
        f"Next: dptext fit --mechanism {best.kind} {settings}{_labelled(best.kind, values)} --public FILE --out MODEL"
    )


def _labelled(kind: str, values: Mapping[str, Json]) -> str:
    """Return the options for labels, where `fit` would refuse the settings without them."""
    named = {name: value for name, value in values.items() if name != "labels"}
    try:
        learns = spec_from_settings({"kind": kind, **named}).traits.learns_labels
    except ConfigError:
        return " --set labels=A,B --label-field LABEL" * bool(values.get("labels"))
    return " --label-field LABEL" * learns


def _chosen(kind: str, values: Mapping[str, Json]) -> list[tuple[str, Json]]:
    usual = {each.name: each.default for each in setting_fields(MECHANISMS[kind])}
    return [
        (name, value)
        for name, value in values.items()
        if name != "labels" and usual.get(name) != (tuple(value) if isinstance(value, list) else value)
    ]


def _line(answer: Recommendation, up_to: str) -> str:
    if not answer.qualified:
        return f"  {answer.corpus}: {f'none{up_to}' if answer.metric else 'not measured'}"
    best = answer.qualified[0]
    said = []
    for name in _numbers(best, answer.metric):
        others = [(other.numbers[name].value, other.row) for other in best.beaten if name in other.numbers]
        if answer.is_free and name == answer.metric and answer.public is not None:
            others = [(answer.public.value, PUBLIC_ONLY)]
        value, of = max(others) if others else (math.nan, "")
        beside = f" ({of} {value:.3f})" if others else ""
        said.append(f"{name.rpartition('.')[2].replace('_', ' ')} {best.row.numbers[name].value:.3f}{beside}")
    none = "take none; " if answer.is_free else ""
    return f"  {answer.corpus}: {none}{best.row.row}: {', '.join(said)}"


def _numbers(best: Verdict, metric: str) -> list[str]:
    kept = [LABEL_KEPT] if metric in TASKS["classification"][0] and LABEL_KEPT in best.row.numbers else []
    return list(dict.fromkeys((metric, *kept, FIDELITY)))


def _lines(answer: Recommendation) -> list[str]:
    if not answer.metric:
        return [f"{answer.corpus}: the task was not measured there"]
    lines = [f"{answer.corpus}: none"]
    if answer.qualified:
        best = answer.qualified[0]
        lines = [f"{answer.corpus}: {best.row.row}", *_behind(best, answer.metric)]
        if others := answer.qualified[1:]:
            lines.append(f"  also good enough, in this order ({answer.metric}):")
            lines += [f"    {other.row.row}: {other.row.numbers[answer.metric]}" for other in others[:_SHOWN]]
    near = [verdict for verdict in answer.rejected if verdict.eligible]
    if near:
        lines.append("  not recommended:")
        lines += [f"    {verdict.row.row}: {'; '.join(verdict.reasons)}" for verdict in near]
    if rest := len(answer.rejected) - len(near):
        lines.append(f"  {rest} more rows do not have the guarantee that is asked for (--json names them).")
    return lines


def _behind(best: Verdict, metric: str) -> list[str]:
    row = best.row
    lines = [f"  {row.guaranteed()}"]
    lines += [f"  {name} {row.numbers[name]}" for name in _numbers(best, metric)]
    for other in best.beaten:
        shown = "; ".join(f"{name} {other.numbers[name]}" for name in _numbers(best, metric) if name in other.numbers)
        cost = f" at epsilon {other.epsilon:g}" if other.epsilon else ""
        lines.append(f"  beside {other.row}{cost}: {shown}")
    lines.append(f"  settings: kind {row.kind}, {json.dumps(row.to_dict()['settings'])}")
    return lines


def _data(
    measured: MeasuredTable,
    asked: Asked,
    answers: Sequence[Recommendation],
    more: Sequence[Row],
    levels: Sequence[float],
) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for answer in answers:
        best, public = answer.qualified[:1], answer.public
        found[answer.corpus] = {
            "answer": best[0].row.row if best and not answer.is_free else "none",
            "public_text_does_as_well": answer.is_free,
            "metric": answer.metric,
            "public_only": None if public is None else [public.value, public.low, public.high],
            "qualified": [verdict.row.to_dict() for verdict in answer.qualified],
            "references": [row.to_dict() for row in best[0].beaten] if best else [],
            "rejected": [{**verdict.row.to_dict(), "reasons": list(verdict.reasons)} for verdict in answer.rejected],
        }
    return {
        "answer": _answer(answers, asked, more, levels),
        "asked": {"unit": str(asked.unit), "epsilon": asked.epsilon, "delta": asked.largest_delta, "task": asked.task},
        "measured_epsilons": list(levels),
        "table": measured.model_dump(include={"about"})["about"],
        "unfinished_cells": measured.about.cells.left,
        "corpora": found,
        "further_splits": list(more),
    }
