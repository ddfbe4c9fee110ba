"""The pool of public candidates, and rankers by likeness: words, (distilled) sentence embeddings, models of packages.

A cosine is a whole number of steps of 2^-12: no float decides a rank. Every ranker is made from public text.

    >>> ranker = words_ranker(["book a flight to Rome", "play some jazz"])
    >>> ranker.cosines(ranker.read(["some quiet jazz", "zqxv"])).tolist()
    [[0, 3343], [0, 0]]
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from scipy import sparse

from dptext.doors import Door, absent
from dptext.embeddings.distilled import bags, common_words, distil_with_words, load_distilled, rarity
from dptext.embeddings.encoders import Encoder, load_encoder
from dptext.embeddings.likeness import GRID, STEPS, mean_by_document, on_grid
from dptext.embeddings.npy import TextPool
from dptext.embeddings.sentence_encoder import Precision
from dptext.errors import ConfigError
from dptext.mechanism import FitProgress, OnProgress
from dptext.sampling.envelope import tuned_response
from dptext.sampling.exponential import Exponential
from dptext.sampling.top_k import LabelResponse, agreement, best_number
from dptext.text.formats import Scalar
from dptext.text.inputs import SAVE_AGAIN
from dptext.text.records import Record
from dptext.text.tokens import composed, sentences, tokenize
from dptext.types import Booleans, Floats, Int16s, Singles

#: The rankers of the library; those of packages stand in `RANKERS`.
OURS: Final = ("text", "sentence", "distilled", "tfidf")
#: Unit vectors in whole steps of 2^-11, one a row; a row of zeros for a text without a known word.
Rows: TypeAlias = "Singles | sparse.csr_array"
#: The candidates' saved vectors, and the saved mean that was subtracted from them.
Saved: TypeAlias = tuple[Singles, Floats]
_DOCUMENTS_AT_ONCE = 256
_QUERIES = 500
_INPUTS, _PAIRS = 2000, 10_000_000  # of an envelope at most: bounds time and memory
_LOW = (0.5, 0.9, 0.99)  # quantiles of the scores of public texts
_HIGH = (0.99, 0.998, 0.9995, 1.0)
#: Scores of the exponential mechanism lie in [0, 2]: its epsilon is then the range of its log weights, so that nothing
#: is rounded between the event and the choice, and the margin of `Exponential` for its integer weights is enough.
WIDTH = 2.0


def tfidf_of(texts: Sequence[str]) -> Callable[[Sequence[str]], sparse.csr_array]:
    """Return a function from texts to rows of norm 1 `(n_texts, n_words)`, zero without a word of `texts`.

    A count is multiplied by ln((1 + n) / (1 + texts with the word)) + 1 for n texts, as in scikit-learn.
    Columns are in the order of the words' first occurrence.
    """
    having = Counter(word for text in texts for word in dict.fromkeys(_words(text)))
    position = {word: i for i, word in enumerate(having)}
    weights = rarity([*having.values()] or [0], len(texts))
    return lambda found: bags([_words(text) for text in found], position, weights)


def _words(text: str) -> list[str]:
    return [word.lower() for line in tokenize(composed(text)) for word in line]


def _saves_nothing(folder: Path) -> None:
    """Save nothing, for rankers that need no file of their own."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoadedModel:
    """A model that is loaded and reads texts.

    `read` maps texts to vectors `(n_texts, dim)`, each by its own text alone. `save` writes the model's files into a
    folder. `shown` names the model in errors, after "candidates". `digests` are SHA-256 of its parts.
    """

    read: Callable[[Sequence[str]], Floats]
    save: Callable[[Path], None]
    dim: int
    shown: str
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModelRanker:
    """A ranker of a package, which compares the vectors that a model of public text reads.

    `load` takes the folder of the model and the device that computes. `assumptions` states for a device what the
    guarantee assumes about the model, without loading it. `model` says in errors what the folder is of.
    """

    load: Callable[[Path, str], LoadedModel]
    assumptions: Callable[[str], tuple[str, ...]]
    model: str = "a model of public text"


