"""The shifted task: private records with a class balance that public data does not have.

Where private records look like public ones, a mechanism that regenerates public knowledge seems to be perfect. Here the
private part has another class balance, and one class has few public texts. Public data alone must be seen to fail.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.text.records import Record

_ROUNDING = 1e-6


def shifted_split(
    records: Sequence[Record],
    *,
    shares: Mapping[str, float],
    scarce: str,
    scarce_public: int,
    private_size: int | None = None,
    seed: int = 0,
) -> tuple[list[Record], list[Record]]:
    """A public and a private part, disjoint, both in random order. What fits into neither is left out.

    The private part has the balance `shares`, rounded to whole records by largest remainders. The public part has all
    the rest, but no more than `scarce_public` texts of the label `scarce`.

    Args:
        records: with labels. Those whose label is not a key of `shares` are left out.
        shares: the private share of each label. They sum to 1.
        scarce: the label that has few public texts: `scarce_public`, at least 1.
        scarce_public: how many.
        private_size: number of private records. The default is as many as possible, but no more than half of the
            records. One public text of every other label must be left.
        seed: of the drawing.

    Returns:
        The public records, and the private ones. ConfigError: shares that are no balance, a scarce label that is not
        among them, or too few records of a label.
    """
    _validate.count(scarce_public=scarce_public)
    _validate.probability(**{f"shares[{label!r}]": share for label, share in shares.items()})
    if not math.isclose(math.fsum(shares.values()), 1.0, abs_tol=_ROUNDING):
        raise ConfigError(f"Expected shares={dict(shares)!r} to sum to 1.")
    if scarce not in shares:
        raise ConfigError(f"Expected scarce={scarce!r} to be one of the labels in shares.")
    by_label: dict[str, list[Record]] = {label: [] for label in shares}
    rng = np.random.default_rng(seed)
    for i in rng.permutation(len(records)).tolist():
        if records[i].label in by_label:
            by_label[str(records[i].label)].append(records[i])
    spare = {label: len(found) - (scarce_public if label == scarce else 1) for label, found in by_label.items()}
    if private_size is None:
        private_size = sum(map(len, by_label.values())) // 2
        while private_size > 0 and _too_many(_whole(shares, private_size), spare):
            private_size -= 1
    _validate.count(private_size=private_size)
    counts = _whole(shares, private_size)
    if lacking := _too_many(counts, spare):
        raise ConfigError(
            f"Expected at least {counts[lacking]} private and {len(by_label[lacking]) - spare[lacking]} public records "
            f"of label {lacking!r}, found {len(by_label[lacking])}. Choose a smaller private_size or share."
        )
    private = [record for label, found in by_label.items() for record in found[: counts[label]]]
    public = [
        record
        for label, found in by_label.items()
        for record in found[counts[label] : counts[label] + scarce_public if label == scarce else None]
    ]
    return [public[i] for i in rng.permutation(len(public))], [private[i] for i in rng.permutation(len(private))]


def _whole(shares: Mapping[str, float], size: int) -> dict[str, int]:
    exact = {label: share * size for label, share in shares.items()}
    counts = {label: math.floor(value) for label, value in exact.items()}
    order = sorted(shares, key=lambda label: counts[label] - exact[label])
    for label in order[: size - sum(counts.values())]:
        counts[label] += 1
    return counts


def _too_many(counts: Mapping[str, int], spare: Mapping[str, int]) -> str | None:
    return next((label for label, count in counts.items() if count > spare[label]), None)
