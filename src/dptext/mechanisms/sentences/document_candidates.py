"""Public candidates of a choice of documents: their texts, their embeddings, their scores; saving and loading.

Scores have sensitivity 1 under replacement of one sentence. Those of this module are sums over the sentences of numbers
in [0, 1] (derivations, "Depths and sums"). Everything here is learnt from public text.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dptext.embeddings.distilled import DistilledEncoder, load_distilled
from dptext.embeddings.encoders import Encoder, load_encoder
from dptext.embeddings.likeness import GRID, STEPS, CosineSpace, Evidence, likeness_sums, sums_by_document
from dptext.embeddings.sentence_encoder import Precision
from dptext.text.files import write_private
from dptext.text.inputs import reading_saved
from dptext.types import Floats, Integers, Singles

Utility = Literal["similarity", "whitened", "evidence", "mixed"]
Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]

TEXTS_FILE, ARRAYS_FILE = "candidates.json", "candidates.safetensors"
_LARGEST = 1e9  # far above any fitted number
_NARROWEST = 1e-9


class Scores(Protocol):
    """Fitted, public scores of candidates. Replacing one sentence of a document changes each by at most 1."""

    @property
    def arrays(self) -> Arrays:
        """The fitted numbers, by name."""
        ...

    def released(self, means: Floats) -> Floats:
        """The embeddings of the candidates that are released `(m, dim)`; `means` are those of their sentences."""
        ...

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """Utilities `(n_documents, m)` from the embeddings `(n_sentences, dim)` of documents of these sizes."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LikenessScores:
    """Sums over sentences of stretched similarity, of class evidence, or of half of each.

    Similarities are cosines in `space` to `points` `(m, other)` on the grid; cosines from `low` to `high` are stretched
    to [0, 1]. Evidence is that for `classes` `(m,)`. `space` or `evidence` is None if it does not count.
    """

    space: CosineSpace | None
    points: Singles
    low: float
    high: float
    evidence: Evidence | None
    classes: Integers

    @property
    def arrays(self) -> Arrays:
        """The fitted numbers, by name."""
        found: dict[str, NDArray[np.generic]] = {"classes": self.classes, "stretch": np.array([self.low, self.high])}
        if self.space is not None:
            found |= {"centre": self.space.centre, "root": self.space.root, "points": self.points}
        if self.evidence is not None:
            weights, bias = self.evidence.weights, self.evidence.bias
            found |= {"weights": weights, "bias": bias, "reach": np.array(self.evidence.depth)}
        return found

    def released(self, means: Floats) -> Floats:
        """The means as they are."""
        return means

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """Utilities `(n_documents, m)` from the embeddings `(n_sentences, dim)` of documents of these sizes."""
        parts: list[Floats] = []
        if self.space is not None:
            sums = likeness_sums(self.space(embeddings), sizes, self.points, low=self.low, high=self.high)
            parts.append(sums / STEPS)
        if self.evidence is not None:
            parts.append(np.asarray(sums_by_document(self.evidence(embeddings), sizes)[:, self.classes]) / STEPS)
        return parts[0] if len(parts) == 1 else (parts[0] + parts[1]) / 2