class _Rankers(Door[ModelRanker]):
    def wrong(self, name: str, found: object) -> str:
        """Say what the object of a package should have been; empty if it is a `ModelRanker`."""
        return "" if isinstance(found, ModelRanker) else f"to be a ModelRanker ({__name__})"


RANKERS: Final = _Rankers("dptext.rankers", {}, what="ranker", taken=OURS)


def check_ranker(name: object) -> None:
    """Raise ConfigError unless a ranker of this name is installed."""
    if not isinstance(name, str) or (name not in OURS and name not in RANKERS):
        known = ", ".join((*OURS, *RANKERS))
        raise ConfigError(f"Expected ranker={name!r} to be one of {known}.{absent(RANKERS.group, str(name))}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranker:
    """A comparison of private texts with the candidates.

    `read` maps texts to `Rows`, in the form of the candidates' `points`. `centre` is the mean of the candidates'
    vectors, which `read` subtracts from each vector; the ranker by words has an empty one. `digests` are of the trained
    parts. `save` writes the files that `read` needs besides the candidates and `centre`.
    """

    read: Callable[[Sequence[str]], Rows]
    points: Rows
    digests: Mapping[str, str]
    centre: Floats
    save: Callable[[Path], None] = _saves_nothing

    def cosines(self, rows: Rows) -> Int16s:
        """Return the cosine of each row with each candidate `(n, m)`, in whole steps of 2^-12."""
        found = rows @ self.points.T  # exact: whole numbers below 2^24
        dense = found if isinstance(found, np.ndarray) else found.toarray()
        return np.asarray(np.rint(dense * np.float32(STEPS / GRID**2)).astype(np.int16))


def words_ranker(texts: Sequence[str]) -> Ranker:
    """Build a ranker by TF-IDF of lower-cased words. A word that no candidate has counts nothing."""
    weighed = tfidf_of(texts)

    def read(found: Sequence[str]) -> sparse.csr_array:
        rows = weighed(found)
        return sparse.csr_array((np.rint(rows.data * GRID).astype(np.int32), rows.indices, rows.indptr), rows.shape)

    return Ranker(read, read(texts), {}, np.empty(0))


def load_ranker(
    name: str,
    texts: Sequence[str],
    folder: Path,
    *,
    max_sentences: int,
    device: str,
    precision: Precision = "auto",
    centred: bool,
    saved: Saved | None = None,
    on_progress: OnProgress | None = None,
) -> Ranker:
    """Return the ranker for these candidates. If `centred`, any ranker but `tfidf` subtracts the mean of their vectors.

    `Candidates` describes each ranker. The student model of `distilled` reads a text from its own words alone; a text
    without a known word gets the intercept. Comparing the student's vectors with the encoder's vectors of the
    candidates keeps more than comparing the student's vectors on both sides. A ranker of a package reads texts without
    their labels: `label_weight` alone sets the weight of a label.

    `folder` is where the student was saved, if it was; for a ranker of a package the folder of its model. `saved` holds
    points and centre that were computed before; without `saved`, `on_progress` is told how many candidates a sentence
    encoder has read.

    ConfigError: the folder holds no model of the ranker; or a saved file is truncated, edited, or of another
    encoder. MissingExtraError: a package of the ranker is not installed. Only the fitting of `distilled` needs an
    encoder.
    """
    own: Floats | None = None
    read: Callable[[Sequence[str]], Floats]
    save: Callable[[Path], None] = _saves_nothing
    digests: Mapping[str, str]
    match name:
        case "tfidf":
            return words_ranker(texts)
        case "text" | "sentence":
            encoder = load_encoder("sentence", device=device, precision=precision)
            parts = max_sentences if name == "sentence" else 0
            read = partial(_means, encoder, parts)
            if saved is None:
                own = _means(encoder, parts, texts, on_progress)
            dim, shown, digests = encoder.dim, encoder.name, {"encoder": encoder.digest}
        case "distilled":
            if saved is None:
                encoder = load_encoder("sentence", device=device, precision=precision)
                own = _means(encoder, max_sentences, texts, on_progress)
                own /= np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12)
                teacher = (
                    encoder if on_progress is None else _CountedEncoder(encoder, encoder.name, encoder.dim, on_progress)
                )
                pupil = distil_with_words(teacher, texts, own, common=common_words())
            else:
                pupil = load_distilled(folder)
            read, save, dim, shown, digests = pupil.embed, pupil.save, pupil.dim, pupil.name, {"encoder": pupil.digest}
        case _:
            brought = RANKERS[name].load(folder, device)
            read, save, dim, shown, digests = brought.read, brought.save, brought.dim, brought.shown, brought.digests
    if own is None:
        own = read(texts) if saved is None else np.empty((0, dim))
    centre = own.mean(axis=0) * centred if saved is None else saved[1]
    if centre.shape != (dim,):
        raise ConfigError(f"Expected candidates of the encoder {shown}. {SAVE_AGAIN}")

    def directions(vectors: Floats) -> Singles:
        return on_grid(np.where(vectors.any(axis=1, keepdims=True), vectors - centre, 0.0))

    points = directions(own) if saved is None else saved[0]
    return Ranker(lambda found: directions(read(found)), points, digests, centre, save)


