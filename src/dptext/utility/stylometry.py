"""How far the style of an output is from that of its original, on a scale made from public text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.bootstrap import bootstrap_mean
from dptext.text.records import Record, Release
from dptext.types import Floats
from dptext.utility.fidelity import check_pairs
from dptext.utility.style_features import FEATURES, features

#: Features count as at most so many standard deviations from their public mean. One mark that public text hardly has
#: would outweigh everything else: an underscore in a text of 20 tokens lay hundreds of deviations away.
LIMIT: Final = 5.0
_CONSTANT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class StyleSpace:
    """Features on a public scale: less their mean on public text, over their standard deviation there, cut at `LIMIT`.

    A distance in this space is a number of standard deviations, over all features together. It depends on the features
    and on the public text. Do not compare distances of two spaces, nor with those that papers print.

    Attributes:
        mean: of each feature on the public text `(len(FEATURES),)`.
        scale: its standard deviation there. It is 1 for a feature that is constant there, which so keeps its units.
    """

    mean: Floats
    scale: Floats

    def __post_init__(self) -> None:
        for name, given in (("mean", self.mean), ("scale", self.scale)):
            values = np.array(given, np.float64)
            if values.shape != (len(FEATURES),) or not np.isfinite(values).all():
                raise ConfigError(f"Expected {name} to be {len(FEATURES)} finite numbers, found shape {values.shape}.")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if self.scale.min() <= 0:
            raise ConfigError("Expected scale to be above 0 for every feature.")

    def __repr__(self) -> str:
        return f"StyleSpace({len(FEATURES)} features)"

    @classmethod
    def fit(cls, public: Iterable[Record]) -> StyleSpace:
        """The space of public texts, such as those that a mechanism was fitted on; ConfigError for fewer than two."""
        texts = [record.text for record in public]
        if len(texts) < 2:
            raise ConfigError(f"Expected at least two public texts to scale features by, found {len(texts)}.")
        found = features(texts)
        mean, spread = found.mean(axis=0), found.std(axis=0)
        return cls(mean, np.where(spread > _CONSTANT * np.maximum(1.0, np.abs(mean)), spread, 1.0))

    def standardise(self, texts: Sequence[str]) -> Floats:
        """The features of texts in this space `(n_texts, len(FEATURES))`, in [-LIMIT, LIMIT]."""
        return np.asarray(np.clip((features(texts) - self.mean) / self.scale, -LIMIT, LIMIT))

    def distances(self, originals: Sequence[Record], outputs: Sequence[Release[str]]) -> Floats:
        """The Euclidean distance of each output's style from its own original's `(n_records,)`."""
        check_pairs(originals, outputs)
        before = self.standardise([record.text for record in originals])
        after = self.standardise([release.output for release in outputs])
        return np.asarray(np.linalg.norm(after - before, axis=1))

    def distance(self, originals: Sequence[Record], outputs: Sequence[Release[str]], *, seed: int = 0) -> Estimate:
        """The mean of `distances` with its 95% bootstrap interval over records; ConfigError for outputs of others."""
        return bootstrap_mean(self.distances(originals, outputs), seed=seed)
