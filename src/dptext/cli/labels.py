"""Count the records with a label of the public set. Only the owner sees the count, because labels are private."""

from dptext.mechanism import Spec
from dptext.types import Json


def without_label(n_records: int, n_labelled: int, n_labels: int, field: str | None) -> str:
    """Say how many records have no label of the public set, and what to do."""
    some = f"{n_records - n_labelled:,} of {n_records:,} records have none" if n_labelled else "No record has one"
    return (
        f"{some} of the {n_labels} public labels in the field {field!r}: without "
        "one, what leaves does not depend on the label. Compare how the labels are spelled, or name another field. "
        "(Computed from private labels: for you alone.)"
    )


def told(spec: Spec, n_records: int, n_labelled: int, field: str | None) -> list[str]:
    """Say that records have no label of the public set, if the mechanism reads labels. Otherwise return no line."""
    if not spec.traits.reads_labels or n_labelled == n_records:
        return []
    return [without_label(n_records, n_labelled, len(spec.traits.labels), field)]


def data(spec: Spec, n_labelled: int) -> dict[str, Json]:
    """Return the number of records with a label of the public set, if the mechanism reads labels; else nothing."""
    return {"labelled": n_labelled} if spec.traits.reads_labels else {}
