"""Private evolution (Xie et al. 2024): units vote for the texts nearest to them, a writer varies texts with votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np

from dptext.sampling.randomness import Randomness
from dptext.synthesis.pool import apportioned
from dptext.synthesis.readings import Corpus, PublicReader, readings
from dptext.synthesis.space import PublicSpace
from dptext.synthesis.spec import SynthesisSpec
from dptext.synthesis.sums import Draws, PrivateSum
from dptext.synthesis.votes import LEAST_VOTES, most_voted_on
from dptext.synthesis.writer import Writer
from dptext.types import Floats

MOST_ROUNDS: Final = 3
_FEWEST: Final = 2  # least number of candidate texts of a label


@dataclass(frozen=True, slots=True, repr=False)
class Population:
    """Texts of a label, most votes first, and the weights `(n,)` by which the writer draws examples from them."""

    texts: tuple[str, ...]
    chances: Floats

    @classmethod
    def alike(cls, texts: Sequence[str]) -> Self:
        """Return texts without votes, of equal weight."""
        return cls(tuple(texts), np.ones(len(texts)))

    def voted(self, votes: Floats, least: float) -> Population:
        """Return the texts with more votes than `least`, most votes first; all texts if none has."""
        order = np.argsort(-votes, kind="stable")
        order = order[votes[order] > least]
        return Population(tuple(self.texts[i] for i in order), votes[order]) if len(order) else self

    def grown(self, writer: Writer, label: int, n: int, randomness: Randomness, *, varied: bool) -> list[str]:
        """Return at most `n` texts: those of the population, and texts that the writer makes from them."""
        return writer.more(label, self.texts, n, randomness, chances=self.chances, varied=varied)


#: The voters: the space of their points, the settings, and the private corpus.
Voters: TypeAlias = tuple[PublicSpace, SynthesisSpec, Corpus]


def evolved(writer: Writer, voters: Voters, kept: Sequence[Population], mix: Floats, draws: Draws) -> list[Population]:
    """Return the texts with votes after all rounds, by label; before each round the writer adds candidates.

    `spec.shares[1:]` are the shares of the rounds. The number of candidates is the number that votes can tell from
    noise. Labels have candidates in the proportions of the noisy `mix`.
    """
    space, spec, corpus = voters

    def votes(people: Sequence[Population], share: float) -> list[Floats]:
        """Return noisy votes for the texts of each label: every unit votes for one text of its own label."""
        ends = np.cumsum([len(each.texts) for each in people])
        starts = np.concatenate([[0], ends[:-1]])
        points = [space.points(each.texts) if each.texts else np.empty((0, space.dim)) for each in people]
        summed = PrivateSum(max(1, int(ends[-1])), spec.noise(share), by_author=spec.unit == "author")
        for read in readings(corpus, PublicReader(space), spec.labels):
            rows = np.array([i for i, label in enumerate(read.labels.tolist()) if people[label].texts], np.int64)
            best = [np.square(points[read.labels[i]] - read.points[i]).sum(axis=1).argmin() for i in rows]
            cells = (starts[read.labels[rows]] + np.array(best, np.int64))[:, None]
            summed.add(cells, np.ones(cells.shape), [read.authors[i] for i in rows])
        noisy = summed.release(draws)
        return [noisy[start:end] for start, end in zip(starts, ends, strict=True)]

    found = list(kept)
    for place, share in enumerate(spec.shares[1:]):
        sizes = np.maximum(apportioned(mix, most_voted_on(spec, share)), _FEWEST)
        own = enumerate(zip(found, sizes.tolist(), strict=True))
        grown = (each.grown(writer, label, n, draws.randomness, varied=place > 0) for label, (each, n) in own)
        people = [Population.alike(texts) for texts in grown]
        least = LEAST_VOTES * spec.noise(share).scale
        found = [each.voted(own, least) for each, own in zip(people, votes(people, share), strict=True)]
    return found
