"""Whole documents replaced by public ones: the baseline that every rewriting mechanism must beat.

A private text is compared with some thousand public candidates, and one of them leaves in its place: one of the k
nearest with most of the probability, any other with the rest (top-k randomized response, MATHS 1.4). What leaves is
fluent, because people wrote it, and text and label are protected as a whole.

    >>> from dptext.text.records import Record
    >>> public = [Record("0", "book a flight to Rome"), Record("1", "play some jazz"), Record("2", "what is the time")]
    >>> mechanism = Candidates(epsilon=3.0, ranker="tfidf", k=1).fit(public=public)
    >>> found = mechanism.output_distribution(Record("3", "some quiet jazz, please"))
    >>> {text: round(chance, 3) for text, chance in found.items()}
    {'book a flight to Rome': 0.045, 'play some jazz': 0.909, 'what is the time': 0.045}
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from tokenize import TokenError
from typing import Literal, Self, assert_never

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import ALONE
from dptext.embeddings.likeness import GRID, STEPS
from dptext.embeddings.npy import read_array
from dptext.errors import ConfigError
from dptext.mechanism import Traits
from dptext.mechanisms.bases import FittedMechanism, OneEpsilon
from dptext.mechanisms.candidates import rankers as ranking
from dptext.mechanisms.candidates.rankers import PUBLIC_AUTOENCODER, Ranker, Saved
from dptext.privacy import accounting
from dptext.privacy.events import ExponentialEvent, PureEvent
from dptext.privacy.guarantee import PUBLIC_CANDIDATES
from dptext.sampling.exponential import Exponential
from dptext.sampling.label_response import LabelResponse
from dptext.sampling.source import Randomness
from dptext.sampling.top_k import TopKRandomizedResponse, agreement, best_number
from dptext.text.batches import Batch, Releases
from dptext.text.files import create_private
from dptext.text.formats import string_fault
from dptext.text.records import Record, records_digest, require_labels
from dptext.types import Booleans, Floats, Int16s

_ASSUMED = {"sentence": (ALONE,), "tfidf": (), "adept": (PUBLIC_AUTOENCODER,)}
_CHOICES = {"ranker": tuple(_ASSUMED), "selection": ("top_k", "exponential")}
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
class Candidates(OneEpsilon):
    """Settings of a document replaced by a public candidate, chosen by likeness to the whole of it.

    Guarantee:
        Unit DOCUMENT, relation replace one: any two texts with any two labels give any candidate with probabilities
        whose ratio is at most e^epsilon. Nothing is revealed. CONDITIONAL: the candidates must be public.

        `top_k`: a candidate has one of two probabilities, whose ratio is e^epsilon, and the record decides only which k
        have the larger one. `exponential`: log weights lie in a public range d, as large as epsilon allows: for m
        candidates that costs d + ln(((m - 1) e^d + 1) / (e^d + m - 1)) (MATHS 1.4).

        A text in which nothing is known is as near to every candidate: the first ones stand for the nearest.

        With `label_share` s two things leave: the label by randomized response with s * epsilon (see
        `label_response`), then the text by a choice with the rest. That choice is as above for each label that
        may have left: it reads the private text and the *released* label, never the private one. So
        P(label, text | record) = P(label | private label) P(text | private text, label), each factor with a ratio
        below its share, and the shares add up to epsilon: the event of both, as a certificate has room for one.

    Attributes:
        epsilon: the privacy loss of one document.
        labels: the public set of labels; empty for unlabelled text. The label that is released is the candidate's own,
            which is public (but see `label_share`). A missing or unknown private label equals none.
        ranker: `sentence` compares means of sentence embeddings (extra `[sbert]`), an utterance being its own only
            sentence; `tfidf` compares words; `adept` clipped latents of an auto-encoder, read without a label, of as
            many words as the auto-encoder reads (an empty text has a latent like any other).
        candidates: public texts in the pool at most.
        selection: of the candidate.
        k: of `top_k`, how many of the nearest share the probability; 0 takes the best for this epsilon on public text.
        label_weight: what an equal label counts against a cosine of at most 1; 3 puts labels first, 0 does not read
            them. The label of the record is the private one; with `label_share` the one that is released.
        max_sentences: the number of sentences of a text that `sentence` reads at most.
        device: of the encoder.
        adept: folder of a model of `dptext fit --mechanism adept`, whose encoder is used by `adept`; it must have been
            trained on public text. The fitted candidates keep a copy.
        label_share: of epsilon, below 1, for the record's own label (at least two `labels`); 0 releases the
            candidate's label, which costs nothing.
    """

    epsilon: float
    labels: tuple[str, ...] = ()
    ranker: Literal["sentence", "tfidf", "adept"] = "sentence"
    candidates: int = 5000
    selection: Literal["top_k", "exponential"] = "top_k"
    k: int = 0
    label_weight: float = 0.0
    max_sentences: int = 64
    device: str = "cpu"
    adept: str = ""
    label_share: float = 0.0
    kind: Literal["candidates"] = field(default="candidates", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.count(candidates=self.candidates, max_sentences=self.max_sentences)
        _validate.within(2, 65_535, candidates=self.candidates)
        _validate.within(0, 3, label_weight=self.label_weight)  # two cosines differ by 2 at most
        for name, known in _CHOICES.items():
            _validate.one_of(known, **{name: getattr(self, name)})
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 0 <= self.k < self.candidates:
            raise ConfigError(f"Expected k={self.k!r} to be an integer >= 0 below candidates={self.candidates}.")
        if self.k and self.selection != "top_k":
            raise ConfigError(f"Expected k={self.k} to be 0 with selection={self.selection!r}: only top_k has a k.")
        object.__setattr__(self, "labels", _validate.labels(self.labels))
        if self.label_weight and not self.labels:
            raise ConfigError(f"Expected labels with label_weight={self.label_weight!r}: name the public set.")
        if self.label_share != 0:
            _validate.within(0.001, 0.999, label_share=self.label_share)
            if len(self.labels) < 2:
                raise ConfigError(f"Expected two labels or more with label_share={self.label_share!r}: name the set.")
        if not isinstance(self.adept, str) or bool(self.adept) != (self.ranker == "adept"):
            raise ConfigError(
                f"Expected adept={self.adept!r} to name a folder with ranker='adept', and none with another: fit an "
                "auto-encoder on public text with `dptext fit --mechanism adept` and give its folder."
            )

    @property
    def traits(self) -> Traits:
        """It reads the label of a record where that counts for anything."""
        reads = bool(self.label_weight or self.label_share)
        return Traits(takes_pool=True, labels=self.labels, reads_labels=reads)

    @property
    def released(self) -> tuple[PureEvent | ExponentialEvent]:
        """One release. How many candidates there are, and k, is known only when they are chosen.

        A range costs the more the more candidates there are, so the event of the largest pool holds for every one.
        """
        if self.selection == "top_k" or self.label_share:
            return (PureEvent(self.epsilon),)
        return (self.exponential.range_event(self.candidates),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The candidates and what ranks them are public."""
        return (PUBLIC_CANDIDATES, *_ASSUMED[self.ranker])

    @property
    def label_response(self) -> LabelResponse | None:
        """What releases the record's own label; None where the candidate's leaves."""
        return LabelResponse(self.epsilon * self.label_share, self.labels) if self.label_share else None

    @property
    def text_epsilon(self) -> float:
        """Of the choice of the text: what the label leaves of epsilon, rounded down."""
        response = self.label_response
        return self.epsilon if response is None else math.nextafter(self.epsilon - response.epsilon, 0.0)

    @property
    def exponential(self) -> Exponential:
        """The exponential choice among scores in [0, 2]."""
        return Exponential(_log_range(self.text_epsilon, self.candidates), score_range=_WIDTH)

    def fit(
        self, *, public: Iterable[Record] = (), pool: Iterable[Record] | None = None, seed: int | None = None
    ) -> CandidatesMechanism:
        """Choose the candidates, and tune on public records what the choice needs.

        A text that occurs twice with one label is one candidate. A blank text is not a candidate.

        Args:
            public: records, each with one of the labels where there are labels; the candidates come from them.
            pool: public records from which the candidates come instead, such as the codebook of an ADePT, labelled as
                `public`: on `public`, if there is any, only k or the range of scores is then tuned.
            seed: of the choice of candidates; drawn at random where None. It is no secret.

        Raises:
            ConfigError: too few records for k, one without a known label, or one that cannot be written as UTF-8; the
                folder of `adept` holds no auto-encoder.
            MissingExtraError: what the ranker needs is not installed.
        """
        seed = secrets.randbits(32) if seed is None else seed
        known, given = list(public), None if pool is None else list(pool)
        asked = self._checked(known, "public")
        offered = asked if given is None else self._checked(given, "pool")
        distinct = list({(record.label, record.text): record for record in offered if record.text.strip()}.values())
        order = np.random.default_rng(seed).permutation(len(distinct))
        chosen = [distinct[i] for i in np.sort(order[: self.candidates]).tolist()]
        fewest = max(2, self.k + 1)
        if len(chosen) < fewest:
            raise ConfigError(f"Expected at least {fewest} different public texts for k={self.k}, found {len(chosen)}.")
        texts, labels = tuple(record.text for record in chosen), tuple(record.label for record in chosen)
        digests = (records_digest(known), "" if given is None else records_digest(given))
        ranker = _ranker(self, texts, Path(self.adept))
        asked = [] if given is None else [record for record in asked if record.text.strip()]
        found = _tuned(self, Pool(texts, labels, 1, -STEPS, STEPS, *digests), ranker, asked, seed)
        return CandidatesMechanism(self, found, ranker)

    def _checked(self, given: list[Record], name: str) -> list[Record]:
        """The records, without labels where there are none in the settings."""
        require_labels(given, self.labels, name)
        for number, record in enumerate(given, start=1):
            if fault := string_fault(record.text):
                raise ConfigError(f"Expected {name} record {number} to hold text: its text {fault}.")
        return given if self.labels else [replace(record, label=None) for record in given]

    def load(self, folder: Path) -> CandidatesMechanism:
        """The mechanism that was saved into the folder under this spec.

        Raises:
            ConfigError: a file is absent, truncated, edited or of another spec.
            MissingExtraError: what the ranker needs is not installed.
        """
        try:
            described = json.loads((folder / _POOL_FILE).read_bytes())
            texts, labels, k, low, high, public, given, centre = (described[key] for key in _SAVED)
            pool = Pool(tuple(texts), tuple(labels), k, low, high, public, given)
            middle = np.array(centre, np.float64)
            points = np.empty((len(texts), 0), np.int16)
            if self.ranker != "tfidf":
                with (folder / _POINTS_FILE).open("rb") as file:
                    points = read_array(file)
            right = (
                described["ranker"] == self.ranker
                and _belongs(pool, self)
                and bool(np.isfinite(middle).all())
                and points.dtype == np.int16
                and points.shape == (len(texts), *middle.shape)
                and bool((np.abs(points.astype(np.int32)) <= GRID).all())
            )
        except OSError as error:
            raise ConfigError(f"Cannot read the candidates in {folder}: {error.strerror or 'cut short'}.") from error
        except _BROKEN as error:
            raise ConfigError(f"The candidates in {folder} were cut short or edited. {_AGAIN}") from error
        if not right:
            raise ConfigError(f"The candidates in {folder} were edited, or are of another spec. {_AGAIN}")
        return CandidatesMechanism(self, pool, _ranker(self, pool.texts, folder, (points.astype(np.float32), middle)))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Few candidates of the sample corpus, ranked by words, chosen in both ways, and with the own label."""
        small = cls(epsilon=2.0, labels=("health", "travel", "money", "leisure"), ranker="tfidf", candidates=40)
        weighing = replace(small, label_weight=1.0)
        return weighing, replace(small, labels=(), selection="exponential"), replace(weighing, label_share=0.5)


@lru_cache(maxsize=256)
def _log_range(epsilon: float, size: int) -> float:
    """The largest range of the log weights of `size` options that costs at most epsilon."""
    if epsilon < 1e-12:  # a range never costs more than twice itself
        return epsilon / 2 * (1 - 2.0**-40)
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
        public: digest of the public records.
        given: digest of the pool, where the candidates come from one.
    """

    texts: tuple[str, ...]
    labels: tuple[str | None, ...]
    k: int = 1
    low: int = -STEPS
    high: int = STEPS
    public: str = ""
    given: str = ""

    def stretched(self, scores: Int16s) -> Floats:
        """Scores cut to [low, high] and laid on [0, 2]."""
        return (np.clip(scores, self.low, self.high).astype(np.float64) - self.low) / (self.high - self.low) * _WIDTH


