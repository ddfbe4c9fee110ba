"""DeepCandidate's public part, fitted: the candidates, their embeddings, and what ranks them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from dptext.embeddings.encoders import Encoder, load_encoder
from dptext.embeddings.sentence_encoder import Precision
from dptext.neural.deep_candidate.scores import DepthScores, LikenessScores, Utility
from dptext.text.files import create_private
from dptext.types import Floats, Singles

TEXTS_FILE, ARRAYS_FILE = "candidates.json", "candidates.safetensors"


@dataclass(frozen=True, slots=True)
class CandidateSettings:
    """What a spec says about the fit; see `dptext.DeepCandidate`."""

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
        """The encoder of sentences."""
        return load_encoder(self.encoder, device=self.device, precision=self.precision)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedCandidates:
    """Public candidates and their utilities.

    Attributes:
        settings: under which they were fitted.
        texts: the candidates.
        labels: one a candidate; each None without labels.
        outputs: the embeddings that are released, `(m, dim)` in float32.
        scores: their utility for documents.
        encoder: what embeds sentences.
        trained_on: digest of the public text.
        pool: digest of the pool that the candidates come from; "" where they come from the public text.
    """

    settings: CandidateSettings
    texts: tuple[str, ...]
    labels: tuple[str | None, ...]
    outputs: Singles
    scores: DepthScores | LikenessScores
    encoder: Encoder
    trained_on: str
    pool: str = ""

    def utilities(self, documents: Sequence[Sequence[str]]) -> Floats:
        """The utility of every candidate for each document, `(n_documents, m)`."""
        embeddings = self.encoder.embed([sentence for document in documents for sentence in document])
        return self.scores(np.asarray(embeddings, np.float64), [len(document) for document in documents])

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests: of candidates and what ranks them, of the public text, of the pool if any, of the encoder."""
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
        """Write everything but the encoder into an existing folder.

        Raises:
            ConfigError: a file of a model is there already, or cannot be written.
        """
        described = {
            "utility": self.settings.utility,
            "recoder": self.settings.recoder,
            "encoder": self.encoder.digest,
            "texts": self.texts,
            "labels": self.labels,
            "trained_on": self.trained_on,
            "pool": self.pool,
        }
        with create_private(folder / TEXTS_FILE) as file:
            file.write(json.dumps(described).encode())
        with create_private(folder / ARRAYS_FILE) as file:
            file.write(save(self._arrays()))
        if isinstance(self.scores, DepthScores) and self.scores.recoder is not None:
            self.scores.recoder.save(folder)
