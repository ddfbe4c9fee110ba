"""Whole documents replaced by public ones: the baseline that every rewriting mechanism must beat.

A private text is compared with some thousand public candidates, and one of them leaves in its place: one of the k
nearest with most of the probability, any other with the rest (top-k randomized response, MATHS 1.4). What leaves is
fluent, because people wrote it, and text and label are protected as a whole.

    >>> from dptext.records import Record
    >>> public = [Record("0", "book a flight to Rome"), Record("1", "play some jazz"), Record("2", "what is the time")]
    >>> mechanism = Candidates(epsilon=3.0, ranker="tfidf", k=1).fit(public=public)
    >>> found = mechanism.output_distribution(Record("3", "some quiet jazz, please"))
    >>> {text: round(chance, 3) for text, chance in found.items()}
    {'book a flight to Rome': 0.045, 'play some jazz': 0.909, 'what is the time': 0.045}
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from tokenize import TokenError
from typing import Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dptext import _validate, accounting
from dptext.errors import ConfigError, IncomparableError
from dptext.formats import string_fault
from dptext.guarantee import Basis, Event, ExponentialEvent, Guarantee, PureEvent, Relation, Unit
from dptext.likeness import GRID, STEPS, mean_by_document, on_grid
from dptext.randomness import Randomness
from dptext.records import Record, Release
from dptext.releases import create_private
from dptext.selection import Exponential, TopKRandomizedResponse
from dptext.text import sentences, tokenize

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ranks = NDArray[np.int16]
#: Unit vectors in whole steps of 2^-11, one a row; a row of zeros where nothing in a text is known.
Rows: TypeAlias = "Singles | sparse.csr_array"

PUBLIC_CANDIDATES = "the candidates, and all that ranks them, were made from public text only"
ALONE = "the sentence encoder reads a sentence as if it were alone in its batch, but for what rounding hides"
_CHOICES = {"ranker": ("sentence", "tfidf"), "selection": ("top_k", "exponential")}
_POOL_FILE, _POINTS_FILE = "candidates.json", "candidates.npy"
# numpy reads the header of a file as a Python literal, and lets the last three through where it is none
_BROKEN = (ValueError, KeyError, TypeError, EOFError, RecursionError, SyntaxError, OverflowError, TokenError)
_AGAIN = "Fit and save the model again."
_QUERIES = 500
_DOCUMENTS_AT_ONCE = 256
_LOW = (0.5, 0.9, 0.99)  # quantiles of the scores of public texts
_HIGH = (0.99, 0.998, 0.9995, 1.0)
# Scores of the exponential mechanism lie in [0, 2]: its epsilon is then the range of its log weights, so that nothing
# is rounded between the event and the choice, and what `Exponential` takes off for its integer weights is enough.
_WIDTH = 2.0


@dataclass(frozen=True, slots=True)
class Candidates:
    """Settings of a document replaced by a public candidate, chosen by likeness to the whole of it.

    Guarantee:
        Unit DOCUMENT, relation replace one: any two texts with any two labels give any candidate with probabilities
        whose ratio is at most e^epsilon. Nothing is revealed. CONDITIONAL: the candidates must be public.

        `top_k`: a candidate has one of two probabilities, whose ratio is e^epsilon, and the record decides only which k
        have the larger one. `exponential`: log weights lie in a public range d, as large as epsilon allows: for m
        candidates that costs d + ln(((m - 1) e^d + 1) / (e^d + m - 1)) (MATHS 1.4).

        A text in which nothing is known is as near to every candidate: the first ones stand for the nearest.

    Attributes:
        epsilon: of one document.
        labels: the public set of labels; empty for unlabelled text. The label that is released is the candidate's own,
            which is public. A missing or unknown private label equals none.
        ranker: `sentence` compares means of sentence embeddings (extra `[sbert]`), an utterance being its own only
            sentence; `tfidf` compares words.
        candidates: public texts in the pool at most.
        selection: of the candidate.
        k: of `top_k`, how many of the nearest share the probability; 0 takes the best for this epsilon on public text.
        label_weight: what an equal private label counts against a cosine of at most 1; 3 puts labels first, 0 does not
            read them.
        max_sentences: of a text; what follows is not read by `sentence`.
        device: of the sentence encoder.
    """

    epsilon: float
    labels: tuple[str, ...] = ()
    ranker: Literal["sentence", "tfidf"] = "sentence"
    candidates: int = 5000
    selection: Literal["top_k", "exponential"] = "top_k"
    k: int = 0
    label_weight: float = 0.0
    max_sentences: int = 64
    device: str = "cpu"
    kind: Literal["candidates"] = field(default="candidates", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.count(candidates=self.candidates, max_sentences=self.max_sentences)
        _validate.within(2, 65_535, candidates=self.candidates)
        _validate.within(0, 3, label_weight=self.label_weight)  # two cosines differ by 2 at most
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ConfigError(f"Expected {name}={getattr(self, name)!r} to be one of {', '.join(known)}.")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 0 <= self.k < self.candidates:
            raise ConfigError(f"Expected k={self.k!r} to be an integer >= 0 below candidates={self.candidates}.")
        if self.k and self.selection != "top_k":
            raise ConfigError(f"Expected k={self.k} to be 0 with selection={self.selection!r}: only top_k has a k.")
        object.__setattr__(self, "labels", _validate.labels(self.labels))
        if self.label_weight and not self.labels:
            raise ConfigError(f"Expected labels with label_weight={self.label_weight!r}: name the public set.")

    @property
    def units(self) -> tuple[Unit, ...]:
        """DOCUMENT."""
        return (Unit.DOCUMENT,)

    @property
    def exponential(self) -> Exponential:
        """The exponential choice among scores in [0, 2]."""
        return Exponential(_log_range(self.epsilon, self.candidates))

    @property
    def event(self) -> PureEvent | ExponentialEvent:
        """One release. How many candidates there are, and k, is known only when they are chosen.

        A range costs the more the more candidates there are, so the event of the largest pool holds for every one.
        """
        if self.selection == "top_k":
            return PureEvent(self.epsilon)
        return self.exponential.range_event(_WIDTH, self.candidates)

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """One choice for one document (else IncomparableError)."""
        if unit is not Unit.DOCUMENT:
            raise IncomparableError(f"Expected unit document, found {unit.value}: a record is protected as a whole.")
        return (self.event,)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """What one release of one document guarantees.

        Raises:
            IncomparableError: the unit is not the document.
        """
        return accounting.guarantee(
            self.events(unit or Unit.DOCUMENT),
            delta,
            unit=Unit.DOCUMENT,
            relation=Relation.REPLACE_ONE,
            basis=Basis.CONDITIONAL,
            assumptions=(PUBLIC_CANDIDATES, *((ALONE,) if self.ranker == "sentence" else ())),
        )

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Candidates:
        """The spec whose guarantee costs at most epsilon at delta.

        Raises:
            IncomparableError: the unit is not the document.
        """
        unit = unit or Unit.DOCUMENT
        self.events(unit)
        if delta == 0:
            return replace(self, epsilon=epsilon)

        def lifted(event: PureEvent) -> tuple[Event, ...]:
            return replace(self, epsilon=event.epsilon).events(unit)

        found = accounting.calibrate(PureEvent(epsilon), epsilon, delta=delta, lifted=lifted)
        return replace(self, epsilon=found.epsilon)

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> CandidatesMechanism:
        """Choose the candidates among public records, and on them what the choice needs.

        A text that occurs twice with one label is one candidate; blank texts are none.

        Args:
            public: records, each with one of the labels where there are labels.
            seed: of the choice of candidates; drawn at random where None. It is no secret.

        Raises:
            ConfigError: too few records for k, one without a known label, or one that cannot be written as UTF-8.
            MissingExtraError: what the ranker needs is not installed.
        """
        seed = secrets.randbits(32) if seed is None else seed
        records = self._checked(list(public))
        distinct = list({(record.label, record.text): record for record in records if record.text.strip()}.values())
        order = np.random.default_rng(seed).permutation(len(distinct))
        chosen = [distinct[i] for i in np.sort(order[: self.candidates]).tolist()]
        fewest = max(2, self.k + 1)
        if len(chosen) < fewest:
            raise ConfigError(f"Expected at least {fewest} different public texts for k={self.k}, found {len(chosen)}.")
        pool = Pool(tuple(record.text for record in chosen), tuple(record.label for record in chosen))
        ranker = _ranker(self, pool.texts)
        return CandidatesMechanism(self, _tuned(self, pool, ranker, seed), ranker)

    def _checked(self, public: list[Record]) -> list[Record]:
        """The records, without labels where there are none in the settings."""
        unknown = sum(record.label not in self.labels for record in public) if self.labels else 0
        if unknown:
            raise ConfigError(
                f"Expected every public record to have one of the {len(self.labels)} labels of the settings, found "
                f"{unknown} of {len(public)} without: name the field of the label, complete labels=, or leave them out."
            )
        for number, record in enumerate(public, start=1):
            if fault := string_fault(record.text):
                raise ConfigError(f"Expected public record {number} to hold text: its text {fault}.")
        return public if self.labels else [replace(record, label=None) for record in public]

    def load(self, folder: Path) -> CandidatesMechanism:
        """The mechanism that was saved into the folder under this spec.

        Raises:
            ConfigError: a file is absent, truncated, edited or of another spec.
            MissingExtraError: what the ranker needs is not installed.
        """
        try:
            described = json.loads((folder / _POOL_FILE).read_bytes())
            texts, labels, k, low, high, centre = (described[key] for key in _SAVED)
            pool, middle = Pool(tuple(texts), tuple(labels), k, low, high), np.array(centre, np.float64)
            points = np.empty((len(texts), 0), np.int16)
            if self.ranker != "tfidf":
                with (folder / _POINTS_FILE).open("rb") as file:  # np.load would open an archive too
                    points = np.lib.format.read_array(file)
            right = described["ranker"] == self.ranker and _belongs(pool, self) and bool(np.isfinite(middle).all())
            right = right and points.dtype == np.int16 and points.shape == (len(texts), *middle.shape)
            right = right and bool((np.abs(points.astype(np.int32)) <= GRID).all())
        except OSError as error:
            raise ConfigError(f"Cannot read the candidates in {folder}: {error.strerror or 'cut short'}.") from error
        except _BROKEN as error:
            raise ConfigError(f"The candidates in {folder} were cut short or edited. {_AGAIN}") from error
        if not right:
            raise ConfigError(f"The candidates in {folder} were edited, or are of another spec. {_AGAIN}")
        return CandidatesMechanism(self, pool, _ranker(self, pool.texts, (points.astype(np.float32), middle)))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Few candidates of the sample corpus, ranked by words, chosen in both ways."""
        small = cls(epsilon=2.0, labels=("health", "travel", "money", "leisure"), ranker="tfidf", candidates=40)
        return replace(small, label_weight=1.0), replace(small, labels=(), selection="exponential")


