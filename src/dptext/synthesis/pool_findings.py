"""What noisy numbers say of a public pool: its fit to a private corpus, and labels of which it has too few texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dptext.synthesis.agreement import NORMAL

_SURE: Final = 3.0  # standard deviations above which a pool is said not to fit
_NAMED: Final = 8  # labels in a sentence


@dataclass(frozen=True, slots=True)
class CorpusFit:
    """The fit of a public pool to a private corpus.

    Attributes:
        share: noisy share of private texts that are less like the pool than 90% of the pool's own texts; 0.1 is usual.
        margin: half of the 95% interval of the share.
        fits: False if the share is above twice the usual share, by more than chance explains.
    """

    share: float
    margin: float
    fits: bool

    @classmethod
    def of(
        cls, unlike: float, deviation: float, units: float, deviation_of_units: float, *, usual: float, compared: int
    ) -> CorpusFit:
        """Return the fit from noisy numbers and their deviations; `usual` was estimated from `compared` pool texts."""
        units = max(units, 1.0)
        least = 2 * usual

        # The deviation of unlike - share * units, by both noises and by the sampling of records and of `usual`.
        def spread(share: float) -> float:
            chance = usual * (1 - usual) * (1 / units + 1 / compared) * units**2
            return math.sqrt(deviation**2 + (share * deviation_of_units) ** 2 + chance)

        share = min(max(unlike / units, 0.0), 1.0)
        misfit = unlike - least * units > _SURE * spread(least)
        return cls(share, min(1.0, NORMAL * spread(share) / units), not misfit)

    @property
    def sentence(self) -> str:
        """The finding and its remedy, in words."""
        return (
            f"The pool does not fit: {self.share:.0%} of the texts (within {self.margin:.0%}) are less like it than "
            "nine in ten of its own are. Give public texts of the same kind."
        )


@dataclass(frozen=True, slots=True)
class Shortage:
    """Labels of which a public pool has too few texts for the noisy mix of labels.

    Attributes:
        labels: name, wanted share, and share of the pool that noisy numbers read as this label, of each such label; the
            label that lacks most comes first.
        texts: number of released texts.
        most: number of texts that a pool with enough texts would release.
        others: labels whose released texts are probably of other kinds in part, as the pool has fewer of these labels.
        there: number of texts of this mix that the pool seems to have.
    """

    labels: tuple[tuple[str, float, float], ...]
    texts: int
    most: int
    others: tuple[str, ...] = ()
    there: int = 0

    @property
    def sentence(self) -> str:
        """The finding and its remedy, in words."""
        named, by = [], " by the noisy numbers"
        for name, wanted, had in self._shown:
            digits = 1 if f"{wanted:.0%}" == f"{had:.0%}" else 0
            asked, there = _part(wanted, digits), _part(had, digits)
            named.append(f"{name}: {asked} wanted, {there} of the pool is read as {name}{by}")
            by = ""
        few = f"The pool seems to have too few texts of some labels: {'; '.join(named)}."
        few += (
            " If you know that it has them, labels are alike, as stars are, or noise is large: more private texts help."
        )
        more = ""
        if self.texts < self.most:
            few += f" {self.texts:,} texts leave, not {self.most:,}, so that the mix of labels is kept."
            more = ", or set size for more, of which some are then of other kinds"
        if self.others:
            few += (
                f" The other texts labelled {', '.join(self.others[:_NAMED])} are the nearest ones, probably of other "
                "kinds: `dptext utility corpus` says what they teach."
            )
            few += f" The pool seems to have {self.there:,} texts of this mix." if self.there else ""
        remedy = (
            f"Else give public texts that are worded like the private ones, of each label{more}, or take another --mix."
        )
        return f"{few} {remedy}"

    @property
    def _shown(self) -> Sequence[tuple[str, float, float]]:
        return self.labels[:_NAMED]


def _part(share: float, digits: int) -> str:
    return "none" if not share else f"{share:.{digits}%}" if share >= 0.01 else "under 1%"
