"""Whole documents replaced by public ones: the baseline that every rewriting mechanism must beat.

A private text is compared with some thousand public candidates, and one candidate is released in its place: one of the
k nearest with most of the probability, any other with the rest. The smallest probability of each candidate is public
and set so that epsilon holds (derivations, "Best envelope"). A released text is fluent, because people wrote it; text
and label are protected as a whole.

    >>> from dptext.text.records import Record
    >>> public = [Record("0", "book a flight to Rome"), Record("1", "play some jazz"), Record("2", "what is the time")]
    >>> mechanism = Candidates(epsilon=3.0, ranker="tfidf", selection="top_k", k=1).fit(public=public)
    >>> found = mechanism.output_distribution(Record("3", "some quiet jazz, please"))
    >>> {text: round(chance, 3) for text, chance in found.items()}
    {'book a flight to Rome': 0.045, 'play some jazz': 0.909, 'what is the time': 0.045}
"""

import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import read_alone
from dptext.embeddings.likeness import GRID, STEPS
from dptext.embeddings.npy import read_pool, save_pool
from dptext.errors import ConfigError
from dptext.mechanism import UNSAID, OnProgress, Remarks, Traits, seen
from dptext.mechanisms.bases import FittedMechanism, OneEpsilon, blocks_of, check_choices, texts_in_play
from dptext.mechanisms.candidates.rankers import (
    OURS,
    RANKERS,
    WIDTH,
    CandidatePool,
    Ranker,
    Saved,
    check_ranker,
    enveloped,
    load_ranker,
    tuned,
)
from dptext.privacy import accounting
from dptext.privacy.events import ExponentialEvent, PureEvent
from dptext.privacy.guarantee import PUBLIC_CANDIDATES
from dptext.sampling.envelope import EnvelopeResponse
from dptext.sampling.exponential import Exponential
from dptext.sampling.randomness import Randomness
from dptext.sampling.top_k import LabelResponse, TopKRandomizedResponse
from dptext.text.batches import Batch, Releases
from dptext.text.column_types import as_typed, checked_types
from dptext.text.formats import Scalar, is_scalar
from dptext.text.inputs import reading_saved
from dptext.text.reading import as_records
from dptext.text.records import Record, Release, records_digest, require_labels
from dptext.types import Floats, Int16s

