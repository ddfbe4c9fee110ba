"""How well public texts fit private ones, judged by stand-ins that need no protection.

What puts public text in the place of a text can come no nearer than the nearest public text. Stand-ins look like the
private texts and are public, or were released already: no budget is spent on looking at them.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.embeddings.embedder import Embedder, embed_distinct
from dptext.embeddings.encoders import load_encoder
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.bootstrap import bootstrap_mean
from dptext.text.reading import as_records
from dptext.text.tables import Texts
from dptext.types import Floats, Json, Singles, fields_as_json

#: Below this part of what one source would give the texts are of another domain. Measured with 50 to 3,000 texts:
#: .72 to 1.14 of it within a corpus, up to .35 across.
NEARER: Final = 0.5
ENOUGH: Final = 100  # stand-ins: fewer have each other far off by chance
_ROWS: Final = 256


@dataclass(frozen=True, slots=True)
class PoolFit:
    """How near stand-ins are to public texts, and how near to each other.

    `nearest` is the mean over the stand-ins of the largest cosine to a public text, bootstrap at 95%, `among` the same
    to another stand-in. `nearer` is the share of the stand-ins that have a public text at least as near as another
    stand-in. The stand-ins are counted without copies of each other and of public texts, of which different ones are
    counted. `missing` are labels of stand-ins that no public text has, most frequent first.
    """

    nearest: Estimate
    among: Estimate
    nearer: float
    stand_ins: int
    public: int
    missing: tuple[str, ...] = ()

    @property
    def expected(self) -> float:
        """What `nearer` is on average where public texts and stand-ins come from one source: m / (m + n - 1)."""
        return self.public / (self.public + self.stand_ins - 1)

    @property
    def fits(self) -> bool:
        """Whether stand-ins lie among the public texts, by a rule of thumb, and these have all their labels."""
        return self.nearer >= NEARER * self.expected and not self.missing

    def to_dict(self) -> dict[str, Json]:
        """The numbers as JSON-able data."""
        return {**fields_as_json(self), "expected": self.expected, "fits": self.fits}

    def sentences(self) -> list[str]:
        """The numbers in plain words, the answer first."""
        said = [
            f"The public texts {'fit' if self.fits else 'do not fit'} the stand-ins.",
            f"{self.nearer:.0%} of {self.stand_ins:,} stand-ins have a public text as near as another stand-in.",
            f"Of texts from one source {self.expected:.0%} would.",
            f"Mean cosine to the nearest public text {self.nearest.value:.3f}: none in its place comes nearer.",
            f"Mean cosine to the nearest other stand-in {self.among.value:.3f}.",
        ]
        if self.missing:
            said.append(f"No public text has the labels {', '.join(map(repr, self.missing))}, which stand-ins have.")
        if self.stand_ins < ENOUGH:
            said.append(f"{self.stand_ins} stand-ins say little: give {ENOUGH} or more.")
        if not self.fits:
            said.append("Another domain costs as much as half of epsilon or more: look for texts like the private.")
        return said


def pool_fit(public: Texts, stand_ins: Texts, *, embedder: Embedder | None = None, seed: int = 0) -> PoolFit:
    """How well public texts fit texts that look like the private ones.

    A mechanism chooses among or learns from the public texts. The stand-ins are texts like the private ones that need
    no protection; with labels on both sides these are compared. The embedder, for the cosines, is public,
    all-MiniLM-L6-v2 by default. The seed is of the bootstrap. ConfigError: no public text, or fewer than two stand-ins
    that differ from these and from each other. MissingExtraError: the default embedder is not installed.
    """
    known, given = as_records(public), as_records(stand_ins)
    texts = dict.fromkeys(record.text for record in known)
    others = [text for text in dict.fromkeys(record.text for record in given) if text not in texts]
    if not texts or len(others) < 2:
        raise ConfigError(
            "Expected a public text, and two different stand-ins that are no public texts, found "
            f"{len(texts)} and {len(others)}."
        )
    space = embed_distinct([*texts, *others], embedder or load_encoder(), single=True)
    pool, vectors = space.at(texts), space.at(others)
    nearest, among = _nearest(vectors, pool, own=False), _nearest(vectors, vectors, own=True)
    labels = {record.label for record in known} - {None}
    missing = Counter(record.label for record in given if labels and record.label not in labels)
    return PoolFit(
        bootstrap_mean(nearest, seed=seed),
        bootstrap_mean(among, seed=seed),
        float((nearest >= among).mean()),
        len(others),
        len(texts),
        tuple(label for label, _ in missing.most_common() if label is not None),
    )


def _nearest(vectors: Floats | Singles, pool: Floats | Singles, *, own: bool) -> Floats:
    found = np.empty(len(vectors))
    for start in range(0, len(vectors), _ROWS):
        cosines = vectors[start : start + _ROWS] @ pool.T
        if own:
            rows = np.arange(len(cosines))
            cosines[rows, start + rows] = -1
        found[start : start + _ROWS] = cosines.max(axis=1)
    return found
