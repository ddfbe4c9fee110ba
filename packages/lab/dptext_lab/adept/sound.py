"""ADePT made sound: whole utterances rewritten under document-level differential privacy.

Krishna, Gupta and Dupuy 2021 (EACL) auto-encode an utterance with its label, clip the latent, add noise and decode. The
published mechanism is not private (see `dptext_lab.adept.published`). Here the model is trained on public text
only, the noise is calibrated to the largest real difference of two clipped latents, and the decoder is trained on noisy
latents.

The default is another mechanism on the same model (`noise="codebook"`, derivations, "Public codebook"). The decoder
writes a codebook of public utterances in advance. A private utterance is compared with the codebook by its label and by
a public sentence encoder, and one utterance of the codebook is drawn by the best envelope for epsilon (derivations,
"Best envelope"). At epsilon 10 the codebook keeps meaning that continuous noise on a latent loses.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.npy import read_pool, save_pool
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism, OnProgress, Remarks, Traits, seen
from dptext.mechanisms.bases import OneUnit, blocks_of, texts_in_play
from dptext.privacy import accounting
from dptext.privacy.events import MAX_MEANINGFUL_DELTA, Event, PureEvent
from dptext.privacy.guarantee import Unit
from dptext.sampling.clipping import clip
from dptext.sampling.envelope import EnvelopeResponse
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.batches import Releases
from dptext.text.inputs import reading_saved
from dptext.text.reading import as_records
from dptext.text.records import Record, Release, require_labels
from dptext.types import Floats, Int16s, Json
from dptext_lab.adept import latent
from dptext_lab.adept.latent import ClippedRewriter, LatentMechanism, LatentSpec

if TYPE_CHECKING:
    from dptext_lab.adept import net
else:
    from dptext_lab.adept.latent import net

PUBLIC_MODEL = "the auto-encoder, its vocabulary and its labels were made from public text only"
_CODEBOOK_FILES = "codebook"
_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Adept(LatentSpec, OneUnit):
    """Settings of rewriting utterances through a noisy latent or a public codebook.

    Use:
        Take it to write short texts anew, with their labels, under one epsilon each.
        Set first: epsilon, labels, noise, encoder.

    Guarantee:
        Unit DOCUMENT, relation replace one: any two texts with any two labels give any output with probabilities
        whose ratio is at most e^epsilon. For `gaussian` that holds up to delta; `privunit` and `l2_laplace` draw in
        floats and state a slack, below 1e-7 for a latent of 16 to 64 coordinates and epsilon up to 50. Text and label
        are both protected and nothing is revealed.

    Attributes:
        epsilon: the privacy loss of one utterance.
        labels: the public set of labels, in the settings because no text may decide it; empty for unlabelled text. A
            missing or unknown label is read as no label; a release always has one of these.
        noise: `codebook` (exact; PrivUnit's form on public points), `privunit`, `gaussian` (needs delta), `l2_laplace`
            (K-norm), `laplace_l1` (clipped in L1), `laplace_l2` (ADePT with its scale mended: 2C sqrt(n) / epsilon).
        delta: the delta of `gaussian`; 0 for the other noises.
        encoder: `sentence` reads a public sentence encoder, `distilled` what that encoder says of the
            public texts, as weights of their words: nearly as good, many times as fast; `lstm` the tokens, as in the
            paper.
        latent_dim: coordinates of the latent: 16 suits continuous noise at epsilon 5 to 10, 64 the codebook.
        clip_norm: C, the largest norm of a latent.
        max_tokens: the number of words that are written at most, and that `lstm` and `distilled` read of a text.
            `sentence` reads the first 256 word pieces of a text, as its encoder does; with each encoder the guarantee
            is of the whole text.
        hidden, embedding: sizes of the network.
        min_count, max_words: a word enters the vocabulary if it occurs so often in public text; max_words bounds their
            number.
        decoding: `constrained` writes a label first and no trigram twice; `greedy` decodes as the paper does.
        codebook_size: the largest number of utterances in the codebook.
        label_weight: weight of an equal label against a cosine of at most 1; 3 puts labels first, 0 ignores labels.
        epochs, patience, learning_rate: the schedule of the training on public text.
        device: "cpu", "cuda", ...
        precision: number format of the output layer; bfloat16 is faster on processors that have it.
    """

    only: ClassVar[str] = "ADePT releases a whole utterance at once"

    epsilon: float
    labels: tuple[str, ...] = ()
    noise: Literal["codebook", "privunit", "gaussian", "l2_laplace", "laplace_l1", "laplace_l2"] = "codebook"
    delta: float = 0.0
    encoder: latent.EncoderName = "sentence"
    latent_dim: int = 64
    clip_norm: float = 1.0
    max_tokens: int = 24
    hidden: int = 256
    embedding: int = 128
    min_count: int = 2
    max_words: int = 20_000
    decoding: Literal["constrained", "greedy"] = "constrained"
    codebook_size: int = 2_000
    label_weight: float = 1.0
    epochs: int = 14
    patience: int = 3
    learning_rate: float = 2e-3
    device: str = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    kind: Literal["adept"] = field(default="adept", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.not_negative(label_weight=self.label_weight)
        self.check_network()
        _validate.within(2, 1_000_000, codebook_size=self.codebook_size)
        if not (self.delta > 0 if self.noise == "gaussian" else self.delta == 0):
            found = f"{self.delta!r} > 0 for noise='gaussian' and 0 for every other"
            raise ConfigError(f"Expected delta={found}, found {self.noise!r}.")
        _ = self.released

    @property
    def traits(self) -> Traits:
        """The mechanism reads text and label of a record. The decoder is trained with the noise on latents, if any."""
        late = frozenset({"epsilon", "label_weight"} if self.noise == "codebook" else ())
        return Traits(trains=True, labels=self.labels, reads_labels=bool(self.labels), refits=late)

    @property
    def released(self) -> tuple[Event, ...]:
        """The event of one release. The choice in a codebook is known only after the codebook is written."""
        return (PureEvent(self.epsilon),) if self.noise == "codebook" else self.vector_noise.events

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The network is public; the encoder adds its own assumptions."""
        return (PUBLIC_MODEL, *latent.alone(self.encoder, self.device))

    @property
    def vector_noise(self) -> latent.Noise:
        """The noise on a latent; ConfigError for `codebook`, which adds none."""
        if self.noise == "codebook":
            raise ConfigError("Expected a noise on latents: noise='codebook' chooses among public utterances.")
        return latent.vector_noise(self, self.noise, self.epsilon, self.delta)

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Adept:
        """Return the spec at epsilon (`gaussian`: and delta, if given); ConfigError if float slack exceeds delta."""
        self.events(unit or Unit.DOCUMENT)
        found = replace(self, epsilon=epsilon, delta=delta or self.delta if self.noise == "gaussian" else 0.0)
        slack = accounting.slack(found.released)
        if self.noise != "gaussian" and slack > (delta or MAX_MEANINGFUL_DELTA):
            raise ConfigError(f"Expected delta={delta!r} >= {slack:.3g}, the slack of the float sampler.")
        return found

    def fit(
        self, *, public: Iterable[Record] = (), seed: int | None = None, on_progress: OnProgress | None = None
    ) -> AdeptNoise | AdeptCodebook:
        """Train on public records, with the mechanism's own noise on the latents; or write the codebook.

        There must be at least two records, each with one of the labels if the spec has labels, else ConfigError. The
        seed is no secret, and is drawn if None. `on_progress` is called after each epoch. MissingExtraError: the
        sentence encoder is not installed.
        """
        seed = secrets.randbits(32) if seed is None else seed
        texts = as_records(public)
        require_labels(texts, self.labels, "public")
        noise = None if self.noise == "codebook" else _training_noise(self, seed)
        model = self.trained(texts, noise=noise, seed=seed, on_epoch=latent.told(on_progress))
        if self.noise != "codebook":
            return AdeptNoise(self, model)
        codebook = net.write_codebook(model, texts, size=self.codebook_size, seed=seed)
        return self._choosing(model, codebook, texts, seed)

    def refit(self, fitted: Mechanism[str], *, public: Iterable[Record], seed: int) -> AdeptNoise | AdeptCodebook:
        """Implement `dptext.mechanism.Refits`: keep network and codebook, and make the choice for this epsilon."""
        if isinstance(fitted, AdeptCodebook) and self.noise == "codebook":
            return self._choosing(fitted.model, fitted.codebook, as_records(public), seed)
        return self.fit(public=public, seed=seed)

    def _choosing(
        self, model: net.AnnotatedModel, codebook: net.TextCodebook, public: Sequence[Record], seed: int
    ) -> AdeptCodebook:
        best, weight = net.best_choice, self.label_weight
        choice = best(codebook, model, public, epsilon=self.epsilon, label_weight=weight, seed=seed)
        return AdeptCodebook(self, model, codebook, choice)

    def load(self, folder: Path) -> AdeptNoise | AdeptCodebook:
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        model = self.loaded(folder)
        if self.noise != "codebook":
            return AdeptNoise(self, model)
        with reading_saved(f"the codebook in {folder}"):
            read, described, points = read_pool(folder, _CODEBOOK_FILES, labels=self.labels, dtype=np.float64)
            sources = tuple(described["sources"])
            dim = model.dim if model.reader is None else model.reader.dim
            if len(sources) != len(read) or points.shape[1:] != (dim,):
                raise ValueError
            choice = EnvelopeResponse(self.epsilon, np.array(described["least"]), described["total"])
            if len(choice.least) != len(read):
                raise ValueError
        book = net.TextCodebook(read.texts, read.labels, points, sources)
        return AdeptCodebook(self, model, book, choice)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Small networks on the sample corpus, one for each way of working."""
        small = cls(2.0, **latent.TINY, encoder="lstm", codebook_size=40, epochs=2)
        return small, replace(small, noise="privunit"), replace(small, noise="laplace_l2", labels=())


def _training_noise(spec: Adept, seed: int) -> Callable[[Floats], Floats]:
    """Return the mechanism's own noise, clipped again, for training; its random bits are seeded and public."""
    noise, source = spec.vector_noise, seeded(seed)
    return lambda latents: clip(noise.release(latents, source), spec.clip_norm)


def _chosen(choice: EnvelopeResponse) -> dict[str, Json]:
    return {"least": choice.least.tolist(), "total": choice.total}


class AdeptNoise(ClippedRewriter[Adept]):
    """`Adept` with noise on the latent. Immutable; its latent has a known density (`HasLatent`)."""

    __slots__ = ()


class AdeptCodebook(LatentMechanism[Adept]):
    """`Adept` with a codebook and a choice in it. Immutable; output probabilities are known (`HasDistribution`)."""

    __slots__ = ("_digest", "choice", "codebook")

    def __init__(
        self, spec: Adept, model: net.AnnotatedModel, codebook: net.TextCodebook, choice: EnvelopeResponse
    ) -> None:
        super().__init__(spec, model)
        self.codebook, self.choice = codebook, choice
        texts = json.dumps([codebook.texts, codebook.labels, *_chosen(choice).values()])
        self._digest = hashlib.sha256(texts.encode() + codebook.points.tobytes()).hexdigest()

    def remarks(self) -> Remarks:
        """Remark on the number of utterances that are really in play."""
        return texts_in_play(self.choice, len(self.codebook))

    def public_records(self) -> list[Record]:
        """The utterances with their labels, as a pool of candidates for another mechanism."""
        pairs = zip(self.codebook.texts, self.codebook.labels, strict=True)
        return [Record(str(i), text, label=label) for i, (text, label) in enumerate(pairs)]

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the network, its training text, the sentence encoder if any, the codebook and its choice."""
        return {**super().digests, "codebook": self._digest}

    def save(self, folder: Path) -> None:
        """Write network and codebook into an existing folder."""
        super().save(folder)
        book = self.codebook
        described = {**_chosen(self.choice), "texts": book.texts, "labels": book.labels, "sources": book.sources}
        save_pool(folder, _CODEBOOK_FILES, described, book.points)

    def _scores(self, records: Sequence[Record]) -> Int16s:
        labels = [record.label for record in records]
        meanings = self.model.meanings(records)
        return net.scores(self.codebook, meanings, labels, label_weight=self.spec.label_weight)

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of each utterance; if there are labels, the keys are label, U+001F and text."""
        chances = self.choice.distribution(self._scores([record]))[0].tolist()
        book = self.codebook
        keys = (seen(Release("", text, label)) for text, label in zip(book.texts, book.labels, strict=True))
        return dict(zip(keys, chances, strict=True))

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """One utterance of the codebook and its label a record."""
        scores, choice = self._scores(records), self.choice
        chosen: list[int] = []
        for source, here in blocks_of(randomness, [1] * len(records), _ROWS):
            chosen += choice.choose(scores[here], source).tolist()
        book = self.codebook
        return latent.written(records, [(book.labels[i], book.texts[i]) for i in chosen])
