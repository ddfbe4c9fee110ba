"""Rewriting an utterance through the noisy latent of an auto-encoder: encode, clip, add noise, decode.

The sound mechanisms and the published one share this code. Each has its own noise, its own training text and its own
guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import HIDDEN, read_alone
from dptext.errors import needing
from dptext.mechanism import FitProgress, OnProgress, VectorNoise
from dptext.mechanisms.bases import FittedMechanism, check_choices
from dptext.sampling.clipping import Norm, clip
from dptext.sampling.float_noise import Gaussian, L2Laplace
from dptext.sampling.grid_noise import GridLaplace
from dptext.sampling.privunit import PrivUnit
from dptext.sampling.source import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.types import Floats

if TYPE_CHECKING:  # torch is an extra and slow to load
    from dptext.neural.adept import AnnotatedModel, Decoding, EpochProgress, NetworkSettings

#: The noises that are calibrated to what two clipped latents can really differ by.
NoiseName = Literal["privunit", "gaussian", "l2_laplace", "laplace_l1", "laplace_l2"]
#: An LSTM reads texts in blocks of fixed shapes. The size of a batch decides the shape, and so the last bits.
ALONE = f"the encoder reads a text as if it were alone in its batch: {HIDDEN}"
EncoderName = Literal["sentence", "distilled", "lstm"]
_ROWS = 1024


def alone(encoder: EncoderName, device: str) -> tuple[str, ...]:
    """What is assumed of the encoder of a private text: nothing where each text is computed by itself."""
    if encoder == "sentence":
        return (ALONE,) if read_alone(encoder, device) else ()
    return (ALONE,) if encoder == "lstm" else ()


class NetworkSpec(Protocol):
    """The settings of the network that every such spec has."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The public set of labels; empty for unlabelled text."""
        ...

    @property
    def clip_norm(self) -> float:
        """The largest norm of a latent."""
        ...

    @property
    def max_tokens(self) -> int:
        """Words that are written at most, and that any encoder but `sentence` reads of a text."""
        ...

    @property
    def hidden(self) -> int:
        """Units of the LSTM."""
        ...

    @property
    def embedding(self) -> int:
        """Coordinates of a word's vector."""
        ...

    @property
    def min_count(self) -> int:
        """How often a word of the vocabulary occurs at least."""
        ...

    @property
    def max_words(self) -> int:
        """Words of the vocabulary at most."""
        ...

    @property
    def decoding(self) -> Literal["constrained", "greedy"]:
        """How the network writes."""
        ...

    @property
    def epochs(self) -> int:
        """Passes over the training texts at most."""
        ...

    @property
    def patience(self) -> int:
        """Epochs without a better loss, after which training ends."""
        ...

    @property
    def learning_rate(self) -> float:
        """Step of Adam."""
        ...


class LatentSpec(NetworkSpec, Protocol):
    """A spec whose noise is added to the latent."""

    @property
    def vector_noise(self) -> VectorNoise:
        """The noise on a latent."""
        ...


Spec_co = TypeVar("Spec_co", bound=LatentSpec, covariant=True)


def check_network(spec: NetworkSpec) -> None:
    """Refuse a network that cannot be built, and a named setting that is unknown.

    Raises:
        ConfigError: a size or a rate is out of its range, or a name is unknown.
    """
    _validate.positive(clip_norm=spec.clip_norm, learning_rate=spec.learning_rate)
    _validate.count(
        max_tokens=spec.max_tokens,
        hidden=spec.hidden,
        embedding=spec.embedding,
        min_count=spec.min_count,
        max_words=spec.max_words,
        epochs=spec.epochs,
        patience=spec.patience,
    )
    check_choices(spec)


def vector_noise(
    name: NoiseName, *, epsilon: float, delta: float, dim: int, clip_norm: float
) -> GridLaplace | Gaussian | L2Laplace | PrivUnit:
    """The noise for latents of `dim` coordinates that are clipped to the norm; delta is read by `gaussian` only."""
    match name:
        case "privunit":
            return PrivUnit(epsilon, dim, clip_norm)
        case "gaussian":
            return Gaussian(epsilon, delta, dim, clip_norm)
        case "l2_laplace":
            return L2Laplace(epsilon, dim, clip_norm)
        case "laplace_l1":
            return GridLaplace(epsilon, dim, clip_norm, clipped=Norm.L1)
        case "laplace_l2":
            return GridLaplace(epsilon, dim, clip_norm, clipped=Norm.L2)