@dataclass(frozen=True, slots=True)
class CandidateSettings:
    """A spec's settings of the candidates. `dptext.DeepCandidate` explains each.

    `scored_by` are the settings that say which scores are fitted. Files of other scores are refused.
    """

    labels: tuple[str, ...]
    scored_by: tuple[str, ...]
    candidates: int
    min_sentences: int
    encoder: str
    precision: Precision
    device: str

    def load_encoder(self) -> Encoder:
        """Load the encoder of sentences; for a distilled encoder, its teacher."""
        name = "sentence" if self.encoder == "distilled" else self.encoder
        return load_encoder(name, device=self.device, precision=self.precision)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedCandidates:
    """Public candidates, their labels (if any), their scores, and `outputs` `(m, dim)`, the embeddings to release.

    `trained_on` and `pool` are digests of public text. `pool` is "" if the candidates come from the training text.
    """

    settings: CandidateSettings
    texts: tuple[str, ...]
    labels: tuple[str | None, ...]
    outputs: Singles
    scores: Scores
    encoder: Encoder | DistilledEncoder
    trained_on: str
    pool: str = ""

    def utilities(self, documents: Sequence[Sequence[str]]) -> Floats:
        """The utility of every candidate for each document, `(n_documents, m)`."""
        embeddings = self.encoder.embed([sentence for document in documents for sentence in document])
        return self.scores(np.asarray(embeddings, np.float64), [len(document) for document in documents])

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests of the candidates with their scores, the public text, the pool (if any), and the encoder."""
        found = hashlib.sha256(json.dumps([self.texts, self.labels]).encode())
        for name, array in sorted(self._arrays().items()):
            found.update(name.encode() + array.tobytes())
        pool = {"pool": self.pool} if self.pool else {}
        return {"candidates": found.hexdigest(), "public": self.trained_on, **pool, "encoder": self.encoder.digest}

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        arrays = {"outputs": self.outputs, **self.scores.arrays}
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    def save(self, folder: Path) -> None:
        """Write the state as new files into an existing folder. An encoder is written only if it is distilled."""
        described: dict[str, object] = {"scored_by": self.settings.scored_by, "encoder": self.encoder.digest}
        described |= {"texts": self.texts, "labels": self.labels, "trained_on": self.trained_on, "pool": self.pool}
        write_private(folder / TEXTS_FILE, json.dumps(described).encode())
        write_private(folder / ARRAYS_FILE, save(self._arrays()))
        if isinstance(self.encoder, DistilledEncoder):
            self.encoder.save(folder)


def load_candidates(
    settings: CandidateSettings, folder: Path, read_scores: Callable[[Arrays, int, Integers], Scores]
) -> FittedCandidates:
    """Load the candidates that `FittedCandidates.save` wrote under the same settings. Else ConfigError.

    `read_scores` makes the scores from the numbers by name, the number of coordinates, and the classes `(m,)`. It
    raises ValueError or LookupError for numbers that it cannot use.
    """
    encoder = load_distilled(folder) if settings.encoder == "distilled" else settings.load_encoder()
    with reading_saved(f"the candidates in {folder}"):
        described = json.loads((folder / TEXTS_FILE).read_bytes())
        arrays = _read_arrays((folder / ARRAYS_FILE).read_bytes())
        texts, labels = described["texts"], described["labels"]
        trained_on, given = described["trained_on"], described["pool"]
        if not (
            all(isinstance(text, str) for text in (*texts, trained_on, given))
            and {*labels} <= {None, *settings.labels}
            and described["scored_by"] == [*settings.scored_by]
            # The guarantee per document relies on at most as many candidates as the settings allow.
            and 2 <= len(texts) == len(labels) <= settings.candidates
        ):
            raise ValueError
        outputs = shaped(arrays["outputs"], len(texts), encoder.dim).astype(np.float32)
        classes = np.array([settings.labels.index(label) if settings.labels else 0 for label in labels], np.int64)
        scores = read_scores(arrays, encoder.dim, classes)
        if described["encoder"] != encoder.digest:
            raise ValueError
    return FittedCandidates(settings, tuple(texts), tuple(labels), outputs, scores, encoder, trained_on, given)


def _read_arrays(data: bytes) -> dict[str, NDArray[np.generic]]:
    """The arrays of a safetensors file, which holds no code. ValueError: another file, or numbers out of range."""
    try:
        found: dict[str, NDArray[np.generic]] = load(data)
    except SafetensorError as error:
        raise ValueError("it does not hold arrays") from error
    if not all((np.abs(array) < _LARGEST).all() for array in found.values()):  # False for NaN too
        raise ValueError("it holds numbers that no fit gives")
    return found


def shaped(array: NDArray[np.generic], *shape: int) -> NDArray[np.generic]:
    """The array, if it has this shape. Else ValueError."""
    if array.shape != shape:
        raise ValueError
    return array


def on_whole_steps(array: NDArray[np.generic], *shape: int) -> Singles:
    """Rows of whole steps of the grid, short enough for exact products in float32. Else ValueError."""
    found = shaped(array, *shape).astype(np.float64)
    if (found != np.rint(found)).any() or np.linalg.norm(found, axis=1).max() > 2 * GRID:
        raise ValueError
    return found.astype(np.float32)


def read_likeness(
    found: Arrays, dim: int, classes: Integers, *, utility: Utility, labels: Sequence[str]
) -> LikenessScores:
    """The scores that were saved as `LikenessScores.arrays`. ValueError, LookupError: other numbers."""
    m = len(classes)
    space, points, evidence = None, np.empty((0, 0), np.float32), None
    if utility != "evidence":
        other = found["root"].shape[1]
        centre, root = shaped(found["centre"], dim), shaped(found["root"], dim, other)
        space = CosineSpace(centre.astype(np.float64), root.astype(np.float64))
        points = on_whole_steps(found["points"], m, other)
    if utility in ("evidence", "mixed"):
        weights, reach = found["weights"], float(shaped(found["reach"], 1).item())
        if not classes.max() < weights.shape[1] <= len(labels) or not reach > _NARROWEST:
            raise ValueError
        weights, bias = shaped(weights, dim, weights.shape[1]), shaped(found["bias"], weights.shape[1])
        evidence = Evidence(weights.astype(np.float64), bias.astype(np.float64), reach)
    low, high = shaped(found["stretch"], 2).tolist()
    if not low + _NARROWEST < high or (shaped(found["classes"], m) != classes).any():
        raise ValueError
    return LikenessScores(space, points, low, high, evidence, classes)
