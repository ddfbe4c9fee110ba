"""What a reader must know before any number: the warnings that stand first on the page."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dptext.compare.pooled import short
from dptext.compare.report import summary
from dptext.compare.stored import REFUTED, TableRow
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Trust, format_delta, format_epsilon
from dptext.utility.tables import PUBLIC_ONLY

#: How near an output is to its own original; the first that was measured decides.
FIDELITY: Final = ("fidelity.cosine", "fidelity.own_first", "fidelity.tokens_kept")


@dataclass(frozen=True, slots=True)
class Caution:
    """One kind of warning: a short name for links, what is wrong, `why` that matters, and the `items` where it is."""

    name: str
    title: str
    why: str
    items: tuple[str, ...]


#: Titles, and why each matters, by their short names: gravest first.
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
    """The warnings of a comparison that apply, gravest first."""
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
    """The guarantees that an audit refutes, and the published claims that are below what an attack showed.

    An audit knows whether its neighbours are those of the guarantee, so its verdict counts. Where the table has no
    verdict, the bound is compared here; not that of authorship, whose neighbours are whole documents.
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