_SAVED = ("texts", "labels", "k", "low", "high", "public", "given", "centre")


def _belongs(pool: Pool, spec: Candidates) -> bool:
    """Whether a pool that was read can be one of this spec's; the cost of a range rests on its size."""
    return (
        all(isinstance(number, int) for number in (pool.k, pool.low, pool.high))
        and -STEPS <= pool.low < pool.high <= 4 * STEPS
        and all(isinstance(text, str) for text in (*pool.texts, pool.public, pool.given))
        and len(pool.texts) == len(pool.labels)
        and 1 <= pool.k < len(pool.texts) <= spec.candidates
        and (spec.k or pool.k) == pool.k
        and set(pool.labels) <= ({*spec.labels} if spec.labels else {None})
    )


def _scores(spec: Candidates, pool: Pool, cosines: Int16s, labels: Sequence[str | None]) -> Int16s:
    """Cosine plus `label_weight` where the labels agree, `(n, m)`, in whole steps of 2^-12."""
    if not spec.label_weight:
        return cosines
    return cosines + agreement(pool.labels, labels) * np.int16(round(spec.label_weight * STEPS))


def _tuned(spec: Candidates, pool: Pool, ranker: Ranker, public: Sequence[Record], seed: int) -> Pool:
    """The pool with the k, or the range of scores, that keeps most for this epsilon, by public records.

    What is kept: cosine, and where there are labels the share of those kept. A text does not count for itself. Without
    public records the candidates stand for them.
    """
    size = len(pool.texts)
    every = [(r.text, r.label) for r in public] or [*zip(pool.texts, pool.labels, strict=True)]
    rows = np.sort(np.random.default_rng(seed).permutation(len(every))[:_QUERIES])
    asked = [every[i] for i in rows.tolist()]
    labels = [label for _, label in asked]
    read = ranker.read([text for text, _ in asked]) if public else ranker.points[rows]
    cosines = ranker.cosines(read)
    scores, gains = _scores(spec, pool, cosines, labels), cosines / STEPS + agreement(pool.labels, labels)
    place = {candidate: i for i, candidate in enumerate(zip(pool.texts, pool.labels, strict=True))}
    own = np.array([place.get(one, -1) for one in asked])[:, None] == np.arange(size)[None, :]
    if spec.selection == "top_k":
        return replace(pool, k=spec.k or best_number(scores, gains, own, spec.text_epsilon))
    gains[own] = 0.0
    widest = STEPS + round(spec.label_weight * STEPS)
    low, high = (np.quantile(scores[~own], at, method="nearest").tolist() for at in (_LOW, _HIGH))
    pools = [replace(pool, low=a, high=b) for a, b in [(-STEPS, widest), *product(low, high)] if a < b]
    return max(pools, key=lambda tried: _expected_by_weight(spec, tried.stretched(scores), gains, own))


