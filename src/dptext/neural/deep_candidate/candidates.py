"""DeepCandidate's fitted public part: candidates, their embeddings and their scores; saving and loading.

Every utility has sensitivity 1 under replacement of one sentence: a depth because its counts change by at most 1, a
likeness as a sum of scores in [0, 1] (derivations, "Depths and sums"). The paper prints `algorithm_1`; its text
describes `lowest`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save

from dptext.embeddings.depth import ProjectedCandidates, Statistic
from dptext.embeddings.distilled import DistilledEncoder, load_distilled
from dptext.embeddings.encoders import Encoder, load_encoder
from dptext.embeddings.likeness import GRID, STEPS, CosineSpace, Evidence, likeness_sums, sums_by_document
from dptext.embeddings.sentence_encoder import Precision
from dptext.neural.deep_candidate.recoder import Recoder, load_recoder
from dptext.neural.weights import read_weights
from dptext.text.files import write_private
from dptext.text.inputs import reading_saved
from dptext.types import Floats, Integers, Singles

Utility = Literal["lowest", "algorithm_1", "mean_depth", "similarity", "whitened", "evidence", "mixed"]

DEPTHS: dict[str, Statistic] = {"lowest": "lowest", "algorithm_1": "algorithm_1", "mean_depth": "mean"}
TEXTS_FILE, ARRAYS_FILE = "candidates.json", "candidates.safetensors"
_LARGEST = 1e9  # far above any fitted number
_NARROWEST = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class DepthScores:
    """The depth of candidates among sentences on public directions. A `recoder`, if any, first recodes the sentences.

    `directions` `(dim, n_directions)` are unit vectors in steps of 2^-11. `means` `(m, dim)` are the mean embeddings of
    each candidate's sentences.
    """

    recoder: Recoder | None
    directions: Singles
    means: Floats
    statistic: Statistic
    _candidates: ProjectedCandidates = field(init=False)  # projected once for all documents

    def __post_init__(self) -> None:
        object.__setattr__(self, "_candidates", ProjectedCandidates(_projected(self.means, self.directions)))

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """Utilities `(n_documents, m)` from the embeddings `(n_sentences, dim)` of documents of these sizes."""
        moved = embeddings if self.recoder is None else self.recoder(embeddings)
        ours = _projected(moved, self.directions)
        depths = self._candidates.depths(ours, sizes, self.statistic, threads=torch.get_num_threads())
        return depths / (self.directions.shape[1] if self.statistic == "mean" else 1)


def _projected(vectors: Floats, directions: Singles) -> Singles:
    # Vectors of length at most 1 and unit directions are in steps of 2^-11, so their products are exact in float32.
    return np.asarray(np.rint(vectors * GRID).astype(np.float32) @ directions)


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

    def __call__(self, embeddings: Floats, sizes: Sequence[int], /) -> Floats:
        """Utilities `(n_documents, m)` from the embeddings `(n_sentences, dim)` of documents of these sizes."""
        parts: list[Floats] = []
        if self.space is not None:
            sums = likeness_sums(self.space(embeddings), sizes, self.points, low=self.low, high=self.high)
            parts.append(sums / STEPS)
        if self.evidence is not None:
            parts.append(np.asarray(sums_by_document(self.evidence(embeddings), sizes)[:, self.classes]) / STEPS)
        return parts[0] if len(parts) == 1 else (parts[0] + parts[1]) / 2


Scores: TypeAlias = DepthScores | LikenessScores


@dataclass(frozen=True, slots=True)
class CandidateSettings:
    """A spec's settings of the fit. `dptext.DeepCandidate` explains each."""

    epsilon: float
    labels: tuple[str, ...]
    utility: Utility
    recoder: Literal["none", "clusters", "labels"]
    candidates: int
    min_sentences: int
    projections: int
    clusters: int
    epochs: int
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
        if isinstance(self.scores, DepthScores) and self.scores.recoder is not None:
            found.update(self.scores.recoder.digest.encode())
        pool = {"pool": self.pool} if self.pool else {}
        return {"candidates": found.hexdigest(), "public": self.trained_on, **pool, "encoder": self.encoder.digest}

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        arrays: dict[str, NDArray[np.generic]] = {"outputs": self.outputs}
        match self.scores:
            case DepthScores(_, directions, means, _):
                arrays |= {"directions": directions, "means": means}
            case LikenessScores(space, points, low, high, evidence, classes):
                arrays |= {"classes": classes, "stretch": np.array([low, high])}
                if space is not None:
                    arrays |= {"centre": space.centre, "root": space.root, "points": points}
                if evidence is not None:
                    arrays |= {"weights": evidence.weights, "bias": evidence.bias, "reach": np.array(evidence.depth)}
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    def save(self, folder: Path) -> None:
        """Write the state as new files into an existing folder. An encoder is written only if it is distilled."""
        described: dict[str, object] = {"utility": self.settings.utility, "recoder": self.settings.recoder}
        described |= {"encoder": self.encoder.digest, "texts": self.texts, "labels": self.labels}
        described |= {"trained_on": self.trained_on, "pool": self.pool}
        write_private(folder / TEXTS_FILE, json.dumps(described).encode())
        write_private(folder / ARRAYS_FILE, save(self._arrays()))
        if isinstance(self.scores, DepthScores) and self.scores.recoder is not None:
            self.scores.recoder.save(folder)
        if isinstance(self.encoder, DistilledEncoder):
            self.encoder.save(folder)


