"""Labels of records, as the public set of a mechanism spells them.

A file says "True" where another says "true", "1.0", "1e+17" or "1", a date with a time of midnight or without, a time
with "T" or a space, with a fraction or without, in one zone or another. A label of the public set that means the same
is the label of the record. The match follows from one label and from the public set.
"""

import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final

from dptext.text.batches import Batch, Names
from dptext.text.formats import spelled
from dptext.text.records import Record

_BOOLEANS: Final = ("true", "false")
#: With a fraction, or with an exponent as programs write it: without, digits may be a code ("01", "12e4").
_NUMBER: Final = re.compile(r"[+-]?\d{1,300}(?:\.\d{1,300}(?:[eE][+-]?\d{1,3})?|[eE][+-]\d{1,3})", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,12}))?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?", re.ASCII
)


def meaning(label: str) -> str:
    """What a label says however it is spelled: no two booleans, numbers or dates that differ have one meaning."""
    text = unicodedata.normalize("NFC", label).strip()
    if text.casefold() in _BOOLEANS:
        return text.casefold()
    if _NUMBER.fullmatch(text):
        return str(spelled(Decimal(text)))
    if found := _TIME.fullmatch(text):
        return _moment(*found.groups()) or text
    return text


def _moment(day: str, hour: str, second: str | None, fraction: str | None, zone: str | None) -> str:
    """A time as its date, if it is midnight and no zone is named, else as date and hour, in UTC; empty for no time."""
    found = None
    with contextlib.suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(f"{day}T{hour}{second or ':00'}")
        if zone not in (None, "Z", "UTC"):
            found -= datetime.strptime(zone.replace(":", ""), "%z").utcoffset() or timedelta()
    if found is None:
        return ""
    rest = (fraction or "").rstrip("0")
    if zone is None and not rest and found.time() == time():
        return found.date().isoformat()
    return found.isoformat() + f".{rest}" * bool(rest) + "Z" * (zone is not None)


def matched(labels: Names, public: Sequence[str]) -> Names:
    """The labels, each as the public set spells it; one that means none of these, or several, as it is."""
    known = set(public)
    if known.issuperset(each for each in labels if each is not None):
        return labels
    by_meaning = _by_meaning(tuple(public))
    return [each if each is None or each in known else by_meaning.get(meaning(each), each) for each in labels]


def n_known(labels: Names, public: Sequence[str]) -> int:
    """How many of the labels are in the public set, or mean one that is; all that are there, where it is empty."""
    return sum(each is not None and (not public or each in public) for each in matched(labels, public))


@lru_cache(maxsize=8)
def _by_meaning(public: tuple[str, ...]) -> dict[str, str]:
    said = Counter(map(meaning, public))
    return {meaning(each): each for each in public if said[meaning(each)] == 1}


def with_labels(batch: Batch, public: Sequence[str]) -> Batch:
    """The records with labels as the public set spells them, where there is one."""
    labels = matched(batch.labels, public) if public else batch.labels
    return batch if labels is batch.labels else replace(batch, labels=labels)


def relabelled(records: Iterable[Record], public: Sequence[str]) -> list[Record]:
    """As `with_labels`, of single records."""
    records = list(records)
    labels = matched([record.label for record in records], public) if public else []
    return [replace(record, label=label) for record, label in zip(records, labels, strict=True)] if public else records
