"""DeepCandidate: a document's place among public ones, with each sentence protected (Meehan, Mrini, Chaudhuri 2022).

A public candidate is chosen for the sentences of a private document. Replacing one sentence by another changes the
probability of each candidate by a factor of e^epsilon at most. The released output is public in itself: the candidate's
embedding, its text, or both.

The paper chooses by depth: `lowest` as in its text, `algorithm_1` as printed (derivations, "Depths and sums"). The
default sums, over the sentences, how well a candidate fits each. The sum has the same sensitivity and keeps much more.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import read_alone
from dptext.errors import ConfigError, IncomparableError, needing
from dptext.mechanism import Traits, seen
from dptext.mechanisms.bases import Extra, OnModel, bisected, blocks_of, check_choices, settings_for
from dptext.privacy import accounting
from dptext.privacy.events import Event, PureEvent
from dptext.privacy.guarantee import PUBLIC_CANDIDATES, Basis, Guarantee, Relation, Unit
from dptext.sampling.exponential import Exponential, PermuteAndFlip
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.text.tokens import SENTENCE_COUNT, sentences
from dptext.types import Floats

if TYPE_CHECKING:
    from dptext.neural import deep_candidate
else:
    deep_candidate = Extra("dptext.neural.deep_candidate", "DeepCandidate", "neural", "sbert")

DEPTH_UTILITIES = ("lowest", "algorithm_1", "mean_depth")
_DOCUMENTS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class DeepCandidate:
    """Settings of replacing a document by a public candidate; each sentence of the document is protected.

    Use:
        Take it to replace long documents, hiding each sentence and not the whole.
        Set first: epsilon, candidates, clusters, max_sentences.

    Guarantee:
        Unit SENTENCE. Relation replace one: two documents whose lists of sentences differ in one place give any
        candidate with probabilities whose ratio is at most e^epsilon; the number of sentences is in `reveals`. Relation
        add or remove one: one list has one sentence more; nothing is revealed. With `max_sentences`, also unit
        DOCUMENT: for any two documents, by the range of the utility. The sentences are those that
        `dptext.text.tokens.sentences` finds.

    Outcomes:
        A document without a sentence gets every candidate with the same probability. So does a document of one sentence
        under a depth, because the depth is then 0 for every candidate. Long documents are read whole, or up to the
        first `max_sentences`.

    Attributes:
        epsilon: the privacy loss of one sentence.
        labels: the public set of labels of public documents; empty without labels. The released label is the
            candidate's own, which is public; a private label is never read.
        utility: the score of a candidate.
            `similarity` sums the stretched cosines of the sentences with the candidate.
            `whitened` does so after a public whitening.
            `evidence` sums how much each sentence speaks for the candidate's class; it needs labels.
            `mixed` adds half of `whitened` and half of `evidence`.
            `lowest`, `mean_depth` and `algorithm_1` are depths on public directions.
        selection: the exponential mechanism, or permute-and-flip, which chooses at least as well.
        relation: the difference of two neighbouring documents.
        recoder: the classes that the recoder of a depth is trained on: clusters, as in the paper, or public labels.
        candidates: the largest number of public documents in the pool.
        min_sentences: the least number of sentences of a candidate.
        max_sentences: the number of sentences of a private document that are read. 0 reads all; then there is no
            guarantee per document.
        projections: directions of a depth; 0 tunes their number on public documents.
        clusters: the number of clusters of the paper's recoder.
        epochs: passes of the recoder's training over the public documents.
        output: the released output: the candidate's text, its embedding, or both. The embedding is the mean of its
            sentences' embeddings, recoded if there is a recoder.
        encoder: the sentence encoder: "all-MiniLM-L6-v2" from its package, the name or folder of an installed
            sentence-transformers model, or "glove" for means of word vectors, which is light. With "distilled"
            all-MiniLM-L6-v2 embeds public text alone, and a linear model of words, fitted on these embeddings and
            saved, predicts the embeddings of private sentences, about a hundred times as fast.
        precision: number format of the encoder: auto, float32, bfloat16, or int8, which is the fastest and the least
            exact.
        device: where the encoder computes.
    """

    epsilon: float
    labels: tuple[str, ...] = ()
    utility: Literal["lowest", "algorithm_1", "mean_depth", "similarity", "whitened", "evidence", "mixed"] = (
        "similarity"
    )
    selection: Literal["exponential", "permute_and_flip"] = "exponential"
    relation: Literal["replace_one", "add_or_remove_one"] = "replace_one"
    recoder: Literal["none", "clusters", "labels"] = "none"
    candidates: int = 5000
    min_sentences: int = 8
    max_sentences: int = 0
    projections: int = 0
    clusters: int = 50
    epochs: int = 20
    output: Literal["text", "embedding", "both"] = "text"
    encoder: str = "all-MiniLM-L6-v2"
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "float32"
    device: str = "cpu"
    kind: Literal["deep_candidate"] = field(default="deep_candidate", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        counts = ("candidates", "min_sentences", "clusters", "epochs")
        _validate.count(**{name: getattr(self, name) for name in counts})
        _validate.within(2, 65_535, candidates=self.candidates)
        _validate.within(0, 65_535, max_sentences=self.max_sentences)
        _validate.within(0, 10_000, projections=self.projections)
        check_choices(self)
        object.__setattr__(self, "labels", _validate.labels(self.labels))
        if not self.labels and (self.utility in ("evidence", "mixed") or self.recoder == "labels"):
            raise ConfigError(
                f"Expected labels for utility={self.utility!r} and recoder={self.recoder!r}: name the public set of "
                "labels, or take another utility or recoder."
            )
        if self.recoder != "none" and self.utility not in DEPTH_UTILITIES:
            raise ConfigError(f"Expected recoder='none' with utility={self.utility!r}: only depths are recoded.")

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
        return kind(self.epsilon, sensitivity, self._largest_utility or None)

    @property
    def _largest_utility(self) -> int:
        """The largest utility that a document of `max_sentences` can have; 0 without a maximum.

        A sum of k scores is at most k. The depth on one direction is min(h, k - h), where h of the k sentences lie on
        one side: floor(k / 2) at most. This bounds the least, the largest and the mean depth over the directions, too.
        """
        return self.max_sentences // 2 if self.utility in DEPTH_UTILITIES else self.max_sentences

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
        if not self._largest_utility:  # one sentence has no depth: all candidates are equally likely
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

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> "DeepCandidate":
        """Return the spec with the largest epsilon whose guarantee for the unit costs at most `epsilon` at delta.

        The spec's epsilon is at most 2^20 times `epsilon`. IncomparableError: nothing is known for this unit.
        """
        unit = unit or Unit.SENTENCE
        self.events(unit)
        if unit is Unit.SENTENCE:
            return replace(self, epsilon=epsilon)
        _validate.positive(epsilon=epsilon)
        low, high = 0.0, epsilon
        while replace(self, epsilon=high).guarantee(unit, delta).epsilon <= epsilon and high < 2.0**20 * epsilon:
            high *= 2
        return bisected(self, epsilon, low, high, rounds=60, unit=unit, delta=delta)

    def fit(
        self, *, public: Iterable[Record] = (), pool: Iterable[Record] | None = None, seed: int | None = None
    ) -> "DeepCandidateMechanism":
        """Choose the candidates from public documents, fit the ranking, tune it for this epsilon.

        With a `pool` of public documents, candidates come from the pool alone, while recoder, space, evidence and
        tuning rest on `public`. Each document has one of the labels if the spec has labels. `min_sentences` holds for
        the pool alone: a pool of utterances, such as the codebook of an ADePT, needs min_sentences=1 and is refused
        with the default of 8. The seed draws candidates, directions and trainings; it is no secret, and None draws a
        seed.

        ConfigError: fewer than 20 documents (of the pool, if there is one) have `min_sentences`; fewer than 20 public
        documents can be tuned on beside a pool; or a document has no known label. MissingExtraError: torch, numba or
        the sentence encoder is absent.
        """
        seed = secrets.randbits(32) if seed is None else seed
        offered = None if pool is None else as_records(pool)
        with needing("DeepCandidate", *(["glove"] if self.encoder == "glove" else [])):
            fitted = deep_candidate.fit_candidates(self._settings, as_records(public), offered, seed=seed)
        return DeepCandidateMechanism(self, fitted)

    @property
    def _settings(self) -> "deep_candidate.CandidateSettings":
        return settings_for(deep_candidate.CandidateSettings, self)

    def load(self, folder: Path) -> "DeepCandidateMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        return DeepCandidateMechanism(self, deep_candidate.load_candidates(self._settings, folder))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Few candidates of few sentences, means of word vectors: likeness, depth, two ways to add a sentence."""
        small = cls(epsilon=2.0, candidates=30, min_sentences=1, encoder="glove")
        labels = ("health", "leisure", "money", "travel")
        return (
            small,
            replace(small, utility="lowest", projections=3, selection="permute_and_flip"),
            replace(small, relation="add_or_remove_one", output="both", max_sentences=4),
            replace(small, relation="add_or_remove_one", labels=labels, utility="evidence"),
        )


class DeepCandidateMechanism(OnModel[DeepCandidate]):
    """`DeepCandidate` with its candidates. Immutable; every output's probability is known (`HasDistribution`)."""

    __slots__ = ()

    model: "deep_candidate.FittedCandidates"

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