def load_candidates(settings: CandidateSettings, folder: Path) -> FittedCandidates:
    """Load the candidates that `FittedCandidates.save` wrote under the same settings. Else ConfigError."""
    encoder = load_distilled(folder) if settings.encoder == "distilled" else settings.load_encoder()
    with reading_saved(f"the candidates in {folder}"):
        described = json.loads((folder / TEXTS_FILE).read_bytes())
        tensors = read_weights((folder / ARRAYS_FILE).read_bytes())
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        texts, labels = described["texts"], described["labels"]
        trained_on, given = described["trained_on"], described["pool"]
        if not (
            all(isinstance(text, str) for text in (*texts, trained_on, given))
            and {*labels} <= {None, *settings.labels}
            and (described["utility"], described["recoder"]) == (settings.utility, settings.recoder)
            # The guarantee per document relies on at most as many candidates as the settings allow.
            and 2 <= len(texts) == len(labels) <= settings.candidates
            and all((np.abs(array) < _LARGEST).all() for array in arrays.values())  # False for NaN too
        ):
            raise ValueError
        outputs = _shaped(arrays["outputs"], len(texts), encoder.dim).astype(np.float32)
        classes = np.array([settings.labels.index(label) if settings.labels else 0 for label in labels], np.int64)
        scores = _scores_of(settings, arrays, folder, dim=encoder.dim, classes=classes)
        if described["encoder"] != encoder.digest:
            raise ValueError
    return FittedCandidates(settings, tuple(texts), tuple(labels), outputs, scores, encoder, trained_on, given)


def _shaped(array: NDArray[np.generic], *shape: int) -> NDArray[np.generic]:
    if array.shape != shape:
        raise ValueError
    return array


def _on_grid(array: NDArray[np.generic], *shape: int) -> Singles:
    """Rows of whole steps, short enough for exact products in float32. Else ValueError."""
    found = _shaped(array, *shape).astype(np.float64)
    if (found != np.rint(found)).any() or np.linalg.norm(found, axis=1).max() > 2 * GRID:
        raise ValueError
    return found.astype(np.float32)


def _scores_of(
    settings: CandidateSettings, found: Mapping[str, NDArray[np.generic]], folder: Path, *, dim: int, classes: Integers
) -> Scores:
    m = len(classes)
    if settings.utility in DEPTHS:
        count = settings.projections or found["directions"].shape[1]
        directions = np.ascontiguousarray(_on_grid(found["directions"].T, count, dim).T)
        means = _shaped(found["means"], m, dim).astype(np.float64)
        recoder = None if settings.recoder == "none" else load_recoder(folder, dim)
        return DepthScores(recoder, directions, means, DEPTHS[settings.utility])
    space, points, evidence = None, np.empty((0, 0), np.float32), None
    if settings.utility != "evidence":
        other = found["root"].shape[1]
        centre, root = _shaped(found["centre"], dim), _shaped(found["root"], dim, other)
        space = CosineSpace(centre.astype(np.float64), root.astype(np.float64))
        points = _on_grid(found["points"], m, other)
    if settings.utility in ("evidence", "mixed"):
        weights, reach = found["weights"], float(_shaped(found["reach"], 1).item())
        if not classes.max() < weights.shape[1] <= len(settings.labels) or not reach > _NARROWEST:
            raise ValueError
        weights, bias = _shaped(weights, dim, weights.shape[1]), _shaped(found["bias"], weights.shape[1])
        evidence = Evidence(weights.astype(np.float64), bias.astype(np.float64), reach)
    low, high = _shaped(found["stretch"], 2).tolist()
    if not low + _NARROWEST < high or (_shaped(found["classes"], m) != classes).any():
        raise ValueError
    return LikenessScores(space, points, low, high, evidence, classes)
