"""Embeddings of texts that another mechanism wrote: the baseline of rewriting word by word, then embedding.

The guarantee is the guarantee of the other mechanism:

    >>> from dptext.mechanisms.words.word_metric import WordMetric
    >>> Embedded(WordMetric(epsilon=6.0), encoder="glove").guarantee().unit.value
    'token'
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from dptext.embeddings.encoders import Encoder, load_encoder
from dptext.embeddings.likeness import mean_by_document
from dptext.errors import ConfigError
from dptext.mechanism import HasMetric, Mechanism, Spec, Traits
from dptext.mechanisms.bases import FittedMechanism, check_choices
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy.events import Event
from dptext.privacy.guarantee import Guarantee, Trust, Unit
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record, Release
from dptext.text.tokens import sentences

PUBLIC_ENCODER = "the encoder was not made from private text"
_DOCUMENTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Embedded:
    """Settings of the mean sentence embedding of what another mechanism writes.

    Use:
        Take it to release embeddings of what another mechanism writes.
        Set first: mechanism, encoder.

    Guarantee:
        The guarantee of the other mechanism, for each of its units: the embedding is computed from the released text
        alone (post-processing), by a public encoder.

    Attributes:
        mechanism: the settings of the other mechanism, which must release text and learn from public text alone.
        encoder: a sentence encoder: "all-MiniLM-L6-v2" from its package, the name or folder of an installed
            sentence-transformers model, or "glove" for means of word vectors.
        output: "embedding" alone, or "both" for text and embedding.
        precision: number format of the encoder: auto, float32, bfloat16, or int8, which is the fastest and the least
            exact.
        device: where the encoder computes.
    """

    mechanism: Spec
    encoder: str = "all-MiniLM-L6-v2"
    output: Literal["embedding", "both"] = "embedding"
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "float32"
    device: str = "cpu"
    kind: Literal["embedded"] = field(default="embedded", init=False)

    def __post_init__(self) -> None:
        check_choices(self)
        if not self.mechanism.traits.releases_text or self.mechanism.traits.releases_vectors:
            raise ConfigError(f"Expected mechanism of kind {self.mechanism.kind} to release text and no vectors.")
        if self.mechanism.traits.trust is Trust.CENTRAL:  # its guarantee counts a training that `fit` here never does
            raise ConfigError(
                f"Expected mechanism of kind {self.mechanism.kind} to learn from public text alone: an embedded one is "
                "not trained on private text. Fit it by itself, and embed what it writes: that costs nothing more."
            )

    @property
    def traits(self) -> Traits:
        """The traits of the other mechanism, except for the released output."""
        inner, both = self.mechanism.traits, self.output == "both"
        leaving: dict[str, Any] = {"releases_text": both, "releases_vectors": True, "carries": (), "carried_types": ()}
        leaving["keeps_words"] = both and inner.keeps_words
        return replace(inner, takes_pool=False, trains=False, **leaving)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units of the other mechanism."""
        return self.mechanism.units

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """Return the events of the other mechanism; IncomparableError where it knows none."""
        return self.mechanism.events(unit)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """Return the guarantee of the other mechanism, with the encoder among the assumptions."""
        found = self.mechanism.guarantee(unit, delta)
        return replace(found, assumptions=(*found.assumptions, PUBLIC_ENCODER))

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> "Embedded":
        """Return the spec whose other mechanism costs at most epsilon at delta."""
        return replace(self, mechanism=self.mechanism.calibrate(epsilon, unit=unit, delta=delta))

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> "EmbeddedMechanism":
        """Fit the other mechanism. MissingExtraError: the encoder or the other mechanism needs an absent package."""
        return EmbeddedMechanism(self, self.mechanism.fit(public=public, seed=seed), _load_encoder(self))

    def load(self, folder: Path) -> "EmbeddedMechanism":
        """Return the mechanism that was saved into the folder under this spec."""
        return EmbeddedMechanism(self, self.mechanism.load(folder), _load_encoder(self))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Words in 50 dimensions, embedded by means of word vectors."""
        return (cls(WordMetric.tiny()[0], encoder="glove"),)


def _load_encoder(spec: Embedded) -> Encoder:
    return load_encoder(spec.encoder, device=spec.device, precision=spec.precision)


class EmbeddedMechanism(FittedMechanism[Embedded]):
    """`Embedded`, fitted. Immutable."""

    __slots__ = ("_encoder", "inner")

    def __init__(self, spec: Embedded, inner: Mechanism[str], encoder: Encoder) -> None:
        super().__init__(spec)
        self.inner, self._encoder = inner, encoder

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the other mechanism, and of the encoder's weights."""
        return {**self.inner.digests, "output encoder": self._encoder.digest}

    def distance(self, first: Record, second: Record) -> float:
        """Return the distance of the other mechanism; ConfigError where its guarantee has no metric."""
        if not isinstance(self.inner, HasMetric):
            raise ConfigError(f"Expected mechanism of kind {self.inner.spec.kind} to have a metric.")
        return self.inner.distance(first, second)

    def save(self, folder: Path) -> None:
        """Write the other mechanism into an existing folder."""
        self.inner.save(folder)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        """Release the mean embedding of the sentences of each released text; zero for a text without a sentence."""
        released = self.inner.privatize(records, randomness)
        found: list[Release[str]] = []
        for start in range(0, len(released), _DOCUMENTS_AT_ONCE):
            block = released[start : start + _DOCUMENTS_AT_ONCE]
            documents = [sentences(release.output) for release in block]
            vectors = self._encoder.embed([sentence for document in documents for sentence in document])
            means = mean_by_document(vectors, [len(document) for document in documents])
            for release, mean in zip(block, means.tolist(), strict=True):
                text = "" if self.spec.output == "embedding" else release.output
                found.append(replace(release, output=text, vector=tuple(mean)))
        return found