@lru_cache(maxsize=256)
def _log_range(epsilon: float, size: int) -> float:
    """The largest range of the log weights of `size` options that costs at most epsilon."""
    return accounting.calibrate(ExponentialEvent(1.0, size), epsilon).log_range


@dataclass(frozen=True, slots=True, repr=False)
class Pool:
    """The candidates, and what was chosen on them: all public.

    Attributes:
        texts: at least two.
        labels: of each; None without labels.
        k: of `top_k`.
        low: the score, in steps of 2^-12, below which the exponential mechanism tells no two apart.
        high: the one above which it does not.
    """

    texts: tuple[str, ...]
    labels: tuple[str | None, ...]
    k: int = 1
    low: int = -STEPS
    high: int = STEPS

    def agreement(self, labels: Sequence[str | None]) -> NDArray[np.bool_]:
        """Whether each label equals each candidate's `(n, m)`; a missing or unknown label equals none."""
        number = {label: i for i, label in enumerate(dict.fromkeys(self.labels)) if label is not None}
        own = np.array([number.get(label or "", -2) for label in self.labels], np.int32)
        asked = np.array([number.get(label or "", -1) for label in labels], np.int32)
        return np.asarray(asked[:, None] == own[None, :])

    def stretched(self, scores: Ranks) -> Floats:
        """Scores cut to [low, high] and laid on [0, 2]."""
        return (np.clip(scores, self.low, self.high).astype(np.float64) - self.low) / (self.high - self.low) * _WIDTH


