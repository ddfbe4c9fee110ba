"""The verdict on a comparison: is any release worth having? Plain sentences, and the warnings below them.

A release is above a reference if the low end of its interval is above the high end of the reference's interval, and
below it in the reverse case; otherwise the intervals overlap, and nothing is shown. Only proven or conditional
guarantees that no audit refutes count, and of several meanings of epsilon the first that the page draws; an epsilon for
the whole corpus has a sentence of its own. Rows that do not count are named with the reason.
"""

import textwrap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Trust, format_delta, format_epsilon
from dptext.recommend.measured import REFUTED, KeptRow
from dptext.recommend.pooled import short
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY
from dptext_lab.compare.report import summary
from dptext_lab.compare.report.frontier import meanings
from dptext_lab.compare.stored import TableRow

_SLIGHT: Final = 0.05  # a smaller gain is called slight
_NAMED: Final = 4  # rows that are named for one reason
_SHORT: Final = 160  # characters of a reason
_WEAK: Final = 10.0  # a larger epsilon protects little in the worst case
_BETTER, _OPEN, _MOOT, _WORSE = range(4)
_TASK: Final = "classification.accuracy"
_MEANING: Final = "fidelity.cosine"
#: Each answer in words, best first.
_SAID: Final[Mapping[str, tuple[str, str, str, str]]] = {
    _TASK: (
        "For classification a release is worth {slightly}more than {references}",
        "For classification no release is shown to be worth more than {references}",
        "For classification neither a release nor the originals are shown to be worth more than {references}",
        "For classification these releases are worth less than {references}",
    ),
    _MEANING: (
        "The meaning of single texts is kept {slightly}better than by {references}",
        "The meaning of single texts is not shown to be kept better than by {references}",
        "The meaning of single texts is not shown to be kept better than by {references}, nor by the originals",
        "The meaning of single texts is kept worse than by {references}",
    ),
}
_ELSE: Final = ("", "not shown", "not shown, nor for the originals", "worse")  # after another answer


@dataclass(frozen=True, slots=True)
class _CorpusVerdict:
    """The answer on one corpus: its state, the epsilon from which it holds, its numbers in words, and the gain."""

    corpus: str
    state: int
    start: str
    numbers: str
    gain: float


def verdict(rows: Iterable[KeptRow]) -> list[str]:
    """Say whether a release is worth more than public text alone, and which keeps what, and which rows do not count."""
    table = summary.distinct(rows)
    lines, numbers = summary.first_rows(table), summary.measured(table)
    refuted = summary.names(row.row for row in table if row.metric.endswith(REFUTED) and row.value)
    said = []
    if refuted:
        more = f" and {len(refuted) - 3} others" if len(refuted) > 3 else ""
        which = summary.without_folders(", ".join(refuted[:3]))
        said = [f"An audit refutes what is claimed for {which}{more}: do not use it."]
    own = [row for row in lines.values() if row.protects and not (row.failed or row.reference)]
    sound = [row for row in own if row.basis != Basis.CLAIMED and row.row not in refuted]
    found = meanings(sound)
    if not found:
        none = "No release has a guarantee that counts, so none can be said to protect anybody."
        return [*said, none, *_left_out(lines, set(), refuted, [])]
    each, whole = ([meaning for meaning in found if meaning[3] is wanted][:1] for wanted in (False, True))
    answers, counted = [], set[tuple[str, str]]()
    for metric, lead, meant in (*((metric, "", each) for metric in _SAID), (_TASK, f"{summary.WHOLE}. ", whole)):
        tried = [row for row in sound if row.meaning in meant and row.epsilon]
        if answer := _sentence(metric, tried, lines, numbers):
            answers.append(f"{lead}{answer}")
            counted |= {(row.corpus, row.row) for row in tried if _is_measured(row, metric, numbers)}
    nothing = "Neither classification nor the meaning of texts was measured beside public-only: nothing is known."
    return [*said, *(answers or [nothing]), *_left_out(lines, counted, refuted, [*each, *whole])]


def _is_measured(row: KeptRow, metric: str, numbers: summary.Numbers) -> bool:
    return {(row.corpus, row.row, metric), (row.corpus, PUBLIC_ONLY, metric)} <= numbers.keys()


def _left_out(
    lines: summary.Lines, counted: Container[tuple[str, str]], refuted: Container[str], meant: Container[object]
) -> list[str]:
    """Return a sentence with the mechanisms that no answer counts, by the reason; none if all count."""
    several = len({corpus for corpus, _ in lines}) > 1
    found: dict[str, list[str]] = {}
    for (corpus, name), row in lines.items():
        if row.reference or row.label_only or (corpus, name) in counted or name in refuted:
            continue
        found.setdefault(_why(row, meant), []).append(f"{name} on {corpus}" if several else name)
    each = []
    for why, rows in found.items():
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        each.append(f"{summary.without_folders(', '.join(rows[:_NAMED]))}{more} ({why})")
    return [f"Not counted in these answers: {'; '.join(each)}."] if each else []


