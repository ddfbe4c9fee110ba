"""Loads the saved public part of DeepCandidate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dptext.embeddings.likeness import GRID, CosineSpace, Evidence
from dptext.neural.deep_candidate.candidates import ARRAYS_FILE, TEXTS_FILE, CandidateSettings, FittedCandidates
from dptext.neural.deep_candidate.recoder import load_recoder
from dptext.neural.deep_candidate.scores import DEPTHS, DepthScores, LikenessScores
from dptext.neural.weights import read_weights
from dptext.text.saved import reading_saved
from dptext.types import Integers, Singles

_LARGEST = 1e9  # no fitted number is anywhere near
_NARROWEST = 1e-9


def load_candidates(settings: CandidateSettings, folder: Path) -> FittedCandidates:
    """What `FittedCandidates.save` wrote under the same settings.

    Raises:
        ConfigError: a file is absent, cut short, edited or of other settings.
    """
    encoder = settings.load_encoder()
    with reading_saved(f"the candidates in {folder}"):
        described = json.loads((folder / TEXTS_FILE).read_bytes())
        tensors = read_weights((folder / ARRAYS_FILE).read_bytes())
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        texts, labels = described["texts"], described["labels"]
        trained_on, given = described["trained_on"], described["pool"]
        if not all(isinstance(text, str) for text in texts) or not {*labels} <= {None, *settings.labels}:
            raise ValueError
        if len(texts) != len(labels) or not all(isinstance(digest, str) for digest in (trained_on, given)):
            raise ValueError
        if (described["utility"], described["recoder"]) != (settings.utility, settings.recoder):
            raise ValueError
        # What the guarantee says of documents rests on there being no more candidates than the settings allow.
        if not 2 <= len(texts) <= settings.candidates:
            raise ValueError
        if not all((np.abs(array) < _LARGEST).all() for array in arrays.values()):  # False for NaN too
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
    """Rows of whole steps. They are so short that float32 holds their products exactly."""
    found = _shaped(array, *shape).astype(np.float64)
    if (found != np.rint(found)).any() or np.linalg.norm(found, axis=1).max() > 2 * GRID:
        raise ValueError
    return found.astype(np.float32)


def _scores_of(
    settings: CandidateSettings, found: Mapping[str, NDArray[np.generic]], folder: Path, *, dim: int, classes: Integers
) -> DepthScores | LikenessScores:
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
        space = CosineSpace(
            _shaped(found["centre"], dim).astype(np.float64), _shaped(found["root"], dim, other).astype(np.float64)
        )
        points = _on_grid(found["points"], m, other)
    if settings.utility in ("evidence", "mixed"):
        weights, reach = found["weights"], float(_shaped(found["reach"], 1).item())
        if not classes.max() < weights.shape[1] <= len(settings.labels) or not reach > _NARROWEST:
            raise ValueError
        evidence = Evidence(
            _shaped(weights, dim, weights.shape[1]).astype(np.float64),
            _shaped(found["bias"], weights.shape[1]).astype(np.float64),
            reach,
        )
    low, high = _shaped(found["stretch"], 2).tolist()
    if not low + _NARROWEST < high or (_shaped(found["classes"], m) != classes).any():
        raise ValueError
    return LikenessScores(space, points, low, high, evidence, classes)
