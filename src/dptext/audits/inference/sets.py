"""Two sets of texts to tell apart: texts to train on, and texts to attack."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dptext import _validate
from dptext.audits.texts import distinct_texts
from dptext.errors import ConfigError
from dptext.privacy.names import normal_form
from dptext.text.records import Record

#: Of the first set and of the second.
Sides = tuple[tuple[Record, ...], tuple[Record, ...]]


@dataclass(frozen=True, slots=True)
class SetSplit:
    """Texts of two sets, as many of each: to train attackers on, and to attack.

    Attributes:
        training: of the first set and of the second, the same number.
        attacked: others, of the first set and of the second, the same number.
        duplicates: texts removed because an earlier one of the same set is the same.
        shared: texts that both sets had; each stayed in one of them, by the flip of a coin.
    """

    training: Sides = field(repr=False)
    attacked: Sides = field(repr=False)
    duplicates: int = 0
    shared: int = 0


def split_sets(
    first: Iterable[Record], second: Iterable[Record], *, training: int, attacked: int, seed: int
) -> SetSplit:
    """Remove duplicates, then draw `training` texts of each set to train on, and `attacked` others to attack.

    Two records are duplicates if their tokens are equal without regard to case. A text that both sets have says nothing
    of where it comes from. A coin decides in which it stays, so that two equal sets remain at chance.

    Records of one `author`, in either set, are all trained on or all attacked: an attacker that knows the neighbours of
    a sentence knows more of it than its set. An author may be a document, or whatever else texts share; names are
    compared in normal form. ConfigError where a set has too few texts.
    """
    _validate.count(training=training, attacked=attacked)
    rng = np.random.default_rng(seed)
    (ones, n_ones), (others, n_others) = distinct_texts(first), distinct_texts(second)
    sides = (ones, others)
    duplicates = n_ones + n_others - len(ones) - len(others)
    shared = [key for key in ones if key in others]
    for key, side in zip(shared, rng.integers(0, 2, len(shared)).tolist(), strict=True):
        del sides[side][key]
    groups: dict[Hashable, list[tuple[int, Record]]] = {}
    for side, own in enumerate(sides):
        for key, record in own.items():
            group: Hashable = (side, key) if record.author is None else normal_form(record.author)
            groups.setdefault(group, []).append((side, record))
    learned: tuple[list[Record], list[Record]] = ([], [])
    tried: tuple[list[Record], list[Record]] = ([], [])
    together = list(groups.values())
    for i in rng.permutation(len(together)).tolist():
        lacking = any(len(tried[side]) < attacked for side, _ in together[i])
        for side, record in together[i]:
            (tried if lacking else learned)[side].append(record)
    if min(map(len, learned)) < training or min(map(len, tried)) < attacked:
        few = min(len(own) + len(other) for own, other in zip(learned, tried, strict=True))
        raise ConfigError(
            f"Expected training={training} + attacked={attacked} distinct texts of each set, none of whose authors (or "
            f"documents) is on both sides, found {min(map(len, learned))} to train on and {min(map(len, tried))} to "
            f"attack, of {few} in the smaller set: ask for fewer."
        )
    chosen, apart = ([_drawn(own, n, rng) for own in both] for both, n in ((learned, training), (tried, attacked)))
    return SetSplit((chosen[0], chosen[1]), (apart[0], apart[1]), duplicates, len(shared))


def _drawn(records: Sequence[Record], n: int, rng: np.random.Generator) -> tuple[Record, ...]:
    return tuple(records[i] for i in rng.permutation(len(records))[:n].tolist())