def _expected_by_weight(spec: Candidates, scores: Floats, gains: Floats, own: Booleans) -> float:
    weights = np.where(own, 0.0, np.exp((scores - _WIDTH) * (spec.exponential.epsilon / 2)))
    return float(((weights * gains).sum(axis=1) / weights.sum(axis=1)).mean())


class CandidatesMechanism(FittedMechanism[Candidates]):
    """`Candidates` with its pool. Immutable; every output's probability is known (`HasDistribution`).

    Attributes:
        spec: the settings.
        pool: the candidates.
    """

    __slots__ = ("_ranker", "pool")

    def __init__(self, spec: Candidates, pool: Pool, ranker: Ranker) -> None:
        super().__init__(spec)
        self.pool = pool
        self._ranker = ranker

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the candidates with what was chosen on them, of the public texts and the pool, of what ranks."""
        found = json.dumps([*asdict(self.pool).values(), self._ranker.centre.tolist()]).encode()
        if self._ranker.centre.size:
            found += np.asarray(self._ranker.points, "<i2").tobytes()
        texts = {"public": self.pool.public, "pool": self.pool.given}
        given = {name: digest for name, digest in texts.items() if digest}
        return {"candidates": hashlib.sha256(found).hexdigest(), **given, **self._ranker.digests}

    def save(self, folder: Path) -> None:
        """Write the candidates and what ranks them into an existing folder."""
        described = {"ranker": self.spec.ranker, **asdict(self.pool), "centre": self._ranker.centre.tolist()}
        with create_private(folder / _POOL_FILE) as file:
            file.write(json.dumps(described).encode())
        if self._ranker.centre.size:  # of words all follows from the texts
            with create_private(folder / _POINTS_FILE) as file:
                np.lib.format.write_array(file, np.asarray(self._ranker.points, np.int16))
        self._ranker.save(folder)

    def _cosines(self, records: Sequence[Record]) -> Int16s:
        return self._ranker.cosines(self._ranker.read(Batch.of(records).texts))

    def scores(self, records: Sequence[Record]) -> Int16s:
        """How near each record, by its own label, is to every candidate `(n_records, m)`, in steps of 2^-12: private.

        With `label_share` the label that is released takes the place of the own one before a text is chosen.
        """
        return _scores(self.spec, self.pool, self._cosines(records), Batch.of(records).labels)

    @property
    def _top_k(self) -> TopKRandomizedResponse:
        return TopKRandomizedResponse(self.spec.text_epsilon, self.pool.k, len(self.pool.texts))

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of each text; with labels, of label, U+001F and text. Equal ones are added up."""
        cosines, response = self._cosines([record]), self.spec.label_response
        drawn: Iterable[tuple[str | None, float]] = [(record.label, 1.0)]
        if response is not None:
            drawn = zip(response.labels, response.distribution(record.label).tolist(), strict=True)
        found: dict[str, float] = {}
        for label, first in drawn:
            scores = _scores(self.spec, self.pool, cosines, [label])
            if self.spec.selection == "top_k":
                chances = self._top_k.distribution(scores)[0]
            else:
                chances = self.spec.exponential.distribution(self.pool.stretched(scores))[0]
            for text, own, chance in zip(self.pool.texts, self.pool.labels, chances.tolist(), strict=True):
                out = own if response is None else label
                key = text if out is None else f"{out}\x1f{text}"
                found[key] = found.get(key, 0.0) + first * chance
        return found

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """One public candidate a record, with its own label, or with the record's by randomized response."""
        batch = Batch.of(records)
        cosines, response = self._cosines(batch), self.spec.label_response
        texts: list[str] = []
        given: list[str | None] = []
        for source, n in randomness.blocks([1] * len(batch), _DOCUMENTS_AT_ONCE):
            here = slice(len(texts), len(texts) + n)
            labels = list(batch.labels[here])
            if response is not None:
                labels = [response.labels[i] for i in response.choose(labels, source).tolist()]
            scores = _scores(self.spec, self.pool, cosines[here], labels)
            if self.spec.selection == "top_k":
                chosen = self._top_k.choose(scores, source).tolist()
            else:
                chosen = self.spec.exponential.choose(self.pool.stretched(scores), source).tolist()
            texts += [self.pool.texts[i] for i in chosen]
            given += labels if response is not None else [self.pool.labels[i] for i in chosen]
        return batch.released(texts, labels=given)


def _ranker(spec: Candidates, texts: Sequence[str], folder: Path, saved: Saved | None = None) -> Ranker:
    """What the spec ranks by; `saved` are points and centre of these texts, `folder` holds an auto-encoder."""
    match spec.ranker:
        case "tfidf":
            return ranking.words_ranker(texts)
        case "sentence":
            return ranking.sentences_ranker(texts, max_sentences=spec.max_sentences, device=spec.device, saved=saved)
        case "adept":
            return ranking.latents_ranker(texts, folder, device=spec.device, saved=saved)
        case _:
            assert_never(spec.ranker)
