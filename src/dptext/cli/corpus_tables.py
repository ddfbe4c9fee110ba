"""The rows of `dptext utility corpus` in tables: what each row is, and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dptext.cli.answers import interval
from dptext.cli.utility import cell
from dptext.estimates import Estimate
from dptext.text.schema import DeclaredColumn, ListedColumn
from dptext.utility.columns import cells_of, columns_kept, independent
from dptext.utility.corpus_rows import (
    AS_MANY,
    AS_MANY_MIXED,
    AS_MANY_PUBLIC,
    FREQUENT,
    INDEPENDENT,
    MIXED,
    RELEASED,
    JudgedRows,
)
from dptext.utility.group_means import GroupMeans, furthest_means, means_by_group
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY

FROM_TEXT, EACH = " from text", " tv"
_MEANS: Final[Mapping[str, str]] = {
    ORIGINAL: "the private texts themselves: what can be learnt at most",
    RELEASED: "the corpus that is judged",
    PUBLIC_ONLY: "all public texts, with their labels or, without any, labelled by the names of the labels",
    MIXED: "the largest set of public texts that has the mix of labels of the corpus",
    AS_MANY_MIXED: "as many public texts as the corpus has, in its mix of labels: the mean of some draws",
    AS_MANY: "as many private texts as the corpus has, one draw",
    AS_MANY_PUBLIC: "as many public texts as the corpus has, in the mix of the pool, drawn at random",
    INDEPENDENT: "private rows, each column in another order: no column tells of another",
    FREQUENT: "the label that most private texts have, said of every text: no text is needed",
}


def is_of_columns(head: str) -> bool:
    """Whether a number is of columns."""
    return head in ("columns_tv", "pairs_tv") or head.endswith((FROM_TEXT, EACH))


def explained(rows: Mapping[str, Mapping[str, Estimate | float]]) -> list[tuple[str, str]]:
    """Return each row with what it is, in a few words."""
    own, fewer = (rows.get(row, {}).get("accuracy") for row in (ORIGINAL, AS_MANY))
    chance = ""
    if isinstance(own, Estimate) and isinstance(fewer, Estimate) and own.value < fewer.value <= own.high:
        chance = "; it stands above original by the luck of the draw, within the interval"
    found = {**_MEANS, AS_MANY: _MEANS[AS_MANY] + chance}
    if "accuracy" not in rows.get(PUBLIC_ONLY, {}):
        found[PUBLIC_ONLY] = "all public texts, without labels"
    return [(row, found[row]) for row in rows]


def compared(
    judged: JudgedRows,
    schema: Sequence[DeclaredColumn],
    label_field: str | None,
    labels: Sequence[str],
    seed: int,
    together: Sequence[set[str]] | None,
) -> tuple[list[str], list[GroupMeans]]:
    """Add the numbers of columns to the rows. Return sentences on them, and means of numbers; none without columns.

    `together` are the pairs of columns that a summary measured; None if the corpus has no summary.
    """
    if not schema:
        return [], []
    rows, real, parts = judged.rows, judged.real, {**judged.parts, **judged.fewer}
    labelled = label_field and labels and any(each.label for each in parts[RELEASED])
    own: list[DeclaredColumn] = [ListedColumn(label_field or "", False, tuple(labels))] if labelled else []
    columns, name = [*own, *schema], label_field or ""
    held = cells_of(real, columns, label=name)
    true = AS_MANY if AS_MANY in parts else ORIGINAL  # few rows are far from others by chance
    for row in (ORIGINAL, AS_MANY, RELEASED):
        if row not in parts:
            continue
        cells, texts = cells_of(parts[row], columns, label=name), [each.text for each in parts[row]]
        kept = columns_kept(cells, held, columns, texts=texts, real_records=real, seed=seed)
        rows[row] |= dict(kept.cells())
        if row == true:
            rows[INDEPENDENT] = dict(columns_kept(independent(cells, seed), held, columns).cells())
    one, two = ({row: rows[row].get(head) for row in rows} for head in ("columns_tv", "pairs_tv"))
    made, chance = cell(one[RELEASED], interval), cell(one[true], interval)
    of = f"{len(parts[true]):,} private rows"
    said = [f"A column is {made} from that of real rows on average (total variation), and {chance} in {of}."]
    if two[RELEASED] is not None:
        said.append(
            f"Two columns together are {cell(two[RELEASED], interval)} from real ones, {cell(two[true], interval)} in "
            f"{of}, and {cell(two[INDEPENDENT], interval)} in as many without relations."
        )
    shown = {row: parts[row] for row in (RELEASED, ORIGINAL, AS_MANY) if row in parts}
    means = means_by_group(shown, columns, label=name)
    known = means if together is None else [each for each in means if {each.number, each.by} in together]
    said += filter(None, [furthest_means(known or means, RELEASED, ORIGINAL, AS_MANY if AS_MANY in shown else "")])
    if means and not known:
        said.append("The summary measured no number together with such a column (--pairs).")
    return said, means


def table_of_means(means: Sequence[GroupMeans]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the heads and the lines of a table of means; no lines without means."""
    heads = ("mean of", "by", "value", *(means[0].rows if means else ()))
    return heads, [line for each in means for line in each.lines()]
