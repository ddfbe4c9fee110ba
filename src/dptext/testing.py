"""The contract that every mechanism must keep, as one function that third parties can call in their tests::

check_mechanism(spec.fit(public=...), records)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import TypeVar

from dptext.errors import DPTextError
from dptext.guarantee import Basis, Guarantee, event_from_dict, event_to_dict
from dptext.mechanism import Mechanism, settings
from dptext.randomness import secure, seeded
from dptext.records import Record, Release

Output = TypeVar("Output")

CANARY = "zq9canaryxv"
_ODD_TEXTS = (
    "",
    " \n\t ",
    CANARY,
    f"{CANARY} {CANARY}\n{CANARY}",
    "\u00e9\u4e16\u754c \U0001f600 a\u0301 \u202e",
    "a" * 5000,
    "!?" * 200,
    "The same text.",
    "The same text.",
)


class ContractError(DPTextError, AssertionError):
    """A mechanism breaks the contract; the message says which part."""


def _require(condition: bool, broken: str) -> None:
    if not condition:
        raise ContractError(broken)


def check_mechanism(mechanism: Mechanism[Output], records: Sequence[Record] = (), *, seed: int = 0) -> None:
    """Raise ContractError unless the mechanism keeps the contract, on the given records and on odd ones.

    It answers each record with one release of the same id, in order, whatever the text; with a seeded stream a
    record's output depends on its position and the seed alone, not on the batch; labels are not passed through; the
    spec is a frozen dataclass of JSON-able settings, the event survives JSON, the guarantee explains itself; and no
    text shows in any `repr`.

    This cannot show that the mechanism is private: audits attack that.
    """
    odd = [Record(f"odd{i}", text, label=CANARY, author=CANARY) for i, text in enumerate(_ODD_TEXTS)]
    batch = [*odd, *records]
    _check_spec(mechanism)
    released = list(mechanism.privatize(batch, seeded(seed)))
    _require([r.id for r in released] == [r.id for r in batch], "one release a record, with its id, in order")
    _require(all(isinstance(release, Release) for release in released), "every answer is a Release")
    _require(all(release.label != CANARY for release in released), "a private label is not passed through")
    _require(list(mechanism.privatize([], secure())) == [], "an empty batch gives no releases")
    for i in sorted({0, 1, len(batch) // 2, len(batch) - 1}):
        alone = mechanism.privatize([batch[i]], seeded(seed).at(i))[0]
        _require(_same(alone, released[i]), f"record {i} alone gives what it gives in the batch")
    half = len(batch) // 2
    pieces = [
        *mechanism.privatize(batch[:half], seeded(seed)),
        *mechanism.privatize(batch[half:], seeded(seed).at(half)),
    ]
    _require(all(map(_same, pieces, released)), "two half batches give what one batch gives")
    _require(CANARY not in repr(mechanism), "no text shows in the repr of the mechanism")
    _require(all(CANARY not in repr(record) for record in batch), "no text shows in the repr of a record")


def _same(left: Release[Output], right: Release[Output]) -> bool:
    return left.id == right.id and repr(left.output) == repr(right.output) and left.label == right.label


def _check_spec(mechanism: Mechanism[Output]) -> None:
    spec = mechanism.spec
    _require(is_dataclass(spec), "the spec is a dataclass")
    values = settings(spec)
    _require(json.loads(json.dumps(values)) == values, "the settings survive JSON")
    _require(
        event_from_dict(json.loads(json.dumps(event_to_dict(mechanism.event)))) == mechanism.event, "event in JSON"
    )
    first = fields(spec)[0].name  # type: ignore[arg-type]  # is_dataclass was required above
    try:
        setattr(spec, first, getattr(spec, first))
    except (FrozenInstanceError, AttributeError):
        pass
    else:
        raise ContractError("the spec is frozen")
    for unit in spec.units:
        guarantee = spec.guarantee(unit)
        _require(guarantee.unit is unit, "the guarantee speaks of the unit that was asked for")
        _require(Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee, "guarantee in JSON")
        _require(bool(guarantee.explain()), "the guarantee explains itself")
        if guarantee.basis is not Basis.NONE:
            half = spec.calibrate(guarantee.epsilon / 2, unit=unit)
            _require(half.guarantee(unit).epsilon <= guarantee.epsilon / 2, "calibrate never overshoots")
    _require(all(len(digest) == 64 for digest in mechanism.digests.values()), "digests are sha256 in hex")
