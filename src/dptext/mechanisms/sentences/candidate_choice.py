"""Choosing a public document in the place of a private one, with each of its sentences protected.

The utility of a candidate has sensitivity 1 under replacement of one sentence. From this follow the choice, its
guarantees, the fit and the files, whatever the utility is. `CandidateSpec` and `CandidateMechanism` have all of these.
"""

import secrets
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import read_alone
from dptext.errors import IncomparableError
from dptext.mechanism import Traits, seen
from dptext.mechanisms.bases import Lazy, OnModel, bisected, blocks_of, check_choices, settings_for
from dptext.privacy import accounting
from dptext.privacy.events import Event, PureEvent
from dptext.privacy.guarantee import PUBLIC_CANDIDATES, Basis, Guarantee, Relation, Unit
from dptext.sampling.exponential import Exponential, PermuteAndFlip
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.text.tokens import SENTENCE_COUNT, sentences
from dptext.types import Floats, Integers

if TYPE_CHECKING:
    from dptext.mechanisms.sentences import candidate_fit, document_candidates
    from dptext.mechanisms.sentences.candidate_fit import FitScores
    from dptext.mechanisms.sentences.document_candidates import Arrays, CandidateSettings, FittedCandidates, Scores
else:
    candidate_fit = Lazy("dptext.mechanisms.sentences.candidate_fit")
    document_candidates = Lazy("dptext.mechanisms.sentences.document_candidates")

_DOCUMENTS_AT_ONCE = 32


class CandidateSpec:
    """Settings of replacing a document by a public candidate; each sentence of the document is protected.

    A subclass is a dataclass with these settings and with those of its scores; `dptext.DeepCandidate` explains each. It
    calls `_check` in `__post_init__`.
    """

    __slots__ = ()

    epsilon: float
    labels: tuple[str, ...]
    selection: Literal["exponential", "permute_and_flip"]
    relation: Literal["replace_one", "add_or_remove_one"]
    candidates: int
    min_sentences: int
    max_sentences: int
    output: Literal["text", "embedding", "both"]
    encoder: str
    precision: Literal["auto", "float32", "bfloat16", "int8"]
    device: str

    def _check(self) -> None:
        """Raise ConfigError for a setting that has no choice, and make `labels` a tuple."""
        _validate.positive(epsilon=self.epsilon)
        _validate.count(candidates=self.candidates, min_sentences=self.min_sentences)
        _validate.within(2, 65_535, candidates=self.candidates)
        _validate.within(0, 65_535, max_sentences=self.max_sentences)
        check_choices(self)
        object.__setattr__(self, "labels", _validate.labels(self.labels))

    @property
    @abstractmethod
    def scored_by(self) -> tuple[str, ...]:
        """The settings that say which scores are fitted; a model of other scores is refused."""

    @property
    @abstractmethod
    def largest_utility(self) -> int:
        """The largest utility that a document of `max_sentences` can have; 0 without a maximum."""

    @abstractmethod
    def _fit_scores(self, seed: int) -> "FitScores":
        """The function that fits the scores to public documents."""

    @abstractmethod
    def _read_scores(self, found: "Arrays", dim: int, classes: Integers) -> "Scores":
        """The scores that were saved; see `load_candidates`."""

    @property
    def traits(self) -> Traits:
        """The label of a release is the candidate's, whatever the private record's label is."""
        text, vectors = self.output != "embedding", self.output != "text"
        return Traits(takes_pool=True, labels=self.labels, releases_text=text, releases_vectors=vectors)

    @property
    def units(self) -> tuple[Unit, ...]:
        """SENTENCE, and DOCUMENT if documents have a public maximum of sentences."""
        return (Unit.SENTENCE, Unit.DOCUMENT) if self.max_sentences else (Unit.SENTENCE,)

    @property
    def choice(self) -> Exponential | PermuteAndFlip:
        """The choice among candidates, for utilities of sensitivity 1.

        One more sentence can only raise a utility, by 1 at most. So for adding or removing a sentence, weights of
        e^(epsilon * utility) are epsilon-DP: twice the exponent that replacing a sentence allows (derivations, "Depths
        and sums"). A document that is cut at `max_sentences` is the exception: when it gains a sentence, it may lose
        another.
        """
        grows = self.relation == "add_or_remove_one" and not self.max_sentences
        sensitivity = 0.5 if grows else 1.0
        kind = Exponential if self.selection == "exponential" else PermuteAndFlip
        return kind(self.epsilon, sensitivity, self.largest_utility or None)

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """Return the event of one choice; IncomparableError for another unit, or DOCUMENT without `max_sentences`."""
        if unit is Unit.SENTENCE:
            return (PureEvent(self.epsilon),)
        if unit is not Unit.DOCUMENT or not self.max_sentences:
            raise IncomparableError(
                f"Expected unit sentence, or document with max_sentences > 0, found {unit.value} with "
                f"max_sentences={self.max_sentences}: set a public maximum to lift the guarantee to documents."
            )
        choice = self.choice
        if not self.largest_utility:  # one sentence has no depth: all candidates are equally likely
            return (PureEvent(0.0),)
        return (choice.range_event(self.candidates) if isinstance(choice, Exponential) else choice.range_event(),)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """Return the guarantee of one release of one document."""
        unit = unit or Unit.SENTENCE
        one = unit is Unit.SENTENCE
        relation = Relation(self.relation) if one else Relation.REPLACE_ONE
        assumed = (PUBLIC_CANDIDATES, *read_alone(self.encoder, self.device))
        shown = (SENTENCE_COUNT,) if one and self.relation == "replace_one" else ()
        terms: dict[str, Any] = {"basis": Basis.CONDITIONAL, "assumptions": assumed, "reveals": shown}
        return accounting.guarantee(self.events(unit), delta, unit=unit, relation=relation, **terms)

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Self:
        """Return the spec with the largest epsilon whose guarantee for the unit costs at most `epsilon` at delta.

        The spec's epsilon is at most 2^20 times `epsilon`. IncomparableError: nothing is known for this unit.
        """
        unit = unit or Unit.SENTENCE
        self.events(unit)
        if unit is Unit.SENTENCE:
            return self._at(epsilon)
        _validate.positive(epsilon=epsilon)
        low, high = 0.0, epsilon
        while self._at(high).guarantee(unit, delta).epsilon <= epsilon and high < 2.0**20 * epsilon:
            high *= 2
        return bisected(self, epsilon, low, high, rounds=60, unit=unit, delta=delta)

    def _at(self, epsilon: float) -> Self:
        return replace(self, epsilon=epsilon)  # type: ignore[type-var]  # every spec is a dataclass

    def _fitted(self, public: Iterable[Record], pool: Iterable[Record] | None, seed: int | None) -> "FittedCandidates":
        """The candidates, chosen, fitted and tuned by public text; None draws a seed. See `DeepCandidate.fit`."""
        seed = secrets.randbits(32) if seed is None else seed
        offered = None if pool is None else as_records(pool)
        fit_scores = self._fit_scores(seed)
        return candidate_fit.fit_candidates(
            self._settings, as_records(public), offered, fit_scores=fit_scores, seed=seed
        )

    def _loaded(self, folder: Path) -> "FittedCandidates":
        return document_candidates.load_candidates(self._settings, folder, self._read_scores)

    @property
    def _settings(self) -> "CandidateSettings":
        return settings_for(document_candidates.CandidateSettings, self)


