"""Where two sets of texts are compared: public embeddings, cut to the main directions of public text.

Nothing here may see the sets: a projection that was fitted on them would turn with what it measures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.types import Floats

#: Coordinates that are kept, unless another number is asked for.
COMPONENTS: Final = 64
LEAST_TEXTS: Final = 10
_NO_VARIANCE: Final = 1e-10


def apart(public: Iterable[Record], *sets: Sequence[Record]) -> tuple[list[str], int]:
    """Texts of public records that are in no set, and how many were; ConfigError for fewer than 10."""
    private = {record.text for records in sets for record in records}
    texts = [record.text for record in public]
    kept = [text for text in texts if text not in private]
    if len(kept) < LEAST_TEXTS:
        raise ConfigError(
            f"Expected at least {LEAST_TEXTS} public texts that are in neither set, found {len(kept)} of "
            f"{len(texts)}: the space of the comparison must not be fitted on what is compared. Give other public text."
        )
    return kept, len(texts) - len(kept)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Projection:
    """Principal components of public vectors.

    Attributes:
        centre: mean of the public vectors, `(dim,)`.
        axes: orthonormal rows `(components, dim)`, by falling variance.
        kept: share of the public variance that the components hold.
    """

    centre: Floats
    axes: Floats
    kept: float

    def __repr__(self) -> str:
        return f"Projection(components={len(self.axes)}, dim={len(self.centre)}, kept={self.kept:.3f})"

    def apply(self, vectors: Floats) -> Floats:
        """Vectors `(n, dim)` in the components, `(n, components)`."""
        return np.asarray((vectors - self.centre) @ self.axes.T, np.float64)


def fit_projection(public: Floats, *, components: int = COMPONENTS) -> Projection:
    """The main directions of finite public vectors `(n_texts, dim)`; fewer than `components` where these span fewer."""
    _validate.count(components=components)
    if public.ndim != 2 or len(public) < 2 or not np.isfinite(public).all():
        raise ConfigError(f"Expected at least 2 finite public vectors, found shape {public.shape}.")
    centre = public.mean(axis=0)
    inner = public - centre
    variances, axes = np.linalg.eigh(inner.T @ inner)
    variances, axes = variances[::-1], axes.T[::-1]
    kept = min(components, int((variances > _NO_VARIANCE * max(float(variances[0]), 0.0)).sum()))
    if kept == 0 or variances[0] <= 0:
        raise ConfigError("Expected public texts with different vectors, found them all the same.")
    share = float(variances[:kept].sum() / variances[variances > 0].sum())
    return Projection(centre, np.ascontiguousarray(axes[:kept]), share)
