"""DeepCandidate's public part: the candidates, their embeddings, what ranks them; fitted, saved and loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from dptext.embeddings.likeness import GRID, Evidence, Space
from dptext.embeddings.sentence_encoder import SentenceEncoder, WordMean, load_sentence_encoder, load_word_mean
from dptext.embeddings.vectors import load_glove
from dptext.errors import ConfigError
from dptext.neural.deep_candidate.recoder import RecoderSchedule, load_recoder
from dptext.neural.deep_candidate.scores import (
    DEPTHS,
    DepthScores,
    Documents,
    LikenessScores,
    Utility,
    depth_scores,
    fit_depth,
    fit_likeness,
    fit_recoder_for,
)
from dptext.text.files import create_private
from dptext.text.records import Record, records_digest
from dptext.text.tokens import sentences
from dptext.types import Floats, Integers, Singles

_TEXTS = "candidates.json"
_ARRAYS = "candidates.safetensors"
_FEWEST = 20
_TUNING = 300
_LARGEST = 1e9  # no fitted number is anywhere near
_NARROWEST = 1e-9
_AGAIN = "Fit and save the model again."
_Split: TypeAlias = list[tuple[Record, list[str]]]


@dataclass(frozen=True, slots=True)
class Settings:
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
    precision: Literal["float32", "bfloat16"]
    device: str

    def load_encoder(self) -> SentenceEncoder | WordMean:
        """The encoder of sentences."""
        if self.encoder == "glove":
            return load_word_mean(load_glove())
        return load_sentence_encoder(self.encoder, device=self.device, precision=self.precision)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedCandidates:
    """Public candidates and their utilities.

    Attributes:
        settings: that they were fitted under.
        texts: of the candidates.
        labels: of the candidates; None without labels.
        outputs: the embeddings that are released, `(m, dim)` in float32.
        scores: the utility.
        encoder: of sentences.
        trained_on: digest of the public text.
        pool: digest of the pool, where the candidates come from one.
    """

    settings: Settings
    texts: tuple[str, ...]
    labels: tuple[str | None, ...]
    outputs: Singles
    scores: DepthScores | LikenessScores
    encoder: SentenceEncoder | WordMean
    trained_on: str
    pool: str = ""

    def utilities(self, documents: Sequence[Sequence[str]]) -> Floats:
        """The utility of every candidate for each document, `(n_documents, m)`."""
        embeddings = self.encoder.embed([sentence for document in documents for sentence in document])
        return self.scores(np.asarray(embeddings, np.float64), [len(document) for document in documents])

    @property
    def digests(self) -> Mapping[str, str]:
        """Of candidates and ranking, of all public text and the pool apart from it, of the encoder's weights."""
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
        """Write all of it into an existing folder.

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
        with create_private(folder / _TEXTS) as file:
            file.write(json.dumps(described).encode())
        with create_private(folder / _ARRAYS) as file:
            file.write(save(self._arrays()))
        if isinstance(self.scores, DepthScores) and self.scores.recoder is not None:
            self.scores.recoder.save(folder)


def fit_candidates(
    settings: Settings, public: Sequence[Record], pool: Sequence[Record] | None = None, *, seed: int
) -> FittedCandidates:
    """Choose, fit and tune; public text only.

    With a pool the candidates come from it alone, and `public` is what all else is fitted and tuned on.

    Raises:
        ConfigError: fewer than 20 documents have enough sentences, or one has no known label.
    """
    _check_labels(settings, public, "public")
    encoder = settings.load_encoder()
    # Of equal texts the first one is kept: another could be tuned on where it is a candidate.
    distinct: dict[str, Record] = {}
    for record in public:
        distinct.setdefault(record.text, record)
    split = _split([*distinct.values()])
    if pool is None:
        long = _long(settings, split, public, "public documents", "public text")
        order = np.random.default_rng(seed).permutation(long)
        # Documents to tune on are no candidates: a document is nearest to itself.
        held = min(_TUNING, max(1, len(order) // 5))
        most = settings.candidates
        held = max(held, 1) if len(order) - held < most else min(_TUNING, len(order) - most)
        tuned, chosen = order[:held], np.sort(order[held : held + most])
        offered = split
    else:
        _check_labels(settings, pool, "pool")
        offered = _split(pool)
        long = _long(settings, offered, pool, "documents of the pool", "it more text")
        drawn = np.random.default_rng(seed)
        chosen = np.sort(drawn.permutation(long)[: settings.candidates])
        taken = {offered[i][0].text for i in chosen}
        tuned = drawn.permutation([i for i, (record, _) in enumerate(split) if record.text not in taken])
        if len(tuned) < _FEWEST:
            raise ConfigError(
                f"Expected at least {_FEWEST} public documents that are no candidates themselves, found {len(tuned)} "
                f"of {len(public)}: with a pool, all that ranks is fitted and tuned on these."
            )
        tuned = tuned[: min(_TUNING, len(tuned) // 2)]
    every = _embedded(settings, encoder, split)
    rest = every.take(np.setdiff1d(np.arange(len(every)), tuned))
    candidates = (every if pool is None else _embedded(settings, encoder, offered)).take(chosen)
    if settings.utility in ("evidence", "mixed") and candidates.classes is not None and rest.classes is not None:
        unseen = len(np.setdiff1d(candidates.classes, rest.classes))
        if unseen and pool is not None:
            raise ConfigError(
                f"Expected public documents of each label of the pool, found none of {unseen}: give more."
            )
    scores = _fit(settings, candidates, rest, every.take(tuned), seed=seed)
    outputs = scores.means if isinstance(scores, DepthScores) else candidates.means
    return FittedCandidates(
        settings,
        tuple(offered[i][0].text for i in chosen),
        tuple(offered[i][0].label if settings.labels else None for i in chosen),
        outputs.astype(np.float32),
        scores,
        encoder,
        records_digest(public),
        "" if pool is None else records_digest(pool),
    )


def _check_labels(settings: Settings, given: Sequence[Record], name: str) -> None:
    unknown = sum(record.label not in settings.labels for record in given) if settings.labels else 0
    if unknown:
        raise ConfigError(
            f"Expected every {name} record to have one of the {len(settings.labels)} labels of the settings, found "
            f"{unknown} of {len(given)} without: name the field of the label, complete labels=, or leave them out."
        )


def _split(given: Sequence[Record]) -> _Split:
    """The documents that have a sentence, with their sentences."""
    return [(record, found) for record in given if (found := sentences(record.text))]


def _long(settings: Settings, split: _Split, given: Sequence[Record], what: str, more: str) -> list[int]:
    """The places of those with `min_sentences`."""
    long = [i for i, (_, found) in enumerate(split) if len(found) >= settings.min_sentences]
    if len(long) < _FEWEST:
        raise ConfigError(
            f"Expected at least {_FEWEST} {what} with min_sentences={settings.min_sentences} sentences, "
            f"found {len(long)} of {len(given)}: give {more} or lower min_sentences."
        )
    return long


def _embedded(settings: Settings, encoder: SentenceEncoder | WordMean, split: _Split) -> Documents:
    return Documents(
        np.asarray(encoder.embed([sentence for _, found in split for sentence in found]), np.float64),
        tuple(len(found) for _, found in split),
        np.array([settings.labels.index(str(record.label)) for record, _ in split]) if settings.labels else None,
    )


def _fit(
    settings: Settings, pool: Documents, rest: Documents, tuning: Documents, *, seed: int
) -> DepthScores | LikenessScores:
    if settings.utility not in DEPTHS:
        return fit_likeness(pool, rest, tuning, utility=settings.utility, epsilon=settings.epsilon)
    recoder = None
    if settings.recoder != "none":
        schedule = RecoderSchedule(epochs=settings.epochs)
        recoder = fit_recoder_for(
            rest, targets=settings.recoder, clusters=settings.clusters, schedule=schedule, seed=seed
        )
    return fit_depth(
        pool,
        tuning,
        statistic=DEPTHS[settings.utility],
        recoder=recoder,
        projections=settings.projections,
        epsilon=settings.epsilon,
        seed=seed,
    )


def load_candidates(settings: Settings, folder: Path) -> FittedCandidates:
    """What `FittedCandidates.save` wrote under the same settings.

    Raises:
        ConfigError: a file is absent, cut short, edited or of other settings.
    """
    try:
        described = json.loads((folder / _TEXTS).read_bytes())
        arrays = load_file(folder / _ARRAYS)
        texts, labels = described["texts"], described["labels"]
        trained_on, given = described["trained_on"], described["pool"]
        if not all(isinstance(text, str) for text in texts) or not {*labels} <= {None, *settings.labels}:
            raise TypeError
        if len(texts) != len(labels) or not all(isinstance(digest, str) for digest in (trained_on, given)):
            raise TypeError
        if (described["utility"], described["recoder"]) != (settings.utility, settings.recoder):
            raise ValueError
        # What is said of documents rests on there being no more candidates than the settings allow.
        if not 2 <= len(texts) <= settings.candidates:
            raise ValueError
        if not all((np.abs(array) < _LARGEST).all() for array in arrays.values()):  # nor anything that is no number
            raise ValueError
        encoder = settings.load_encoder()
        outputs = _shaped(arrays["outputs"], len(texts), encoder.dim).astype(np.float32)
        classes = np.array([settings.labels.index(label) if settings.labels else 0 for label in labels], np.int64)
        scores = _scores_of(settings, arrays, folder, dim=encoder.dim, classes=classes)
        if described["encoder"] != encoder.digest:
            raise ValueError
    except OSError as error:
        raise ConfigError(f"Cannot read the candidates in {folder}: {error.strerror or 'no file'}. {_AGAIN}") from error
    except (SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"The candidates in {folder} were cut short, edited, or fitted under other settings. {_AGAIN}"
        ) from error
    return FittedCandidates(settings, tuple(texts), tuple(labels), outputs, scores, encoder, trained_on, given)


def _shaped(array: NDArray[np.generic], *shape: int) -> NDArray[np.generic]:
    if array.shape != shape:
        raise ValueError
    return array


def _on_grid(array: NDArray[np.generic], *shape: int) -> Singles:
    """Rows that are vectors in whole steps and so short that float32 holds their products exactly."""
    found = _shaped(array, *shape).astype(np.float64)
    if (found != np.rint(found)).any() or np.linalg.norm(found, axis=1).max() > 2 * GRID:
        raise ValueError
    return found.astype(np.float32)


def _scores_of(
    settings: Settings, found: Mapping[str, NDArray[np.generic]], folder: Path, *, dim: int, classes: Integers
) -> DepthScores | LikenessScores:
    m = len(classes)
    if settings.utility in DEPTHS:
        count = settings.projections or found["directions"].shape[1]
        directions = np.ascontiguousarray(_on_grid(found["directions"].T, count, dim).T)
        means = _shaped(found["means"], m, dim).astype(np.float64)
        recoder = None if settings.recoder == "none" else load_recoder(folder, dim)
        return depth_scores(recoder, directions, means, DEPTHS[settings.utility])
    space, points, evidence = None, np.empty((0, 0), np.float32), None
    if settings.utility != "evidence":
        other = found["root"].shape[1]
        space = Space(
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