_SAVED = ("texts", "labels", "k", "low", "high", "centre")


def _belongs(pool: Pool, spec: Candidates) -> bool:
    """Whether a pool that was read can be one of this spec's; the cost of a range rests on its size."""
    found = all(isinstance(number, int) for number in (pool.k, pool.low, pool.high))
    found = found and -STEPS <= pool.low < pool.high <= 4 * STEPS
    found = found and all(isinstance(text, str) for text in pool.texts) and len(pool.texts) == len(pool.labels)
    found = found and 1 <= pool.k < len(pool.texts) <= spec.candidates and (spec.k or pool.k) == pool.k
    return found and set(pool.labels) <= ({*spec.labels} if spec.labels else {None})


def _scores(spec: Candidates, pool: Pool, cosines: Ranks, labels: Sequence[str | None]) -> Ranks:
    """Cosine plus `label_weight` where the labels agree, `(n, m)`, in whole steps of 2^-12."""
    if not spec.label_weight:
        return cosines
    return cosines + pool.agreement(labels) * np.int16(round(spec.label_weight * STEPS))


def _tuned(spec: Candidates, pool: Pool, ranker: Ranker, seed: int) -> Pool:
    """The pool with the k, or the range of scores, that keeps most for this epsilon, by its own texts.

    What is kept: cosine, and where there are labels the share of those kept. A text does not count for itself.
    """
    size = len(pool.texts)
    rows = np.sort(np.random.default_rng(seed).permutation(size)[:_QUERIES])
    labels = [pool.labels[i] for i in rows.tolist()]
    cosines = ranker.cosines(ranker.points[rows])
    scores, gains = _scores(spec, pool, cosines, labels), cosines / STEPS + pool.agreement(labels)
    own = rows[:, None] == np.arange(size)[None, :]
    gains[own] = 0.0
    if spec.selection == "top_k":
        scores[own] = np.iinfo(np.int16).min
        order = np.argsort(~scores, axis=1, kind="stable")
        sums = np.cumsum(np.take_along_axis(gains, order, axis=1).mean(axis=0))
        tried = [spec.k] if spec.k else sorted({min(size - 1, round(1.25**i)) for i in range(60)})
        return replace(pool, k=max(tried, key=lambda k: _expected(sums, k, size, spec.epsilon)))
    widest = STEPS + round(spec.label_weight * STEPS)
    low, high = (np.quantile(scores[~own], at, method="nearest").tolist() for at in (_LOW, _HIGH))
    pools = [replace(pool, low=a, high=b) for a, b in [(-STEPS, widest), *product(low, high)] if a < b]
    return max(pools, key=lambda tried: _expected_by_weight(spec, tried.stretched(scores), gains, own))


