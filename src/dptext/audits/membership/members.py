"""Members and non-members of a training set."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dptext.audits.texts import distinct_texts, shared_texts
from dptext.errors import ConfigError
from dptext.text.records import Record


@dataclass(frozen=True, slots=True)
class MemberSplit:
    """Distinct records on two sides of one size.

    Attributes:
        members: to train on, or trained on.
        non_members: to attack as well.
        duplicates: records removed because an earlier one has the same text.
        left_over: records removed so that both sides are of one size.
    """

    members: tuple[Record, ...] = field(repr=False)
    non_members: tuple[Record, ...] = field(repr=False)
    duplicates: int
    left_over: int


def split_members(records: Iterable[Record], *, seed: int) -> MemberSplit:
    """Remove duplicates, then split at random into members and as many non-members.

    Two records are duplicates if their tokens are equal without regard to case, whatever their labels: a non-member
    whose text is also a member's is one in name only. Each side can be split again, so that an attacker has records of
    its own.

    Raises:
        ConfigError: fewer than two distinct texts.
    """
    distinct, count = distinct_texts(records)
    kept = list(distinct.values())
    if len(kept) < 2:
        raise ConfigError(f"Expected at least 2 distinct texts, found {len(kept)}.")
    order = np.random.default_rng(seed).permutation(len(kept)).tolist()
    half = len(kept) // 2
    return MemberSplit(
        tuple(kept[i] for i in order[:half]),
        tuple(kept[i] for i in order[half : 2 * half]),
        duplicates=count - len(kept),
        left_over=len(kept) - 2 * half,
    )


def match_members(members: Iterable[Record], others: Iterable[Record], *, seed: int) -> MemberSplit:
    """Distinct members of a model beside as many distinct other records; a text of both is a member's.

    Fewer than two of either raise ConfigError.
    """
    inside, first = distinct_texts(members)
    outside, second = distinct_texts(others)
    sides = list(inside.values()), [record for key, record in outside.items() if key not in inside]
    size = min(map(len, sides))
    if size < 2:
        raise ConfigError(
            f"Expected at least 2 distinct texts of members and 2 others that are no member's, found {len(sides[0])} "
            f"and {len(sides[1])}."
        )
    rng = np.random.default_rng(seed)
    drawn = [tuple(side[i] for i in rng.permutation(len(side))[:size].tolist()) for side in sides]
    distinct = sum(map(len, sides))
    return MemberSplit(drawn[0], drawn[1], duplicates=first + second - distinct, left_over=distinct - 2 * size)


def verbatim_share(members: Sequence[Record], non_members: Sequence[Record]) -> float:
    """Share of the non-members whose text is a member's, too: .073 after a plain random split of ATIS in halves."""
    if not non_members:
        raise ConfigError("Expected at least one non-member.")
    return shared_texts(members, non_members) / len(non_members)


def check_members(
    members: Sequence[Record], non_members: Sequence[Record], names: tuple[str, str] = ("members", "non_members")
) -> None:
    """Refuse fewer than two of either, unequal numbers, a text on both sides, or no label, with ConfigError."""
    first, second = names
    if len(members) < 2 or len(members) != len(non_members):
        raise ConfigError(
            f"Expected at least 2 {first} and as many {second}, found {len(members)} and {len(non_members)}: see "
            "split_members."
        )
    leaked = shared_texts(members, non_members)
    if leaked:
        raise ConfigError(
            f"Expected no text of {second} among {first}, found {leaked}: remove duplicates first, by split_members."
        )
    if any(record.label is None for record in (*members, *non_members)):
        raise ConfigError(f"Expected a label for every record of {first} and {second}: the classifier learns it.")