_FILES = "candidates"
_CHOSEN = ("k", "low", "high", "public", "given")  # fields of `CandidatePool` beside texts and labels
_DOCUMENTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Candidates(OneEpsilon):
    """Settings of replacing a document by a public candidate, chosen by likeness to the whole of it.

    Use:
        Take it first: each text is replaced by a public text of similar meaning, at one epsilon per text.
        Set first: epsilon, labels, ranker, k.

    Guarantee:
        Unit DOCUMENT, relation replace one: any two texts with any two labels give any candidate with probabilities
        whose ratio is at most e^epsilon. Nothing is revealed. CONDITIONAL: the candidates must be public.

        `envelope`: each candidate has a public minimum weight, which the record can raise by a factor of at most
        e^epsilon. The record decides only the order in which weights are raised (see `EnvelopeResponse`).

        `top_k`: a candidate has one of two probabilities, whose ratio is e^epsilon, and the record decides only which k
        have the larger one. `exponential`: log weights differ by at most d, which is public: the largest range whose
        cost is at most epsilon. For m candidates the cost is d + ln(((m - 1) e^d + 1) / (e^d + m - 1)) (derivations,
        "Scores within a range").

        A text without any known word is equally near to every candidate: the first candidates stand for the nearest.
        With `text` an empty text has a vector like any other.

        With `label_share` s two things are released: the label by randomized response with s * epsilon (see
        `label_response`), then the text by a choice with the rest. The text is chosen as above, but with the *released*
        label in the place of the private label: the choice reads the private text, never the private label. So
        P(label, text | record) = P(label | private label) P(text | private text, label), each factor with a ratio below
        its share; the shares add up to epsilon. Both are stated as one event, because a certificate holds one.

    Attributes:
        epsilon: the privacy loss of one document.
        labels: the public set of labels; empty for unlabelled text. The released label is the candidate's own, which is
            public (but see `label_share`). A missing or unknown private label matches no candidate.
        ranker: the comparison of texts.
            `text` compares embeddings of whole texts, and reads the first 256 pieces of words.
            `sentence` compares means of the embeddings of sentences, which reads long texts to their end.
            `distilled` compares with a linear model of words, fitted on the candidates, that predicts these means. Once
            fitted, the model reads a text more than a hundred times as fast. Fitting needs the sentence encoder,
            loading does not. A text without a known word has a direction, too.
            `tfidf` compares words.
            A ranker of a package, such as `adept` of dptext-lab, compares the vectors that a model of public text
            reads. It reads no label.
        candidates: the largest number of public texts in the pool.
        selection: how a candidate is chosen by likeness. `envelope` is tuned to epsilon on public text; at a small
            epsilon few texts are likely to be chosen. `top_k` and `exponential` have all texts of the pool in play.
        k: the number of nearest candidates that share the probability of `top_k`; 0 tunes k for epsilon on public text.
        label_weight: score added for an equal label; cosines are at most 1. With 3 an equal label always comes first; 0
            does not read labels. None means 0.1 if there are labels, which costs hardly any cosine. The record's label
            is the private label; with `label_share` the released label.
        max_sentences: the number of sentences of a text that `sentence` reads at most. With `distilled` the number
            limits candidates only; of other texts the first 4,096 words are read.
        ranker_model: folder of the model that the ranker of a package uses; the model must have been trained on public
            text. The fitted candidates keep a copy. Empty with a ranker of dptext.
        label_share: share of epsilon for the record's own label, below 1 (at least two `labels`); 0 releases the
            candidate's label, which costs nothing.
        device: where the encoder computes.
        precision: number format of the sentence encoder: auto, float32, bfloat16, or int8, which is the fastest and the
            least exact.
        carry: columns of the public texts that leave beside a candidate, such as slots or a rating. They are public,
            and cost nothing. Of a text that occurs twice with one label the first ones count.
        carry_types: names of their Arrow types, "" for texts; empty takes those of the public table.
    """

    epsilon: float
    labels: tuple[str, ...] = ()
    ranker: str = "text"
    candidates: int = 5000
    selection: Literal["envelope", "top_k", "exponential"] = "envelope"
    k: int = 0
    label_weight: float | None = None
    max_sentences: int = 64
    device: str = "cpu"
    ranker_model: str = ""
    label_share: float = 0.0
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    carry: tuple[str, ...] = field(default=(), metadata={UNSAID: True})
    carry_types: tuple[str, ...] = field(default=(), metadata={UNSAID: True})
    kind: Literal["candidates"] = field(default="candidates", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.count(candidates=self.candidates, max_sentences=self.max_sentences)
        _validate.within(2, 65_535, candidates=self.candidates)
        if self.label_weight is not None:
            _validate.within(0, 3, label_weight=self.label_weight)  # two cosines differ by 2 at most
        check_choices(self)
        check_ranker(self.ranker)
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 0 <= self.k < self.candidates:
            raise ConfigError(f"Expected k={self.k!r} to be an integer >= 0 below candidates={self.candidates}.")
        if self.k and self.selection != "top_k":
            raise ConfigError(f"Expected k={self.k} to be 0 with selection={self.selection!r}: only top_k has a k.")
        object.__setattr__(self, "labels", _validate.labels(self.labels))
        object.__setattr__(self, "carry", _validate.names(carry=self.carry))
        object.__setattr__(self, "carry_types", checked_types(self.carry_types, self.carry))
        if self.label_weight and not self.labels:
            raise ConfigError(
                f"Expected labels with label_weight={self.label_weight!r}, found none. Name the public set, as in "
                'labels=["bad", "good"], or set label_weight=0.'
            )
        if self.label_share != 0:
            _validate.within(0.001, 0.999, label_share=self.label_share)
            _validate.two_labels(self.labels, otherwise=", or set label_share=0")
        if not isinstance(self.ranker_model, str) or bool(self.ranker_model) != (self.ranker not in OURS):
            what = "empty" if self.ranker in OURS else f"the folder of {RANKERS[self.ranker].model},"
            raise ConfigError(f"Expected ranker_model={self.ranker_model!r} to be {what} with ranker={self.ranker!r}.")

    @property
    def traits(self) -> Traits:
        """The mechanism reads the label of a record if labels take part in the ranking or the release."""
        reads, trains = bool(self.weight or self.label_share), self.ranker in ("text", "sentence", "distilled")
        types = tuple((name, kind) for name, kind in zip(self.carry, self.carry_types, strict=False) if kind)
        return Traits(
            takes_pool=True, trains=trains, labels=self.labels, reads_labels=reads, carries=self.carry,
            carried_types=types,
        )  # fmt: skip

    @property
    def released(self) -> tuple[PureEvent | ExponentialEvent]:
        """The event of one release. The number of candidates, and k, are known only after fitting.

        A range of log weights costs more with more candidates, so the event of the largest pool holds for every pool.
        """
        if self.selection != "exponential" or self.label_share:
            return (PureEvent(self.epsilon),)
        return (self.exponential.range_event(self.candidates),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The candidates and the ranker's model are public."""
        match self.ranker:
            case "text" | "sentence":
                return (PUBLIC_CANDIDATES, *read_alone("sentence", self.device))
            case "tfidf" | "distilled":
                return (PUBLIC_CANDIDATES,)
            case _:
                return (PUBLIC_CANDIDATES, *RANKERS[self.ranker].assumptions(self.device))

    @property
    def weight(self) -> float:
        """The weight of an equal label."""
        return (0.1 if self.labels else 0.0) if self.label_weight is None else self.label_weight

    @property
    def label_response(self) -> LabelResponse | None:
        """Randomized response on the record's own label; None if the candidate's label is released."""
        return LabelResponse(self.epsilon * self.label_share, self.labels) if self.label_share else None

    @property
    def text_epsilon(self) -> float:
        """Epsilon of the choice of the text: epsilon less the label's share, rounded down."""
        response = self.label_response
        return self.epsilon if response is None else math.nextafter(self.epsilon - response.epsilon, 0.0)

    @property
    def exponential(self) -> Exponential:
        """The exponential mechanism for scores in [0, 2]."""
        return Exponential(_log_range(self.text_epsilon, self.candidates), score_range=WIDTH)

    def fit(
        self,
        *,
        public: Iterable[Record] = (),
        pool: Iterable[Record] | None = None,
        seed: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> "CandidatesMechanism":
        """Choose the candidates, and tune the choice on public records.

        The candidates come from the public records, or from a `pool` (such as the codebook of an ADePT). With a pool,
        the choice is tuned on the public records, if any. Each record has one of the labels if the spec has labels. A
        text that occurs twice with one label is one candidate; a blank text is none. The seed draws the
        candidates and is no secret; None draws a seed. `on_progress` is called as the encoder reads the candidates.

        ConfigError: too few records for k, a record without a known label, or no model of the ranker in `ranker_model`.
        DataError: a text cannot be written as UTF-8. MissingExtraError: the ranker's package is absent.
        """
        seed = secrets.randbits(32) if seed is None else seed
        known = as_records(public, keep=self.carry if pool is None else ())
        given = None if pool is None else as_records(pool, keep=self.carry)
        asked = self._checked(known, "public")
        offered = asked if given is None else self._checked(given, "pool")
        first = {(record.label, record.text): record for record in reversed(offered)}
        distinct = [first[each] for each in dict.fromkeys((r.label, r.text) for r in offered if r.text.strip())]
        order = np.random.default_rng(seed).permutation(len(distinct))
        chosen = [distinct[i] for i in np.sort(order[: self.candidates]).tolist()]
        fewest = max(2, self.k + 1)
        if len(chosen) < fewest:
            raise ConfigError(f"Expected at least {fewest} different public texts for k={self.k}, found {len(chosen)}.")
        texts, labels = tuple(record.text for record in chosen), tuple(record.label for record in chosen)
        digests = (records_digest(known), "" if given is None else records_digest(given))
        ranker = self._ranker(texts, Path(self.ranker_model), on_progress=on_progress)
        asked = [] if given is None else [record for record in asked if record.text.strip()]
        found = CandidatePool(texts, labels, self.k or 1, -STEPS, STEPS, *digests, carried=self._carried(chosen))
        if self.selection == "envelope":
            epsilon, response = self.text_epsilon, self.label_response
            found = enveloped(
                found, ranker, asked, epsilon=epsilon, label_weight=self.weight, response=response, seed=seed
            )
        elif not self.k:
            choice = self.text_epsilon if self.selection == "top_k" else self.exponential
            found = tuned(found, ranker, asked, choice=choice, label_weight=self.weight, seed=seed)
        return CandidatesMechanism(self, found, ranker)

    def _ranker(
        self, texts: Sequence[str], folder: Path, saved: Saved | None = None, on_progress: OnProgress | None = None
    ) -> Ranker:
        # An envelope's gain is the cosine itself; other choices use only ranks or differences of cosines.
        centred = self.selection != "envelope" or self.ranker not in OURS
        how: dict[str, Any] = {"device": self.device, "precision": self.precision, "max_sentences": self.max_sentences}
        return load_ranker(self.ranker, texts, folder, centred=centred, saved=saved, on_progress=on_progress, **how)

    def _carried(self, chosen: Sequence[Record]) -> dict[str, tuple[Scalar, ...]]:
        if any(name not in record.kept for record in chosen for name in self.carry):
            raise ConfigError(f"Expected public records that keep {', '.join(self.carry)}, as carry={self.carry!r}.")
        found = {name: tuple(record.kept[name] for record in chosen) for name in self.carry}
        for name, kind in self.traits.carried_types:
            as_typed(found[name], kind)  # before a charge: a value that does not fit would end a run
        return found

    def _checked(self, given: list[Record], name: str) -> list[Record]:
        require_labels(given, self.labels, name)
        return given if self.labels else [replace(record, label=None) for record in given]

    def load(self, folder: Path) -> "CandidatesMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        with reading_saved(f"the candidates in {folder}"):
            has_points = self.ranker != "tfidf"
            read, described, points = read_pool(
                folder, _FILES, labels=self.labels, dtype=np.int16, with_vectors=has_points
            )
            chosen: dict[str, Any] = {name: described[name] for name in _CHOSEN}
            if self.selection == "envelope":
                chosen |= {"least": tuple(described["least"]), "total": described["total"]}
            chosen["carried"] = {name: tuple(values) for name, values in described.get("carried", {}).items()}
            pool = CandidatePool(read.texts, read.labels, **chosen)
            middle = np.array(described["centre"], np.float64)
            if not (
                described["ranker"] == self.ranker
                and all(isinstance(number, int) for number in (pool.low, pool.high))
                and -STEPS <= pool.low < pool.high <= 4 * STEPS
                and all(isinstance(digest, str) for digest in (pool.public, pool.given))
                and len(pool) <= self.candidates  # the epsilon of `exponential` was computed for at most this many
                and (self.k or pool.k) == pool.k
                and all(type(number) is int for number in (*pool.least, pool.total))
                and len(pool.least) == (len(pool) if self.selection == "envelope" else 0)
                and tuple(pool.carried) == self.carry
                and all(len(values) == len(pool) for values in pool.carried.values())
                and all(is_scalar(value) for values in pool.carried.values() for value in values)
                and bool(np.isfinite(middle).all())
                and points.shape == (len(pool), *middle.shape)
                and bool((np.abs(points.astype(np.int32)) <= GRID).all())
            ):
                raise ValueError
            if pool.least:
                _ = _envelope(self, pool)
        return CandidatesMechanism(self, pool, self._ranker(pool.texts, folder, (points.astype(np.float32), middle)))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Few candidates of the sample corpus, ranked by words, for each selection, and one spec with `label_share`."""
        small = cls(epsilon=2.0, labels=("health", "travel", "money", "leisure"), ranker="tfidf", candidates=40)
        weighing = replace(small, selection="top_k", label_weight=1.0)
        exponential = replace(small, labels=(), selection="exponential", label_weight=0.0)
        return weighing, exponential, replace(weighing, label_share=0.5), small


def _envelope(spec: Candidates, pool: CandidatePool) -> EnvelopeResponse:
    return EnvelopeResponse(spec.text_epsilon, np.array(pool.least, np.int64), pool.total)


@lru_cache(maxsize=256)
def _log_range(epsilon: float, size: int) -> float:
    if epsilon < 1e-12:  # a range d of log weights costs at most 2 d, for any number of candidates
        return epsilon / 2 * (1 - 2.0**-40)
    return accounting.calibrate(ExponentialEvent(1.0, size), epsilon).log_range


class CandidatesMechanism(FittedMechanism[Candidates]):
    """`Candidates` with its pool. Immutable; every output's probability is known (`HasDistribution`)."""

    __slots__ = ("_digest", "_ranker", "pool")

    def __init__(self, spec: Candidates, pool: CandidatePool, ranker: Ranker) -> None:
        super().__init__(spec)
        self.pool, self._ranker = pool, ranker
        found = json.dumps([*pool.described().values(), ranker.centre.tolist()]).encode()
        if ranker.centre.size:
            found += np.asarray(ranker.points, "<i2").tobytes()
        self._digest = hashlib.sha256(found).hexdigest()

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the candidates with the tuned choice, of the public texts and the pool, and of the ranker."""
        texts = {"public": self.pool.public, "pool": self.pool.given}
        given = {name: digest for name, digest in texts.items() if digest}
        return {"candidates": self._digest, **given, **self._ranker.digests}

    def save(self, folder: Path) -> None:
        """Write the candidates and the ranker into an existing folder."""
        described = {"ranker": self.spec.ranker, **self.pool.described(), "centre": self._ranker.centre.tolist()}
        # A ranker by words stores no points: they follow from the texts.
        points = np.asarray(self._ranker.points, np.int16) if self._ranker.centre.size else None
        save_pool(folder, _FILES, described, points)
        self._ranker.save(folder)

    def _cosines(self, records: Sequence[Record]) -> Int16s:
        return self._ranker.cosines(self._ranker.read(Batch.of(records).texts))

    def scores(self, records: Sequence[Record]) -> Int16s:
        """Score each record, by its own label, against every candidate `(n_records, m)`, in steps of 2^-12: private.

        With `label_share` the released label replaces the record's own label before a text is chosen.
        """
        return self._scores(self._cosines(records), Batch.of(records).labels)

    def _scores(self, cosines: Int16s, labels: Sequence[str | None]) -> Int16s:
        return self.pool.scores(cosines, labels, self.spec.weight)

    @property
    def choice(self) -> EnvelopeResponse | TopKRandomizedResponse | Exponential:
        """The choice among the candidates; the exponential choice reads `stretched` scores."""
        match self.spec.selection:
            case "envelope":
                return _envelope(self.spec, self.pool)
            case "top_k":
                return TopKRandomizedResponse(self.spec.text_epsilon, self.pool.k, len(self.pool))
            case "exponential":
                return self.spec.exponential

    def remarks(self) -> Remarks:
        """Remark on the number of candidates that are really in play."""
        return texts_in_play(self.choice, len(self.pool))

    def _by_likeness(self, scores: Int16s) -> Int16s | Floats:
        return self.pool.stretched(scores) if self.spec.selection == "exponential" else scores

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of each text; with labels the keys are label, U+001F and text. Equal outputs are added up."""
        cosines, response = self._cosines([record]), self.spec.label_response
        drawn: Iterable[tuple[str | None, float]] = [(record.label, 1.0)]
        if response is not None:
            drawn = zip(response.labels, response.distribution(record.label).tolist(), strict=True)
        found: dict[str, float] = {}
        for label, first in drawn:
            scores = self._scores(cosines, [label])
            chances = self.choice.distribution(self._by_likeness(scores))[0]
            for text, own, chance in zip(self.pool.texts, self.pool.labels, chances.tolist(), strict=True):
                out = own if response is None else label
                key = seen(Release("", text, out))
                found[key] = found.get(key, 0.0) + first * chance
        return found

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one public candidate per record.

        The label is the candidate's, or with `label_share` the record's after randomized response.
        """
        batch = Batch.of(records)
        cosines, response, choice = self._cosines(batch), self.spec.label_response, self.choice
        drawn: list[int] = []
        given: list[str | None] = []
        for source, here in blocks_of(randomness, [1] * len(batch), _DOCUMENTS_AT_ONCE):
            labels = list(batch.labels[here])
            if response is not None:
                labels = [response.labels[i] for i in response.choose(labels, source).tolist()]
            scores = self._scores(cosines[here], labels)
            chosen = choice.choose(self._by_likeness(scores), source).tolist()
            drawn += chosen
            given += labels if response is not None else [self.pool.labels[i] for i in chosen]
        released = batch.released([self.pool.texts[i] for i in drawn], labels=given)
        return released.carrying({name: [of[i] for i in drawn] for name, of in self.pool.carried.items()})