def _expected(sums: Floats, k: int, size: int, epsilon: float) -> float:
    hit = 1 / (1 + np.exp(-epsilon) * (size - k) / k)
    return float(hit * sums[k - 1] / k + (1 - hit) * (sums[-1] - sums[k - 1]) / (size - k))


def _expected_by_weight(spec: Candidates, scores: Floats, gains: Floats, own: NDArray[np.bool_]) -> float:
    weights = np.where(own, 0.0, np.exp((scores - _WIDTH) * (spec.exponential.epsilon / 2)))
    return float(((weights * gains).sum(axis=1) / weights.sum(axis=1)).mean())


class CandidatesMechanism:
    """`Candidates` with its pool. Immutable; every output's probability is known (`HasDistribution`).

    Attributes:
        spec: the settings.
        pool: the candidates.
    """

    __slots__ = ("_ranker", "pool", "spec")

    def __init__(self, spec: Candidates, pool: Pool, ranker: Ranker) -> None:
        self.spec = spec
        self.pool = pool
        self._ranker = ranker

    def __repr__(self) -> str:
        return f"CandidatesMechanism({self.spec!r})"

    @property
    def event(self) -> PureEvent | ExponentialEvent:
        """One choice for one document."""
        return self.spec.event

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the candidates with what was chosen on them, and of what ranks them."""
        found = json.dumps([*asdict(self.pool).values(), self._ranker.centre.tolist()]).encode()
        if self._ranker.centre.size:
            found += np.asarray(self._ranker.points, "<i2").tobytes()
        return {"candidates": hashlib.sha256(found).hexdigest(), **self._ranker.digests}

    def save(self, folder: Path) -> None:
        """Write the candidates and what ranks them into an existing folder."""
        described = {"ranker": self.spec.ranker, **asdict(self.pool), "centre": self._ranker.centre.tolist()}
        with create_private(folder / _POOL_FILE) as file:
            file.write(json.dumps(described).encode())
        if self._ranker.centre.size:  # of words all follows from the texts
            with create_private(folder / _POINTS_FILE) as file:
                np.lib.format.write_array(file, np.asarray(self._ranker.points, np.int16))

    def scores(self, records: Sequence[Record]) -> Ranks:
        """How near each record is to every candidate `(n_records, m)`, in steps of 2^-12: private."""
        rows = self._ranker.read([record.text for record in records])
        return _scores(self.spec, self.pool, self._ranker.cosines(rows), [record.label for record in records])

    @property
    def _top_k(self) -> TopKRandomizedResponse:
        return TopKRandomizedResponse(self.spec.epsilon, self.pool.k, len(self.pool.texts))

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of each text; with labels, of label, U+001F and text. Equal ones are added up."""
        scores = self.scores([record])
        if self.spec.selection == "top_k":
            chances = self._top_k.distribution(scores)[0]
        else:
            chances = self.spec.exponential.distribution(self.pool.stretched(scores))[0]
        found: dict[str, float] = {}
        for text, label, chance in zip(self.pool.texts, self.pool.labels, chances.tolist(), strict=True):
            key = text if label is None else f"{label}\x1f{text}"
            found[key] = found.get(key, 0.0) + chance
        return found

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        """One public candidate and its own label a record."""
        scores = self.scores(records)
        chosen: list[int] = []
        for source, n in randomness.blocks([1] * len(records), _DOCUMENTS_AT_ONCE):
            here = scores[len(chosen) : len(chosen) + n]
            if self.spec.selection == "top_k":
                chosen += self._top_k.choose(here, source).tolist()
            else:
                chosen += self.spec.exponential.choose(self.pool.stretched(here), source).tolist()
        pairs = zip(records, chosen, strict=True)
        return [Release(r.id, self.pool.texts[i], label=self.pool.labels[i], kept=r.kept) for r, i in pairs]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranker:
    """What compares private texts with the candidates.

    Attributes:
        read: texts as `Rows`.
        points: the candidates, as `read` gives them.
        digests: sha256 of what was trained.
        centre: what is taken off vectors before they are compared; none of words.
    """

    read: Callable[[Sequence[str]], Rows]
    points: Rows
    digests: Mapping[str, str]
    centre: Floats

    def cosines(self, rows: Rows) -> Ranks:
        """The cosine of each row with each candidate `(n, m)`, in whole steps of 2^-12: no float decides a rank."""
        found = rows @ self.points.T  # exact: whole numbers below 2^24
        dense = found if isinstance(found, np.ndarray) else found.toarray()
        return np.asarray(np.rint(dense * np.float32(STEPS / GRID**2)).astype(np.int16))


