"""Fitting of public candidates: their choice, and the fitting and tuning of scores by likeness."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from dptext.embeddings.distilled import DistilledEncoder, common_words, distil_with_words
from dptext.embeddings.embedder import Embedder
from dptext.embeddings.encoders import Encoder
from dptext.embeddings.likeness import GRID, Evidence, centred, mean_by_document, whitened
from dptext.errors import ConfigError
from dptext.mechanisms.sentences.document_candidates import (
    CandidateSettings,
    FittedCandidates,
    LikenessScores,
    Scores,
    Utility,
)
from dptext.text.records import Record, records_digest, require_labels
from dptext.text.tokens import sentences
from dptext.types import Floats, Integers

_STRENGTH = 10.0  # inverse of a classifier's penalty on half the squared weights
_LOW = (0.5, 0.75, 0.9, 0.97)  # quantiles of cosines between public sentences and candidates
_HIGH = (0.99, 0.998, 0.9998)
_EVIDENCE_DEPTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
_FEWEST = 20
_TUNING = 300
#: Documents with their sentences.
_Split: TypeAlias = list[tuple[Record, list[str]]]


@dataclass(frozen=True, slots=True, eq=False)
class Documents:
    """Public documents: embeddings of all their sentences `(n_sentences, dim)`, and their classes from 0, if any."""

    embeddings: Floats
    sizes: tuple[int, ...]
    classes: Integers | None

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def means(self) -> Floats:
        """The mean embedding of each document, `(n_documents, dim)`."""
        return mean_by_document(self.embeddings, self.sizes)

    def take(self, chosen: Integers) -> "Documents":
        """The chosen documents, in this order."""
        rows = np.split(np.arange(len(self.embeddings)), np.cumsum(self.sizes)[:-1])
        picked = np.concatenate([rows[i] for i in chosen]) if len(chosen) else np.empty(0, np.int64)
        classes = None if self.classes is None else self.classes[chosen]
        return Documents(self.embeddings[picked], tuple(self.sizes[i] for i in chosen), classes)


def expected_gain(scores: Scores, documents: Documents, pool: Documents, *, epsilon: float) -> float:
    """The expected gain of choices of the exponential mechanism on public documents.

    The gain is the mean over documents of the centred cosine of means, plus 1 if the class is kept (with classes only).
    """
    centre = pool.means.mean(axis=0)
    ours, theirs = (_unit(found.means - centre) for found in (documents, pool))
    gain = ours @ theirs.T
    if documents.classes is not None and pool.classes is not None:
        gain += documents.classes[:, None] == pool.classes[None, :]
    weights = scores(documents.embeddings, documents.sizes) * (epsilon / 2)
    weights = np.exp(weights - weights.max(axis=1, keepdims=True))
    return float(((weights * gain).sum(axis=1) / weights.sum(axis=1)).mean())


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))


def fit_likeness(
    pool: Documents, everything: Documents, tuning: Documents, *, utility: Utility, epsilon: float
) -> LikenessScores:
    """Fit the space to all public sentences. Then choose stretch and depth of evidence by expected gain."""
    space, points, low, high = None, np.empty((0, 0), np.float32), 0.0, 1.0
    classes = pool.classes if pool.classes is not None else np.zeros(len(pool), np.int64)

    def gain(scores: LikenessScores) -> float:
        return expected_gain(scores, tuning, pool, epsilon=epsilon)

    if utility != "evidence":
        sentences = everything.embeddings
        space = centred(sentences) if utility == "similarity" else whitened(sentences, everything.sizes)
        points = space(pool.means)
        sample = space(tuning.embeddings[:2000]) @ points.T / GRID**2
        lows, highs = np.quantile(sample, _LOW), np.quantile(sample, _HIGH)
        tried = [LikenessScores(space, points, float(a), float(b), None, classes) for a in lows for b in highs if a < b]
        found = max(tried, key=gain)
        low, high = found.low, found.high
    if utility in ("evidence", "mixed"):
        seen = everything.classes
        if seen is not None and (unseen := len(np.setdiff1d(classes, seen))):  # of a pool: else all are among these
            raise ConfigError(f"Expected public documents of each label of the pool, found none of {unseen}: add some.")
        weights, bias = fit_classifier(everything)
        ways = [Evidence(weights, bias, depth) for depth in _EVIDENCE_DEPTHS]
        tried = [LikenessScores(space, points, low, high, evidence, classes) for evidence in ways]
        return max(tried, key=gain)
    return found


def fit_classifier(documents: Documents) -> tuple[Floats, Floats]:
    """Weights `(dim, n_classes)` and bias of a logistic regression on means, as a sentence rarely shows the class."""
    if documents.classes is None:
        raise ConfigError("Expected public documents with labels for a classifier, found none.")
    inputs, classes = documents.means, documents.classes
    dim, count = inputs.shape[1], int(classes.max()) + 1

    def loss(flat: Floats) -> tuple[float, Floats]:
        return classifier_loss(flat.reshape(dim + 1, count), inputs, classes)

    # The default `ftol` of 2e-9 stops where the weights are off in their fourth digit.
    options = {"maxiter": 500, "maxfun": 5000, "ftol": 1e-15, "gtol": 1e-8}
    start = np.zeros((dim + 1) * count)
    found = np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x, np.float64)
    weights, bias = np.split(found.reshape(dim + 1, count), [dim])
    return weights, bias[0]


def classifier_loss(parameters: Floats, inputs: Floats, classes: Integers) -> tuple[float, Floats]:
    """The penalized cross entropy of a logistic regression, and its gradient, flat.

    `parameters` `(dim + 1, n_classes)` are weights, then bias; `inputs` are `(n, dim)`, and `classes` `(n,)`. The loss
    is a sum over the rows in nats, plus half the squared weights over 10. It is strictly convex in the weights. The
    bias is free, up to a common shift of all classes.
    """
    weights, rows = parameters[:-1], np.arange(len(inputs))
    logits = inputs @ weights + parameters[-1]
    norms = logsumexp(logits, axis=1, keepdims=True)
    loss = float((norms[:, 0] - logits[rows, classes]).sum() + (weights**2).sum() / (2 * _STRENGTH))
    surplus = np.exp(logits - norms)
    surplus[rows, classes] -= 1.0
    gradient = np.concatenate([inputs.T @ surplus + weights / _STRENGTH, surplus.sum(axis=0, keepdims=True)])
    return loss, gradient.ravel()


#: From the candidates, all other public documents but those for tuning, and these: the scores of the candidates.
FitScores: TypeAlias = Callable[[Documents, Documents, Documents], Scores]


def fit_candidates(
    settings: CandidateSettings,
    public: Sequence[Record],
    pool: Sequence[Record] | None = None,
    *,
    fit_scores: FitScores,
    seed: int,
) -> FittedCandidates:
    """Choose, fit and tune on public text only. A pool, if given, provides all candidates, and has no other use.

    ConfigError: fewer than 20 documents have enough sentences, or one has no known label.
    """
    require_labels(public, settings.labels, "public")
    encoder = settings.load_encoder()
    # Only the first of equal texts is kept: else a candidate's copy could be among the documents for tuning.
    distinct: dict[str, Record] = {}
    for record in public:
        distinct.setdefault(record.text, record)
    split = _split([*distinct.values()])
    if pool is None:
        offered = split
        chosen, tuned = _from_public(settings, split, len(public), seed=seed)
    else:
        require_labels(pool, settings.labels, "pool")
        offered = _split(pool)
        chosen, tuned = _from_pool(settings, split, offered, len(public), len(pool), seed=seed)
    every = _embedded(settings, encoder, split)
    rest = every.take(np.setdiff1d(np.arange(len(every)), tuned))
    candidates = (every if pool is None else _embedded(settings, encoder, offered)).take(chosen)
    reader: Encoder | DistilledEncoder = encoder
    tuning = every.take(tuned)
    if settings.encoder == "distilled":
        # The student's vectors of documents are compared with the teacher's vectors of candidates. This loses less than
        # comparing with the student's vectors of candidates.
        read = [sentence for _, found in split for sentence in found]
        reader = distil_with_words(encoder, read, every.embeddings, common=common_words())
        tuning = _embedded(settings, reader, [split[i] for i in tuned])
    scores = fit_scores(candidates, rest, tuning)
    outputs = scores.released(candidates.means)
    texts = tuple(offered[i][0].text for i in chosen)
    labels = tuple(offered[i][0].label if settings.labels else None for i in chosen)
    digests = records_digest(public), "" if pool is None else records_digest(pool)
    return FittedCandidates(settings, texts, labels, outputs.astype(np.float32), scores, reader, *digests)


def _from_public(settings: CandidateSettings, split: _Split, n: int, *, seed: int) -> tuple[Integers, Integers]:
    """Positions of the candidates, and of the documents for tuning. No document is both, as it is nearest to itself."""
    long = _long(settings, split, n, "public documents", "public text")
    order = np.random.default_rng(seed).permutation(long)
    most = settings.candidates
    held = min(_TUNING, max(1, len(order) // 5))
    held = max(held, 1) if len(order) - held < most else min(_TUNING, len(order) - most)
    return np.sort(order[held : held + most]), order[:held]


def _from_pool(
    settings: CandidateSettings, split: _Split, offered: _Split, n_public: int, n_pool: int, *, seed: int
) -> tuple[Integers, Integers]:
    """Positions of the candidates in the pool, and of the public documents for tuning, which are no candidates."""
    long = _long(settings, offered, n_pool, "documents of the pool", "it more text")
    drawn = np.random.default_rng(seed)
    chosen = np.sort(drawn.permutation(long)[: settings.candidates])
    taken = {offered[i][0].text for i in chosen}
    tuned = drawn.permutation([i for i, (record, _) in enumerate(split) if record.text not in taken])
    if len(tuned) < _FEWEST:
        raise ConfigError(
            f"Expected at least {_FEWEST} public documents that are no candidates themselves, found {len(tuned)} "
            f"of {n_public}: with a pool, all that ranks is fitted and tuned on these."
        )
    return chosen, tuned[: min(_TUNING, len(tuned) // 2)]


def _split(given: Sequence[Record]) -> _Split:
    return [(record, found) for record in given if (found := sentences(record.text))]


def _long(settings: CandidateSettings, split: _Split, given: int, what: str, more: str) -> list[int]:
    long = [i for i, (_, found) in enumerate(split) if len(found) >= settings.min_sentences]
    if len(long) < _FEWEST:
        raise ConfigError(
            f"Expected at least {_FEWEST} {what} with min_sentences={settings.min_sentences} sentences, "
            f"found {len(long)} of {given}: give {more} or lower min_sentences."
        )
    return long


def _embedded(settings: CandidateSettings, encoder: Embedder, split: _Split) -> Documents:
    labels, sizes = settings.labels, tuple(len(found) for _, found in split)
    embeddings = np.asarray(encoder.embed([sentence for _, found in split for sentence in found]), np.float64)
    classes = np.array([labels.index(str(record.label)) for record, _ in split]) if labels else None
    return Documents(embeddings, sizes, classes)
