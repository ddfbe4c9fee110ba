"""DeepCandidate: a document's place among public ones, with each sentence protected (Meehan, Mrini, Chaudhuri 2022).

A public candidate is chosen for the sentences of a private document. Replacing one sentence by another changes the
probability of each candidate by a factor of e^epsilon at most. The released output is public in itself: the candidate's
embedding, its text, or both.

The utility of a candidate sums, over the sentences, how well it fits each. The paper chooses by depth, which has the
same sensitivity and keeps much less: mechanism `sentdp`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from dptext.errors import ConfigError
from dptext.mechanism import Moved
from dptext.mechanisms.bases import Lazy
from dptext.mechanisms.sentences.candidate_choice import CandidateMechanism, CandidateSpec
from dptext.text.records import Record
from dptext.types import Integers

if TYPE_CHECKING:
    from dptext.mechanisms.sentences import candidate_fit, document_candidates
    from dptext.mechanisms.sentences.candidate_fit import FitScores
    from dptext.mechanisms.sentences.document_candidates import Arrays, Scores
else:
    candidate_fit = Lazy("dptext.mechanisms.sentences.candidate_fit")
    document_candidates = Lazy("dptext.mechanisms.sentences.document_candidates")


@dataclass(frozen=True, slots=True)
class DeepCandidate(CandidateSpec):
    """Settings of replacing a document by a public candidate; each sentence of the document is protected.

    Use:
        Take it to replace long documents, hiding each sentence and not the whole.
        Set first: epsilon, candidates, utility, max_sentences.

    Guarantee:
        Unit SENTENCE. Relation replace one: two documents whose lists of sentences differ in one place give any
        candidate with probabilities whose ratio is at most e^epsilon; the number of sentences is in `reveals`. Relation
        add or remove one: one list has one sentence more; nothing is revealed. With `max_sentences`, also unit
        DOCUMENT: for any two documents, by the range of the utility. The sentences are those that
        `dptext.text.tokens.sentences` finds.

    Outcomes:
        A document without a sentence gets every candidate with the same probability. Long documents are read whole, or
        up to the first `max_sentences`.

    Attributes:
        epsilon: the privacy loss of one sentence.
        labels: the public set of labels of public documents; empty without labels. The released label is the
            candidate's own, which is public; a private label is never read.
        utility: the score of a candidate.
            `similarity` sums the stretched cosines of the sentences with the candidate.
            `whitened` does so after a public whitening.
            `evidence` sums how much each sentence speaks for the candidate's class; it needs labels.
            `mixed` adds half of `whitened` and half of `evidence`.
        selection: the exponential mechanism, or permute-and-flip, which chooses at least as well.
        relation: the difference of two neighbouring documents.
        candidates: the largest number of public documents in the pool.
        min_sentences: the least number of sentences of a candidate.
        max_sentences: the number of sentences of a private document that are read. 0 reads all; then there is no
            guarantee per document.
        output: the released output: the candidate's text, its embedding, or both. The embedding is the mean of its
            sentences' embeddings.
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
    utility: Literal["similarity", "whitened", "evidence", "mixed"] = "similarity"
    selection: Literal["exponential", "permute_and_flip"] = "exponential"
    relation: Literal["replace_one", "add_or_remove_one"] = "replace_one"
    candidates: int = 5000
    min_sentences: int = 8
    max_sentences: int = 0
    output: Literal["text", "embedding", "both"] = "text"
    encoder: str = "all-MiniLM-L6-v2"
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "float32"
    device: str = "cpu"
    kind: Literal["deep_candidate"] = field(default="deep_candidate", init=False)

    #: The depths of the paper, and their settings, are of a kind of their own.
    moved: ClassVar[Moved] = Moved(
        "sentdp",
        settings=("recoder", "projections", "clusters", "epochs"),
        values={"utility": ("lowest", "algorithm_1", "mean_depth")},
    )

    def __post_init__(self) -> None:
        self.moved.refuse("deep_candidate", "utility", self.utility)
        self._check()
        if not self.labels and self.utility in ("evidence", "mixed"):
            raise ConfigError(
                f"Expected labels for utility={self.utility!r}: name the public set of labels, or take another utility."
            )

    @property
    def scored_by(self) -> tuple[str, ...]:
        """The utility."""
        return (self.utility,)

    @property
    def largest_utility(self) -> int:
        """The largest utility that a document of `max_sentences` can have: each sentence scores at most 1."""
        return self.max_sentences

    def fit(
        self, *, public: Iterable[Record] = (), pool: Iterable[Record] | None = None, seed: int | None = None
    ) -> "DeepCandidateMechanism":
        """Choose the candidates from public documents, fit the ranking, tune it for this epsilon.

        With a `pool` of public documents, candidates come from the pool alone, while space, evidence and tuning rest on
        `public`. Each document has one of the labels if the spec has labels. `min_sentences` holds for the pool alone:
        a pool of utterances, such as the codebook of an ADePT, needs min_sentences=1 and is refused with the default of
        8. The seed draws the candidates; it is no secret, and None draws a seed.

        ConfigError: fewer than 20 documents (of the pool, if there is one) have `min_sentences`; fewer than 20 public
        documents can be tuned on beside a pool; or a document has no known label. MissingExtraError: the sentence
        encoder is absent.
        """
        return DeepCandidateMechanism(self, self._fitted(public, pool, seed))

    def load(self, folder: Path) -> "DeepCandidateMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        return DeepCandidateMechanism(self, self._loaded(folder))

    def _fit_scores(self, seed: int) -> "FitScores":
        return partial(candidate_fit.fit_likeness, utility=self.utility, epsilon=self.epsilon)

    def _read_scores(self, found: "Arrays", dim: int, classes: Integers) -> "Scores":
        return document_candidates.read_likeness(found, dim, classes, utility=self.utility, labels=self.labels)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Few candidates of few sentences, means of word vectors: two utilities, two ways to add a sentence."""
        small = cls(epsilon=2.0, candidates=30, min_sentences=1, encoder="glove")
        labels = ("health", "leisure", "money", "travel")
        return (
            small,
            replace(small, utility="whitened", selection="permute_and_flip"),
            replace(small, relation="add_or_remove_one", output="both", max_sentences=4),
            replace(small, relation="add_or_remove_one", labels=labels, utility="evidence"),
        )


class DeepCandidateMechanism(CandidateMechanism):
    """`DeepCandidate` with its candidates; see `CandidateMechanism`."""

    __slots__ = ()

    spec: DeepCandidate