class CandidateMechanism(OnModel[CandidateSpec]):
    """A `CandidateSpec` with its candidates. Immutable; every output's probability is known (`HasDistribution`)."""

    __slots__ = ()

    model: "FittedCandidates"

    @property
    def candidates(self) -> tuple[str, ...]:
        """The public texts, in the order of the utilities."""
        return self.model.texts

    @property
    def candidate_labels(self) -> tuple[str | None, ...]:
        """The public labels of the candidates; None without labels."""
        return self.model.labels

    @property
    def candidate_embeddings(self) -> Floats:
        """The released vectors of the candidates `(m, dim)`: train a classifier on them to apply it to releases."""
        return np.asarray(self.model.outputs, np.float64)

    def documents(self, records: Sequence[Record]) -> list[list[str]]:
        """Return the sentences of each record, up to `max_sentences`."""
        most = self.spec.max_sentences or None
        return [sentences(record.text)[:most] for record in records]

    def utilities(self, records: Sequence[Record]) -> Floats:
        """Return the utility of every candidate for each record `(n_records, m)`: private, before any choice."""
        return self.model.utilities(self.documents(records))

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of every possible output, in the form of `dptext.mechanism.seen`."""
        chances = self.spec.choice.distribution(self.utilities([record]))[0].tolist()
        found: dict[str, float] = {}
        every = self._chosen([record] * len(chances), range(len(chances)))
        for release, chance in zip(every, chances, strict=True):
            found[seen(release)] = found.get(seen(release), 0.0) + chance
        return found

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one public candidate a record."""
        choice = self.spec.choice
        chosen: list[int] = []
        for source, here in blocks_of(randomness, [1] * len(records), _DOCUMENTS_AT_ONCE):
            chosen += choice.choose(self.utilities(records[here]), source).tolist()
        return self._chosen(records, chosen)

    def _chosen(self, records: Sequence[Record], chosen: Sequence[int]) -> Releases:
        fitted, output = self.model, self.spec.output
        return Batch.of(records).released(
            None if output == "embedding" else [fitted.texts[i] for i in chosen],
            labels=[fitted.labels[i] for i in chosen],
            vectors=None if output == "text" else self.candidate_embeddings[list(chosen)],
        )
