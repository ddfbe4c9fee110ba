"""Measuring: the one pass over a private corpus, the one sum and the one noise, for every kind of synthesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dptext.synthesis.agreement import Known
from dptext.synthesis.blocks import SumLayout
from dptext.synthesis.pool import TopicMap
from dptext.synthesis.readings import Corpus, PublicReader, readings
from dptext.synthesis.sums import Draws, Noise, PrivateSum


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OnePass:
    """The public settings of a measurement: the blocks, the readers, the topics, the labels, the unit and the noise."""

    layout: SumLayout
    reader: PublicReader
    topics: TopicMap | None
    labels: Sequence[str]
    by_author: bool
    noise: Noise

    def of(self, corpus: Corpus, draws: Draws) -> dict[str, Known]:
        """Read the corpus once, add noise once, and return the noisy numbers of each block by name."""
        layout, nearest = self.layout, None if self.topics is None else self.topics.nearest
        summed = PrivateSum(layout.cells, self.noise, by_author=self.by_author, signed=layout.signed)
        for read in readings(corpus, self.reader, self.labels):
            cells, values = layout.vectors(read, nearest)
            summed.add(cells, values, read.authors)
        return layout.known(summed.release(draws), self.noise.scale)
