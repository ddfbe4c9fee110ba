"""Match the labels of records with the public set of a mechanism.

Files spell labels in different ways: "True" or "true"; "1" or "1.0"; "1e+17" or its digits; a date with a time of
midnight or without; a time with "T" or a space, with a fraction or without, in one zone or another. A record gets the
label of the public set that means the same. The match depends on this one label and the public set alone.
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
#: A number has a fraction, or an exponent as programs write it. Other digits may be a code ("01", "12e4").
_NUMBER: Final = re.compile(r"[+-]?\d{1,300}(?:\.\d{1,300}(?:[eE][+-]?\d{1,3})?|[eE][+-]\d{1,3})", re.ASCII)
#: What says something: two letters in a row, or a sign that is a word in itself.
_WORD: Final = re.compile(r"[^\W\d_]{2}|[\u3400-\u9fff\uf900-\ufaff]")
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,12}))?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?", re.ASCII
)


def meaning(label: str) -> str:
    """Return the meaning of a label, whatever its spelling. Different booleans, numbers or dates differ in meaning."""
    text = unicodedata.normalize("NFC", label).strip()
    if text.casefold() in _BOOLEANS:
        return text.casefold()
    if _NUMBER.fullmatch(text):
        return str(spelled(Decimal(text)))
    if found := _TIME.fullmatch(text):
        return _moment(*found.groups()) or text
    return text


def _moment(day: str, hour: str, second: str | None, fraction: str | None, zone: str | None) -> str:
    """Return a time as its date if it is midnight without a zone, else as date and time.

    A time with a zone is converted to UTC. An invalid time gives "".
    """
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
    """Return the labels as the public set spells them. A label that matches no public label, or several, is kept."""
    known = set(public)
    if known.issuperset(each for each in labels if each is not None):
        return labels
    by_meaning = _by_meaning(tuple(public))
    return [each if each is None or each in known else by_meaning.get(meaning(each), each) for each in labels]


def n_known(labels: Names, public: Sequence[str]) -> int:
    """Return the number of labels that match the public set. If the set is empty, every label counts but None."""
    return sum(each is not None and (not public or each in public) for each in matched(labels, public))


@lru_cache(maxsize=8)
def _by_meaning(public: tuple[str, ...]) -> dict[str, str]:
    said = Counter(map(meaning, public))
    return {meaning(each): each for each in public if said[meaning(each)] == 1}


def with_labels(batch: Batch, public: Sequence[str]) -> Batch:
    """Return the records with labels as the public set spells them. An empty set changes nothing."""
    labels = matched(batch.labels, public) if public else batch.labels
    return batch if labels is batch.labels else replace(batch, labels=labels)


def relabelled(records: Iterable[Record], public: Sequence[str]) -> list[Record]:
    """Return single records with labels as the public set spells them, as `with_labels` does for a batch."""
    records = list(records)
    labels = matched([record.label for record in records], public) if public else []
    return [replace(record, label=label) for record, label in zip(records, labels, strict=True)] if public else records


def in_words(names: Iterable[str]) -> bool:
    """Whether any name says something in words: numbers and single letters do not."""
    marks = ("Mn", "Mc")  # vowels and accents, which are parts of their letters
    return any(
        _WORD.search("".join(each for each in name if unicodedata.category(each) not in marks)) for name in names
    )