def _why(row: KeptRow, meant: Container[object]) -> str:
    if row.failed:
        error = summary.without_folders(row.error or "").partition("\n")[0]
        return f"it did not run: {textwrap.shorten(error, _SHORT, placeholder=' ...')}"
    if row.basis == Basis.NONE or not row.protects:
        return "no guarantee that protects"
    if row.basis == Basis.CLAIMED:
        return "its guarantee is claimed and not checked"
    return "not measured beside public-only" if row.meaning in meant else "its epsilon has another meaning"


def _sentence(metric: str, tried: Sequence[KeptRow], lines: summary.Lines, numbers: summary.Numbers) -> str:
    groups: dict[str, list[KeptRow]] = {}
    for row in tried:
        if _is_measured(row, metric, numbers):
            groups.setdefault(row.corpus, []).append(row)
    found = [_on_corpus(metric, group, lines, numbers) for group in groups.values()]
    if not found:
        return ""
    found.sort(key=lambda answer: answer.state)  # stable: corpora in their order
    best = found[0].state
    label = metric == _MEANING and any(row.label_only for row in lines.values())
    lead = _SAID[metric][best].format(
        slightly="slightly " if all(answer.gain < _SLIGHT for answer in found if answer.state == best) else "",
        references="public text or a label" if label else "public text alone",
    )
    overlap = "; their intervals overlap" if {answer.state for answer in found} <= {_OPEN, _MOOT} else ""
    if len({corpus for corpus, _ in lines}) == 1:
        return f"{lead}{found[0].start}: {found[0].numbers}{overlap}."
    parts = []
    for state, start in summary.names((answer.state, answer.start) for answer in found):
        places = [f"{each.corpus} ({each.numbers})" for each in found if (each.state, each.start) == (state, start)]
        parts.append(
            f"{'' if state == best else _ELSE[state]}{start} on {summary.without_folders(', '.join(places))}".strip()
        )
    return f"{lead} {'; '.join(parts)}{overlap}."


def _on_corpus(metric: str, rows: Sequence[KeptRow], lines: summary.Lines, numbers: summary.Numbers) -> _CorpusVerdict:
    corpus = rows[0].corpus
    pairs = []
    for row in rows:
        against = [PUBLIC_ONLY, *(summary.baselines(row, lines) if metric == _MEANING else ())]
        known = [numbers[key] for name in against if (key := (corpus, name, metric)) in numbers]
        pairs.append((row, numbers[corpus, row.row, metric], max(known, key=lambda number: number.high)))
    if better := [pair for pair in pairs if pair[1].low > pair[2].high]:
        row, own, other = min(better, key=lambda pair: (float(f"{pair[0].epsilon:.4g}"), -pair[1].value))
        state, name = _BETTER, f"{row.series} "
    else:
        undecided = [pair for pair in pairs if pair[1].high >= pair[2].low]
        row, own, other = max(undecided or pairs, key=lambda pair: pair[1].value - pair[2].value)
        original = numbers.get((corpus, ORIGINAL, metric))
        moot = original is not None and original.low <= numbers[corpus, PUBLIC_ONLY, metric].high
        state, name = (_MOOT if moot else _OPEN) if undecided else _WORSE, "at best "
    epsilon = row.epsilon or 0.0
    per = f"per unit of {row.metric_privacy}" if row.metric_privacy else f"per {row.unit}"
    per = "for the whole corpus" if row.whole else per
    weak = " (which protects little)" if epsilon > _WEAK * 1.001 else ""
    start = f" from epsilon {format_epsilon(epsilon)} {per}{weak}" if state == _BETTER else ""
    words = summary.without_folders(f"{name}{short(own.value)} against {short(other.value)}")
    return _CorpusVerdict(corpus, state, summary.without_folders(start), words, own.value - other.value)


#: Nearness of an output to its own original; the first measured metric decides.
FIDELITY: Final = ("fidelity.cosine", "fidelity.own_first", "fidelity.tokens_kept")


@dataclass(frozen=True, slots=True)
class Caution:
    """One kind of warning: a short name for links, a title, `why` it matters, and the affected `items`."""

    name: str
    title: str
    why: str
    items: tuple[str, ...]


#: Titles and reasons by short name, gravest first.
_KINDS: Final = {
    "refuted": (
        "Refuted claims",
        "An attack shows that the true epsilon is larger than what is stated. Do not use these.",
    ),
    "none": ("No guarantee", "The basis is NONE: treat the output as if it were the private text itself."),
    "claimed": ("Claimed, not checked", "The epsilon is somebody else's statement."),
    "central": (
        "Trained on private text",
        (
            "Whoever trains the model sees the private text and must be trusted. What the model learnt by heart may "
            "come out in the release of anybody, as far as no guarantee of the training bounds that."
        ),
    ),
    "fidelity": (
        "Fidelity not above public-only and label_only",
        (
            "The lower end of its interval is not above the upper end of public text drawn at random, or of public "
            "text with the private label, at no larger an epsilon for a document. Good accuracy is then public "
            "knowledge written out again."
        ),
    ),
    "failed": (
        "Failed or missing cells",
        "These have no numbers; where some trials failed, the numbers are those of the others.",
    ),
    "delta": (
        f"Delta above {MAX_MEANINGFUL_DELTA:g}",
        "With probability delta anything may leak: this is counted as no protection.",
    ),
}