def _means(encoder: Encoder, max_sentences: int, texts: Sequence[str], on_progress: OnProgress | None = None) -> Floats:
    """Return mean embeddings of each text's first sentences `(n_texts, dim)`; with 0 sentences, of whole texts."""
    vectors = np.zeros((len(texts), encoder.dim))
    for start in range(0, len(texts), _DOCUMENTS_AT_ONCE):  # bounds the memory of the sentences
        here = texts[start : start + _DOCUMENTS_AT_ONCE]
        parts = [sentences(text)[:max_sentences] if max_sentences else [text] for text in here]
        read = [part for document in parts for part in document]
        told = None if on_progress is None else _documents(on_progress, start, len(parts), len(set(read)), len(texts))
        embeddings = encoder.embed(read) if told is None else encoder.embed(read, on_progress=told)
        vectors[start : start + len(parts)] = mean_by_document(embeddings, [len(document) for document in parts])
    return vectors


@dataclass(frozen=True, slots=True)
class _CountedEncoder:
    """An encoder of words that reports the number of words read; an `Embedder`."""

    encoder: Encoder
    name: str
    dim: int
    on_progress: OnProgress

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors `(n_texts, dim)`."""
        total = len(set(texts))
        told = self.on_progress
        return self.encoder.embed(texts, on_progress=lambda done: told(FitProgress(done, total, "words embedded")))


def _documents(on_progress: OnProgress, before: int, here: int, n_sentences: int, total: int) -> Callable[[int], None]:
    return lambda done: on_progress(FitProgress(before + here * done // n_sentences, total, "texts embedded"))


@dataclass(frozen=True, slots=True, repr=False)
class CandidatePool(TextPool):
    """The candidates with the tuned parameters of the choice: all public.

    Attributes:
        k: the number of nearest candidates that share the probability of `top_k`.
        least, total: the whole numbers of `EnvelopeResponse`; empty without an envelope.
        low, high: scores, in steps of 2^-12, at which the exponential mechanism cuts.
        public, given: digests of the public records, and of the pool if the candidates come from a pool.
        carried: columns that leave beside a candidate, by name.
    """

    k: int = 1
    low: int = -STEPS
    high: int = STEPS
    public: str = ""
    given: str = ""
    least: tuple[int, ...] = ()
    total: int = 0
    carried: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)

    def described(self) -> dict[str, object]:
        """Return the saved fields, which also enter digests; without an envelope or columns as in older files."""
        found = asdict(self)
        if not self.least:
            del found["least"], found["total"]
        if not self.carried:
            del found["carried"]
        return found

    def stretched(self, scores: Int16s) -> Floats:
        """Scores cut to [low, high] and laid on [0, 2]."""
        return (np.clip(scores, self.low, self.high).astype(np.float64) - self.low) / (self.high - self.low) * WIDTH

    def scores(self, cosines: Int16s, labels: Sequence[str | None], label_weight: float) -> Int16s:
        """Cosine plus `label_weight` where the labels agree, `(n, m)`, in whole steps of 2^-12."""
        if not label_weight:
            return cosines
        return cosines + agreement(self.labels, labels) * np.int16(round(label_weight * STEPS))


def enveloped(
    pool: CandidatePool,
    ranker: Ranker,
    public: Sequence[Record],
    *,
    epsilon: float,
    label_weight: float,
    response: LabelResponse | None,
    seed: int,
) -> CandidatePool:
    """Return the pool with the envelope that keeps most of the scores; if `response` is given, labels are drawn by it.

    See `tuned` for the other arguments.
    """
    cosines, labels, own = _compared(pool, ranker, public, min(_INPUTS, _PAIRS // len(pool)), seed)
    if response is not None:
        rng = np.random.default_rng(seed)
        labels = [str(rng.choice(response.labels, p=response.distribution(label))) for label in labels]
    best = tuned_response(pool.scores(cosines, labels, label_weight), own, epsilon=epsilon, seed=seed)
    return replace(pool, least=tuple(best.least.tolist()), total=best.total)


def tuned(
    pool: CandidatePool,
    ranker: Ranker,
    public: Sequence[Record],
    *,
    choice: float | Exponential,
    label_weight: float,
    seed: int,
) -> CandidatePool:
    """Return the pool with the k, or the range of scores, that keeps most on public records.

    Kept utility is the cosine, plus the share of kept labels if there are labels. A text does not count for itself.
    Without public records the candidates stand for them. If `choice` is the epsilon of top-k randomized response, k is
    tuned; if it is an exponential choice, the range of scores is. The seed draws the texts that are compared.
    """
    cosines, labels, own = _compared(pool, ranker, public, _QUERIES, seed)
    scores, gains = pool.scores(cosines, labels, label_weight), cosines / STEPS + agreement(pool.labels, labels)
    if not isinstance(choice, Exponential):
        return replace(pool, k=best_number(scores, gains, own, choice))
    gains[own] = 0.0
    widest = STEPS + round(label_weight * STEPS)
    low, high = (np.quantile(scores[~own], at, method="nearest").tolist() for at in (_LOW, _HIGH))
    pools = [replace(pool, low=a, high=b) for a, b in [(-STEPS, widest), *product(low, high)] if a < b]

    def expected(tried: CandidatePool) -> float:
        weights = np.where(own, 0.0, np.exp((tried.stretched(scores) - WIDTH) * (choice.epsilon / 2)))
        return float(((weights * gains).sum(axis=1) / weights.sum(axis=1)).mean())

    return max(pools, key=expected)


def _compared(
    pool: CandidatePool, ranker: Ranker, public: Sequence[Record], most: int, seed: int
) -> tuple[Int16s, list[str | None], Booleans]:
    """Return cosines of `most` public texts at most with candidates `(n, m)`, labels, mask of equal pairs."""
    every = [(r.text, r.label) for r in public] or [*zip(pool.texts, pool.labels, strict=True)]
    rows = np.sort(np.random.default_rng(seed).permutation(len(every))[:most])
    asked = [every[i] for i in rows.tolist()]
    read = ranker.read([text for text, _ in asked]) if public else ranker.points[rows]
    place = {candidate: i for i, candidate in enumerate(zip(pool.texts, pool.labels, strict=True))}
    own = np.array([place.get(one, -1) for one in asked])[:, None] == np.arange(len(pool))[None, :]
    return ranker.cosines(read), [label for _, label in asked], own
