"""SentDP: a document's place among public ones by depth, with each sentence protected (Meehan, Mrini, Chaudhuri 2022).

The mechanism as its paper has it: a candidate's utility is its Tukey depth among the sentences, which a perceptron
recodes first. `dptext.DeepCandidate` has the same guarantee by sums of likeness.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from dptext import _validate
from dptext.errors import ConfigError
from dptext.mechanisms.bases import Lazy, settings_for
from dptext.mechanisms.sentences.candidate_choice import CandidateMechanism, CandidateSpec
from dptext.text.records import Record
from dptext.types import Integers

if TYPE_CHECKING:
    from dptext.mechanisms.sentences.candidate_fit import FitScores
    from dptext.mechanisms.sentences.document_candidates import Arrays, Scores
    from dptext_lab.sentdp import fit, scores
else:
    fit = Lazy("dptext_lab.sentdp.fit")
    scores = Lazy("dptext_lab.sentdp.scores")


@dataclass(frozen=True, slots=True)
class SentDp(CandidateSpec):
    """Settings of replacing a document by a public candidate; each sentence of the document is protected.

    Use:
        Take it to run the paper: `deep_candidate` keeps more at the same epsilon.
        Set first: epsilon, candidates, clusters, max_sentences.

    Guarantee:
        Unit SENTENCE. Relation replace one: two documents whose lists of sentences differ in one place give any
        candidate with probabilities whose ratio is at most e^epsilon; the number of sentences is in `reveals`. Relation
        add or remove one: one list has one sentence more; nothing is revealed. With `max_sentences`, also unit
        DOCUMENT: for any two documents, by the range of the utility. The sentences are those that
        `dptext.text.tokens.sentences` finds.

    Outcomes:
        A document without a sentence gets every candidate with the same probability. So does a document of one
        sentence, because every depth is then 0. Long documents are read whole, or up to the first `max_sentences`.

    Attributes:
        epsilon: the privacy loss of one sentence.
        labels: the public set of labels of public documents; empty without labels. The released label is the
            candidate's own, which is public; a private label is never read.
        utility: the depth of a candidate among the sentences. On each public direction the sentences on either side of
            the candidate are counted; the smaller count is the depth there.
            `lowest` is the least depth over the directions, as the paper's text says.
            `algorithm_1` is the largest, as the paper's algorithm is printed.
            `mean_depth` is their mean.
        selection: the exponential mechanism, or permute-and-flip, which chooses at least as well.
        relation: the difference of two neighbouring documents.
        recoder: the classes that the recoder is trained on: clusters, as in the paper, or public labels.
        projections: the number of directions; 0 tunes it on public documents.
        clusters: the number of clusters of the paper's recoder.
        epochs: passes of the recoder's training over the public documents.
        candidates: the largest number of public documents in the pool.
        min_sentences: the least number of sentences of a candidate.
        max_sentences: the number of sentences of a private document that are read. 0 reads all; then there is no
            guarantee per document.
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
    utility: Literal["lowest", "algorithm_1", "mean_depth"] = "lowest"
    selection: Literal["exponential", "permute_and_flip"] = "exponential"
    relation: Literal["replace_one", "add_or_remove_one"] = "replace_one"
    recoder: Literal["none", "clusters", "labels"] = "clusters"
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
    kind: Literal["sentdp"] = field(default="sentdp", init=False)

    def __post_init__(self) -> None:
        _validate.count(clusters=self.clusters, epochs=self.epochs)
        _validate.within(0, 10_000, projections=self.projections)
        self._check()
        if not self.labels and self.recoder == "labels":
            raise ConfigError("Expected labels for recoder='labels': name the public set, or take another recoder.")

    @property
    def scored_by(self) -> tuple[str, ...]:
        """The depth, and the classes of the recoder."""
        return (self.utility, self.recoder)

    @property
    def largest_utility(self) -> int:
        """The largest utility that a document of `max_sentences` can have.

        The depth on one direction is min(h, k - h), where h of the k sentences lie on one side: floor(k / 2) at most.
        This bounds the least, the largest and the mean depth over the directions, too.
        """
        return self.max_sentences // 2

    def fit(
        self, *, public: Iterable[Record] = (), pool: Iterable[Record] | None = None, seed: int | None = None
    ) -> "SentDpMechanism":
        """Choose the candidates from public documents, fit the recoder, tune the number of directions.

        With a `pool` of public documents, candidates come from the pool alone, while recoder and tuning rest on
        `public`. Each document has one of the labels if the spec has labels. `min_sentences` holds for the pool alone.
        The seed draws candidates, directions and the training; it is no secret, and None draws a seed.

        ConfigError: fewer than 20 documents (of the pool, if there is one) have `min_sentences`; fewer than 20 public
        documents can be tuned on beside a pool; or a document has no known label. MissingExtraError: the sentence
        encoder is absent.
        """
        return SentDpMechanism(self, self._fitted(public, pool, seed))

    def load(self, folder: Path) -> "SentDpMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        return SentDpMechanism(self, self._loaded(folder))

    def _fit_scores(self, seed: int) -> "FitScores":
        return partial(fit.fit_scores, settings=settings_for(fit.DepthSettings, self), seed=seed)

    def _read_scores(self, found: "Arrays", dim: int, classes: Integers) -> "Scores":
        recoded = self.recoder != "none"
        return scores.read_depths(
            found, dim, len(classes), utility=self.utility, projections=self.projections, recoded=recoded
        )

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Few candidates of few sentences, means of word vectors, few directions."""
        small = cls(epsilon=2.0, candidates=30, min_sentences=1, encoder="glove", projections=3, recoder="none")
        return (
            replace(small, selection="permute_and_flip"),
            replace(small, utility="mean_depth", recoder="clusters", clusters=4, epochs=2, output="both"),
        )


class SentDpMechanism(CandidateMechanism):
    """`SentDp` with its candidates; see `CandidateMechanism`."""

    __slots__ = ()

    spec: SentDp