def words_ranker(texts: Sequence[str]) -> Ranker:
    """TF-IDF of lower-cased words, weighted as scikit-learn does; a word that no candidate has counts nothing."""
    position: dict[str, int] = {}
    for text in texts:
        for word in _words(text):
            position.setdefault(word, len(position))
    counts = _counts(texts, position)
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    weights = np.log((1 + len(texts)) / (1 + having)) + 1
    return Ranker(
        lambda found: _weighted(_counts(found, position), weights), _weighted(counts, weights), {}, np.empty(0)
    )


def _words(text: str) -> list[str]:
    return [word.lower() for line in tokenize(text) for word in line]


def _counts(texts: Sequence[str], position: Mapping[str, int]) -> sparse.csr_array:
    rows = [[position[word] for word in _words(text) if word in position] for text in texts]
    columns = np.array([column for row in rows for column in row], np.int64)
    starts = np.cumsum([0, *map(len, rows)])
    shape = (len(texts), max(1, len(position)))
    found = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
    found.sum_duplicates()
    return found


def _weighted(counts: sparse.csr_array, weights: Floats) -> sparse.csr_array:
    data, sizes = counts.data * weights[counts.indices], np.diff(counts.indptr)
    norms = np.sqrt(np.bincount(np.repeat(np.arange(len(sizes)), sizes), data**2, len(sizes)))
    whole = np.rint(data / np.repeat(norms, sizes) * GRID).astype(np.int32)
    return sparse.csr_array((whole, counts.indices, counts.indptr), shape=counts.shape)


def _ranker(spec: Candidates, texts: Sequence[str], saved: tuple[Singles, Floats] | None = None) -> Ranker:
    """What the spec ranks by; `saved` are points and centre of these texts."""
    if spec.ranker == "tfidf":
        return words_ranker(texts)
    from dptext.neural.sentence_encoder import load_sentence_encoder  # noqa: PLC0415 (an extra, slow to load)

    encoder = load_sentence_encoder(device=spec.device)

    def means(found: Sequence[str]) -> Floats:
        vectors = np.zeros((len(found), encoder.dim))
        for start in range(0, len(found), _DOCUMENTS_AT_ONCE):  # bounds the memory of the sentences
            parts = [sentences(text)[: spec.max_sentences] for text in found[start : start + _DOCUMENTS_AT_ONCE]]
            embeddings = encoder.embed([part for document in parts for part in document])
            vectors[start : start + len(parts)] = mean_by_document(embeddings, [len(document) for document in parts])
        return vectors

    def centred(vectors: Floats) -> Singles:
        return on_grid(np.where(vectors.any(axis=1, keepdims=True), vectors - centre, 0.0))

    if saved is None:
        own = means(texts)
        centre = own.mean(axis=0)
        points = centred(own)
    else:
        points, centre = saved
        if centre.shape != (encoder.dim,):
            raise ConfigError(f"Expected candidates of the encoder {encoder.name}. {_AGAIN}")
    return Ranker(lambda found: centred(means(found)), points, {"encoder": encoder.digest}, centre)