def cautions(results: summary.Results) -> list[Caution]:
    """Return the warnings that apply to a comparison, gravest first."""
    rows, own = results.rows, _mechanisms(results.rows)
    vast = (row for row in own if (row.delta or 0.0) > MAX_MEANINGFUL_DELTA)
    found = {
        "refuted": _refuted(rows),
        "none": _without(results),
        "claimed": _by_row(row for row in own if row.basis == Basis.CLAIMED),
        "central": _by_row(row for row in own if not row.whole and _trained_on_private(results, row)),
        "fidelity": _unfaithful(rows, summary.measured(rows)),
        "failed": _failed(results),
        "delta": _by_row(vast, lambda row: f"delta {format_delta(row.delta or 0.0)}"),
    }
    return [Caution(name, *said, tuple(found[name])) for name, said in _KINDS.items() if found[name]]


def _mechanisms(rows: Iterable[TableRow]) -> list[TableRow]:
    return [row for row in summary.first_rows(rows).values() if not row.reference]


def _by_row(rows: Iterable[TableRow], what: Callable[[TableRow], str] | None = None) -> list[str]:
    found: dict[str, list[str]] = {}
    for row in rows:
        said = f" ({what(row)})" if what else ""
        found.setdefault(row.row + said, []).append(row.corpus)
    return [f"{name} on {', '.join(summary.names(corpora))}" for name, corpora in found.items()]


def _refuted(rows: Iterable[TableRow]) -> list[str]:
    """Return the guarantees that an audit refutes, and the published claims that are below the bound of an attack.

    An audit knows whether its neighbours are those of the guarantee, so its verdict counts. If the table has no
    verdict, the bound is compared here; except the bound of authorship, whose neighbours are whole documents.
    """
    rows = [row for row in rows if row.kind and row.value is not None]
    verdicts = {(row.signature, row.metric.removesuffix(REFUTED)) for row in rows if row.metric.endswith(REFUTED)}
    found = []
    for row in rows:
        value, audit = row.value or 0.0, row.metric.split(".")[0]
        where = f"{row.row} on {row.corpus}"
        if row.metric.endswith(REFUTED) and value == 1:
            found.append(f"{where}: {audit} refutes epsilon {format_epsilon(row.epsilon or 0.0)}")
        elif summary.is_bound(row.metric):
            claims = [("its authors claim", row.chosen.get("claimed_epsilon"))]
            if (row.signature, audit) not in verdicts and audit != "authorship":
                claims.append(("it states", row.epsilon))
            found += [
                f"{where}: {who} epsilon {format_epsilon(epsilon)}, {row.metric} is {short(value)}"
                for who, epsilon in claims
                if isinstance(epsilon, int | float) and value > epsilon
            ]
    return summary.names(found)


def _without(results: summary.Results) -> list[str]:
    def reason(row: TableRow) -> str:
        cell = results.cells.get(row.signature)
        stated = cell.guarantee.reason if cell and cell.guarantee else ""
        return summary.without_folders(stated) or "the reason is not in the folder"

    return _by_row((row for row in _mechanisms(results.rows) if row.basis == Basis.NONE), reason)


def _trained_on_private(results: summary.Results, row: TableRow) -> bool:
    cell = results.cells.get(row.signature)
    if cell is None:  # its file is missing: the name decides, which may warn too often
        return any(f"{row.row} ".startswith(f"{name} ") for name in results.about.trained_on_private)
    return cell.private_training or (cell.guarantee is not None and cell.guarantee.trust is Trust.CENTRAL)


def _unfaithful(rows: Sequence[TableRow], numbers: summary.Numbers) -> list[str]:
    lines = summary.first_rows(rows)
    found = []
    for row in _mechanisms(rows):
        metric = next((name for name in FIDELITY if (row.corpus, row.row, name) in numbers), "")
        against = (PUBLIC_ONLY, *summary.baselines(row, lines))
        known = {name: numbers[key] for name in against if (key := (row.corpus, name, metric)) in numbers}
        hardest = max(known, key=lambda name: known[name].high, default="")
        if known and (own := numbers[row.corpus, row.row, metric]).low <= known[hardest].high:
            found.append(f"{row.row} on {row.corpus}: {metric} {own}, {hardest} {known[hardest]}")
    return found


def _failed(results: summary.Results) -> list[str]:
    why = [(row, summary.without_folders(row.error or "")) for row in results.rows if row.failed]
    found = [f"{row.row} on {row.corpus}, trial {row.trial}: {said}" for row, said in why]
    counts = results.about.cells
    if counts.left:
        found.append(f"{counts.left} of {counts.total} cells are not done yet: run `dptext compare` again to go on")
    absent = {row.signature for row in results.rows if not row.failed} - set(results.cells)
    if absent:
        found.append(f"{len(absent)} finished cells have no readable file: their certificates and samples are missing")
    return found
