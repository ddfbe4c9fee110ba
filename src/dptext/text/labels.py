"""Labels of records, as the public set of a mechanism spells them.

A file says "True" where another says "true", "1.0" or "1", a date with a time of midnight or without. A label of the
public set that means the same is the label of the record. The match follows from one label and from the public set.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from dptext.text.batches import Batch, Names
from dptext.text.records import Record

_BOOLEANS: Final = ("true", "false")
_NUMBER: Final = re.compile(r"[+-]?\d{1,300}\.\d{1,300}")
_DATE: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)")
_MIDNIGHT: Final = re.compile(r"[0:.]+")


def meaning(label: str) -> str:
    """What a label says however it is spelled: no two booleans, numbers or dates that differ have one meaning."""
    text = unicodedata.normalize("NFC", label).strip()
    if text.casefold() in _BOOLEANS:
        return text.casefold()
    if _NUMBER.fullmatch(text):
        number = text.removeprefix("+").rstrip("0").rstrip(".")
        return "0" if number == "-0" else number
    if found := _DATE.fullmatch(text):
        day, hour = found.groups()
        return day if _MIDNIGHT.fullmatch(hour) else f"{day}T{hour}"
    return text


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