def rewriting() -> ModuleType:
    """The neural room, loaded when a network is first needed.

    Raises:
        MissingExtraError: torch is not installed.
    """
    with needing("ADePT", "neural", "sbert"):
        from dptext.neural import adept  # noqa: PLC0415 (an extra, slow to load)
    return adept


def model_settings(
    spec: NetworkSpec, *, encoder: Literal["sentence", "distilled", "lstm"], latent_dim: int, projected: bool
) -> NetworkSettings:
    """The settings of the network; `projected` where a layer brings what the encoder says to `latent_dim`.

    Raises:
        MissingExtraError: torch is not installed.
    """
    neural = rewriting()
    found: NetworkSettings = neural.NetworkSettings(
        labels=spec.labels,
        encoder=encoder,
        latent_dim=latent_dim,
        clip_norm=spec.clip_norm,
        max_tokens=spec.max_tokens,
        hidden=spec.hidden,
        embedding=spec.embedding,
        min_count=spec.min_count,
        max_words=spec.max_words,
        projected=projected,
        schedule=neural.Schedule(epochs=spec.epochs, patience=spec.patience, learning_rate=spec.learning_rate),
    )
    return found


def decoding(spec: NetworkSpec) -> Decoding:
    """How the network of this spec writes."""
    found: Decoding = rewriting().Decoding(constrained=spec.decoding == "constrained")
    return found


def told(on_progress: OnProgress | None, *, losses: bool = True) -> Callable[[EpochProgress], None] | None:
    """What a training calls after each epoch; without `losses` nothing that private texts decide is told."""
    if on_progress is None:
        return None

    def tell(at: EpochProgress) -> None:
        note = f"loss {at.loss:.3g}, held out {at.held_out:.3g}" if losses else ""
        on_progress(FitProgress(at.epoch, at.epochs, "epochs", note))

    return tell


class Fitted(FittedMechanism[Spec_co]):
    """A spec with its network. Frozen."""

    __slots__ = ("_model",)

    def __init__(self, spec: Spec_co, model: AnnotatedModel) -> None:
        super().__init__(spec)
        self._model = model

    @property
    def model(self) -> AnnotatedModel:
        """The network, for experiments and audits; it is as private as the text it was trained on."""
        return self._model

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the network, of its (public) training text, and of the sentence encoder where there is one."""
        return self._model.digests

    def save(self, folder: Path) -> None:
        """Write the network into an existing folder; it is as private as the text it was trained on."""
        self._model.save(folder)

    def reconstruction_losses(self, records: Sequence[Record]) -> Floats:
        """Loss per token of writing each record from its own latent, without noise, `(n,)`: for audits, private."""
        return self._model.losses(records)


class Rewriter(Fitted[Spec_co]):
    """A fitted network with noise on its latent, whose density is known (`HasLatent`)."""

    __slots__ = ("_noise",)

    def __init__(self, spec: Spec_co, model: AnnotatedModel) -> None:
        super().__init__(spec, model)
        self._noise = spec.vector_noise

    def latent(self, records: Sequence[Record]) -> Floats:
        """Clipped latents `(n_records, dim)`."""
        return self._model.latents(records)

    def release(self, latents: Floats, randomness: Randomness) -> Floats:
        """Latents with the mechanism's noise."""
        found = np.empty_like(latents, dtype=np.float64)
        start = 0
        for source, n in randomness.blocks([1] * len(latents), _ROWS):
            found[start : start + n] = self._noise.release(latents[start : start + n], source)
            start += n
        return found

    def log_density(self, released: Floats, latents: Floats) -> Floats:
        """Log density `(rows,)` of noisy latents, up to a term that `released` determines."""
        return self._noise.log_density(released, latents)

    def write(self, latents: Floats) -> list[tuple[str | None, str]]:
        """Label and text of each latent `(n, dim)`, as it is; a label that is not written is None."""
        return self._model.write(latents, decoding(self.spec))

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """One utterance and label a record: encode, clip, add noise, decode."""
        return written(records, self.write(self.release(self.latent(records), randomness)))


class ClippedRewriter(Rewriter[Spec_co]):
    """A rewriter that brings noisy latents back into the ball, where its decoder was trained."""

    __slots__ = ()

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """One utterance and label a record: encode, clip, add noise, bring back into the ball, decode."""
        noisy = clip(self.release(self.latent(records), randomness), self.spec.clip_norm)
        return written(records, self.write(noisy))


def written(records: Sequence[Record], texts: Sequence[tuple[str | None, str]]) -> Releases:
    """The releases of records from their labels and texts."""
    return Batch.of(records).released([text for _, text in texts], labels=[label for label, _ in texts])
