"""Truncation: the mean of a document's sentence embeddings with Laplace noise, the baseline of DeepCandidate's paper.

The method is of Meehan, Mrini and Chaudhuri 2022 (appendix A.3), after Li and Clifton 2021. Each sentence embedding is
cut to a public box. So one of k sentences moves a coordinate of the mean by the box's width over k at most, and each
coordinate gets Laplace noise in proportion. The noise grows with the number of coordinates. DeepCandidate is compared
with this baseline.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.distilled import DistilledEncoder, common_words, distil_with_words, load_distilled
from dptext.embeddings.embedder import Embedder, read_alone
from dptext.embeddings.encoders import Encoder, load_encoder
from dptext.embeddings.likeness import mean_by_document, sums_by_document
from dptext.errors import ConfigError
from dptext.frozen import fill, read_only
from dptext.mechanism import Traits
from dptext.mechanisms.bases import FittedMechanism, OneEpsilon, blocks_of, check_choices
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Unit
from dptext.sampling.clipping import finite, paired
from dptext.sampling.grid_noise import coordinate_laplace
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.files import write_private
from dptext.text.inputs import reading_saved
from dptext.text.reading import as_records
from dptext.text.records import Record, records_digest
from dptext.text.tokens import SENTENCE_COUNT, sentences
from dptext.types import Floats, Integers

PUBLIC_BOX = "the box, and what embeds sentences, were made from public text only"
_FILE = "box.json"
_DOCUMENTS_AT_ONCE = 256
_FEWEST = 2
_LARGEST_EPSILON = 1e6
#: The scale of the noise, in steps of a coordinate.
SCALE = 1 << 20


@dataclass(frozen=True, slots=True)
class Truncation(OneEpsilon):
    """Settings of a noisy mean of truncated sentence embeddings.

    Use:
        Take it to release embeddings of documents, hiding each sentence.
        Set first: epsilon, encoder.

    Guarantee:
        Unit SENTENCE, relation replace one: two documents whose lists of sentences differ in one place give any vector
        with probabilities whose ratio is at most e^epsilon; the number of sentences is in `reveals`. CONDITIONAL: the
        box must be public. The sentences are those that `dptext.text.tokens.sentences` finds.

        A truncated coordinate is a whole number of steps; the box is T steps wide. So one sentence moves the sum over
        the sentences by T * dim steps at most, and T is the largest even number with T * dim <= 2^20 * epsilon. The
        noise is discrete Laplace of scale 2^20 steps a coordinate, drawn in integers: nothing is left to floats. For a
        box of width w and k sentences, this is the paper's scale dim * w / (k * epsilon) in the mean.

        A document without a sentence releases the middle of the box with the noise of a single sentence.

    Attributes:
        epsilon: the privacy loss of one sentence.
        central: the share of the means of public documents that the box holds in each coordinate.
        encoder: the sentence encoder: `sentence` is all-MiniLM-L6-v2, `distilled` a linear model of
            words that predicts its embeddings, fitted on the public sentences and saved with the box, `glove` the mean
            of GloVe word vectors (extra `[glove]`).
        output: the released output, an embedding.
        device: where the sentence encoder computes.
        precision: number format of the sentence encoder: auto, float32, bfloat16, or int8, which is the fastest and the
            least exact.
    """

    unit: ClassVar[Unit] = Unit.SENTENCE
    only: ClassVar[str] = "the noise shows how many sentences a document has"
    traits: ClassVar[Traits] = Traits(releases_text=False, releases_vectors=True)
    reveals: ClassVar[tuple[str, ...]] = (SENTENCE_COUNT,)

    epsilon: float
    central: float = 0.75
    encoder: Literal["sentence", "distilled", "glove"] = "sentence"
    output: Literal["embedding"] = "embedding"
    device: str = "cpu"
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    kind: Literal["truncation"] = field(default="truncation", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, central=self.central)
        _validate.within(0, _LARGEST_EPSILON, epsilon=self.epsilon)
        if not self.central < 1:
            raise ConfigError(f"Expected central={self.central!r} < 1: the box leaves something out.")
        if self.output != "embedding":
            raise ConfigError(f"Expected output={self.output!r} to be 'embedding': no text belongs to a noisy vector.")
        check_choices(self)

    @property
    def released(self) -> tuple[PureEvent]:
        """The event of one release, for one sentence."""
        return (PureEvent(self.epsilon),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The box and the encoder are public."""
        return (PUBLIC_BOX, *read_alone(self.encoder, self.device))

    def steps(self, dim: int) -> int:
        """Return T, the width of the box in steps, for vectors of `dim` coordinates; ConfigError if T is below two."""
        found = 2 * math.floor(Fraction(self.epsilon) * (SCALE // 2) / dim)
        if found < 2:
            raise ConfigError(f"Expected epsilon={self.epsilon!r} >= {2 * dim / SCALE:.3g} for {dim} coordinates.")
        return found

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> "TruncationMechanism":
        """Measure the box on public documents; nothing is drawn, so a seed is not needed.

        ConfigError: fewer than two public documents have a sentence, or epsilon is too small. MissingExtraError: the
        encoder is not installed.
        """
        records = as_records(public)
        encoder = self._fitted_encoder(records)
        parts = []
        for start in range(0, len(records), _DOCUMENTS_AT_ONCE):
            embeddings, sizes = _embedded(encoder, records[start : start + _DOCUMENTS_AT_ONCE])
            parts.append(mean_by_document(embeddings, sizes)[np.asarray(sizes) > 0])
        means = np.concatenate([np.empty((0, encoder.dim)), *parts])
        if len(means) < _FEWEST:
            raise ConfigError(f"Expected at least {_FEWEST} public documents with a sentence, found {len(means)}.")
        rest = (1 - self.central) / 2
        low, high = np.quantile(means, [rest, 1 - rest], axis=0)
        return TruncationMechanism(self, Box(low, high), encoder, records_digest(records))

    def _encoder(self, name: str) -> Encoder:
        return load_encoder(name, device=self.device, precision=self.precision)

    def _fitted_encoder(self, public: Sequence[Record]) -> Encoder | DistilledEncoder:
        if self.encoder != "distilled":
            return self._encoder(self.encoder)
        teacher = self._encoder("sentence")
        texts = list(dict.fromkeys(part for record in public for part in sentences(record.text)))
        return distil_with_words(teacher, texts, common=common_words())

    def load(self, folder: Path) -> "TruncationMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        distilled = self.encoder == "distilled"
        encoder = load_distilled(folder) if distilled else self._encoder(self.encoder)
        path = folder / _FILE
        with reading_saved(f"the box {path}"):
            described = json.loads(path.read_bytes())
            low, high = (np.array(described[name], np.float64) for name in ("low", "high"))
            trained_on = described["trained_on"]
            if not (
                low.shape == high.shape == (encoder.dim,)
                and isinstance(trained_on, str)
                and bool(np.isfinite(high - low).all())
                and bool((low <= high).all())
                and described["encoder"] == encoder.digest
            ):
                raise ValueError
        return TruncationMechanism(self, Box(low, high), encoder, trained_on)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Means of GloVe vectors, which need no network.

        The 50 coordinates share epsilon, so that hardly any release shows all of it. At the larger epsilon an audit of
        the density sees twice the epsilon, because most coordinates of two words lie at the two ends of the narrow box.
        """
        return cls(epsilon=2.0, encoder="glove"), cls(epsilon=100.0, central=0.25, encoder="glove")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Box:
    """The box to which sentence embeddings are cut: its smallest and largest coordinates, `(dim,)` each."""

    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        fill(self, low=read_only(self.low), high=read_only(self.high))

    def truncated(self, embeddings: Floats, steps: int) -> Floats:
        """Cut embeddings to the box, as whole numbers from -steps / 2 to steps / 2 `(n, dim)`, from side to side.

        0 is the middle of the box, and every value where the box has no width. An embedding that is not finite is read
        as zero.
        """
        width = self.high - self.low
        away = finite(embeddings, len(width)) - (self.low + width / 2)
        # Rounding comes before cutting: whatever floats do, no number lies beyond the ends.
        whole = np.rint(np.divide(away, width, out=np.zeros_like(away), where=width > 0) * steps)
        return np.asarray(np.clip(whole, -(steps // 2), steps // 2))

    def placed(self, sums: Floats, counts: Integers, steps: int) -> Floats:
        """Return the mean vectors `(n, dim)` of sums over `counts` sentences each."""
        width = self.high - self.low
        return np.asarray(self.low + width / 2 + width * (sums / (steps * counts[:, None])))


def _embedded(encoder: Embedder, records: Sequence[Record]) -> tuple[Floats, list[int]]:
    documents = [sentences(record.text) for record in records]
    embeddings = encoder.embed([sentence for document in documents for sentence in document])
    return np.asarray(embeddings, np.float64), [len(document) for document in documents]


class TruncationMechanism(FittedMechanism[Truncation]):
    """`Truncation` with its box. Immutable; the density of its sums is known (`HasLatent`).

    A latent is the sum of a document's truncated embeddings, in steps: its noise does not depend on the number of
    sentences.
    """

    __slots__ = ("_encoder", "_steps", "_trained_on", "box")

    def __init__(self, spec: Truncation, box: Box, encoder: Encoder | DistilledEncoder, trained_on: str) -> None:
        super().__init__(spec)
        self.box, self._encoder, self._trained_on = box, encoder, trained_on
        self._steps = spec.steps(len(box.low))

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the box, of its public text, and of the encoder."""
        found = hashlib.sha256(np.stack([self.box.low, self.box.high]).astype("<f8").tobytes())
        return {"box": found.hexdigest(), "public": self._trained_on, "encoder": self._encoder.digest}

    def save(self, folder: Path) -> None:
        """Write the box into an existing folder, and the distilled encoder, if any, beside it."""
        described = {"low": self.box.low.tolist(), "high": self.box.high.tolist()}
        described |= {"encoder": self._encoder.digest, "trained_on": self._trained_on}
        write_private(folder / _FILE, json.dumps(described).encode())
        if isinstance(self._encoder, DistilledEncoder):
            self._encoder.save(folder)

    def _sums(self, records: Sequence[Record]) -> tuple[Floats, Integers]:
        """Return the latents, and the numbers of sentences, at least 1."""
        sums, counts = np.zeros((len(records), len(self.box.low))), np.ones(len(records), np.int64)
        for start in range(0, len(records), _DOCUMENTS_AT_ONCE):
            embeddings, sizes = _embedded(self._encoder, records[start : start + _DOCUMENTS_AT_ONCE])
            here = slice(start, start + len(sizes))
            sums[here] = sums_by_document(self.box.truncated(embeddings, self._steps), sizes)
            counts[here] = np.maximum(sizes, 1)
        return sums, counts

    def latent(self, records: Sequence[Record]) -> Floats:
        """Return the sums of truncated embeddings `(n_records, dim)`, in steps."""
        return self._sums(records)[0]

    def release(self, latents: Floats, randomness: Randomness) -> Floats:
        """Return latents with the mechanism's noise, whole numbers `(rows, dim)`."""
        found = np.rint(finite(latents, len(self.box.low)))
        for source, here in blocks_of(randomness, [1] * len(found), _DOCUMENTS_AT_ONCE):
            # Only at this variance is the sampler's grid one step wide.
            found[here] += coordinate_laplace(here.stop - here.start, found.shape[1], 2.0 * SCALE**2, source)
        return found

    def log_density(self, released: Floats, latents: Floats) -> Floats:
        """Log probability `(rows,)` of each released row of whole numbers, given the latent in the same row."""
        sums = np.rint(finite(latents, len(self.box.low)))
        away = np.abs(paired(released, sums) - sums).sum(axis=1)
        return np.asarray(sums.shape[1] * math.log(math.tanh(0.5 / SCALE)) - away / SCALE)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one noisy mean a record, and no text."""
        sums, counts = self._sums(records)
        vectors = self.box.placed(self.release(sums, randomness), counts, self._steps)
        return Batch.of(records).released(vectors=vectors)
