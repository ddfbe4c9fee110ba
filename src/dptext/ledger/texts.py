"""JSON text of what a ledger keeps, the same for equal data, and its digest."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import lru_cache

from dptext.errors import LedgerError
from dptext.privacy import accounting
from dptext.privacy.events import Event, event_from_dict, event_to_dict
from dptext.types import Json

DAMAGED = "The balances of the ledger are damaged: `dptext budget verify` says where. Nothing is released."
#: What reading raises where dptext did not write the JSON text.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_COUNT = '{"count":'  # begins the text of every run length
_PLAIN = re.compile(r'\{"count":([1-9][0-9]{0,11}),')
_MOST_KEPT = 1 << 15  # settings of events in memory; without the count, which every charge makes another


def canonical(data: Json) -> str:
    """JSON text that is the same for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(text: str) -> str:
    """sha256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def events_to_text(events: Iterable[Event]) -> str:
    """Run lengths of the events as JSON text, the same for the same events in any order."""
    return f"[{','.join(sorted(map(event_to_text, accounting.compose(events))))}]"


def entries(text: str) -> tuple[str, ...]:
    """The run lengths in a text of `events_to_text`, each as its own text; LedgerError where it is damaged."""
    return tuple(_listed(text).replace("},{", "}\n{").split("\n")) if text != "[]" else ()


def run_lengths(text: str) -> int:
    """How many there are in a text of `events_to_text`."""
    return text.count(_COUNT)


def _listed(text: str) -> str:
    if text != "[]" and not (text.startswith("[{") and text.endswith("}]")):
        raise LedgerError(DAMAGED)
    return text[1:-1]


def with_events(text: str, events: Iterable[Event]) -> str:
    """The text of `events_to_text` after more events, the rest of it not read; LedgerError where it is damaged."""
    listed = _listed(text)
    listed += "," * (listed != "")  # each ends with one
    for event in accounting.compose(events):
        settings = _settings_text(replace(event, count=1)) + ","
        count, found = event.count, listed.find(settings)
        if found >= 0:
            start = listed.rfind("{", 0, found)
            try:
                count += int(listed[start:found].removeprefix(_COUNT))
            except ValueError:
                raise LedgerError(DAMAGED) from None
            listed = listed[:start] + listed[found + len(settings) :]
        entry = event_to_text(replace(event, count=count)) + ","
        low, high = 0, len(listed)  # each the start of an entry, or the end
        while low < high:
            middle = listed.rfind("},{", low, (low + high) // 2)
            middle = low if middle < 0 else middle + 2
            after = listed.find("},{", middle)
            after = len(listed) if after < 0 else after + 2
            low, high = (after, high) if listed[middle:after] < entry else (low, middle)
        listed = listed[:low] + entry + listed[low:]
    return f"[{listed[:-1]}]"


def event_to_text(event: Event) -> str:
    """One run length as JSON text, the same for equal events."""
    return f"{_COUNT}{event.count}{_settings_text(replace(event, count=1))}"


@lru_cache(maxsize=_MOST_KEPT)  # a charge changes one of many run lengths
def _settings_text(event: Event) -> str:
    # 3 and 3.0 make equal events, and so do 0.0 and -0.0. Equal events must have equal texts.
    numbers = {f.name: float(getattr(event, f.name)) + 0.0 for f in fields(event) if f.type == "float"}
    text = canonical(event_to_dict(replace(event, **numbers)))  # type: ignore[arg-type]  # floats for floats
    return text.removeprefix(_COUNT + "1")


def events_from_text(text: str) -> tuple[Event, ...]:
    """The events that `events_to_text` wrote; LedgerError where they are damaged."""
    return tuple(map(event_from_text, entries(text)))


def event_from_text(text: str) -> Event:
    """The event that `event_to_text` wrote; LedgerError where it is damaged."""
    plain = _PLAIN.match(text)
    if plain is None:
        return _event(text)
    return replace(_event(f"{_COUNT}1,{text[plain.end() :]}"), count=int(plain[1]))


@lru_cache(maxsize=_MOST_KEPT)
def _event(text: str) -> Event:
    try:
        return event_from_dict(json.loads(text))
    except UNREADABLE:
        raise LedgerError(DAMAGED) from None


def events_of(data: Json) -> tuple[Event, ...]:
    """The events in JSON data. Data that hold no events raise one of `UNREADABLE`."""
    if not isinstance(data, list):
        raise TypeError("a list of events was expected")
    return tuple(event_from_dict(item) for item in data)  # type: ignore[arg-type]  # event_from_dict checks its argument
