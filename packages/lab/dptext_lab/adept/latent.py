"""Rewriting an utterance through the noisy latent of an auto-encoder: encode, clip, add noise, decode.

The sound mechanisms and the published mechanism share this module; each has its own noise, training text and guarantee.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import HIDDEN, read_alone
from dptext.frozen import fill
from dptext.mechanism import FitProgress, OnProgress, VectorNoise
from dptext.mechanisms.bases import Lazy, OnModel, blocks_of, check_choices, settings_for
from dptext.sampling.clipping import Norm, clip
from dptext.sampling.float_noise import Gaussian, L2Laplace
from dptext.sampling.grid_noise import GridLaplace
from dptext.sampling.privunit import PrivUnit
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.types import Floats

if TYPE_CHECKING:
    from dptext_lab.adept import net
else:
    net = Lazy("dptext_lab.adept.net")

#: Noises that are calibrated to the largest real difference of two clipped latents.
NoiseName = Literal["privunit", "gaussian", "l2_laplace", "laplace_l1", "laplace_l2"]
EncoderName = Literal["sentence", "distilled", "lstm"]
#: The assumption about a sentence encoder that reads private text by torch: padding a batch changes last bits.
IN_BATCHES: Final = f"the encoder reads a text as if it were alone in its batch: {HIDDEN}"
#: The noise that is added to a latent.
Noise: TypeAlias = GridLaplace | Gaussian | L2Laplace | PrivUnit
_ROWS = 1024
#: Labels and sizes of the networks of `tiny`.
TINY_LABELS: Final = ("health", "travel", "money", "leisure")
TINY: Final[dict[str, Any]] = {"labels": TINY_LABELS, "max_tokens": 8, "hidden": 16, "embedding": 8, "latent_dim": 4}


def alone(encoder: EncoderName, device: str) -> tuple[str, ...]:
    """Assumptions about the encoder of private texts; none if it embeds each text by itself."""
    return (IN_BATCHES,) if encoder == "sentence" and read_alone(encoder, device) else ()


class LatentSpec:
    """Settings of the network whose latent gets noise, with derived properties; `Adept` explains each setting.

    If `projected`, a layer maps the encoder's output to `latent_dim`.
    """

    __slots__ = ()

    labels: tuple[str, ...]
    clip_norm: float
    max_tokens: int
    hidden: int
    embedding: int
    min_count: int
    max_words: int
    decoding: Literal["constrained", "greedy"]
    epochs: int
    patience: int
    learning_rate: float
    device: str
    encoder: EncoderName
    precision: Literal["float32", "bfloat16"] = "float32"
    projected: bool = True

    @property
    @abstractmethod
    def vector_noise(self) -> VectorNoise:
        """The noise on a latent."""

    @property
    def latent_dim(self) -> int:
        """Coordinates of the latent. Unless a setting gives the number: the LSTM's final hidden and cell state."""
        return 2 * self.hidden

    def check_network(self) -> None:
        """Raise ConfigError for an impossible network or an unknown value of a setting; make labels a tuple."""
        _validate.positive(clip_norm=self.clip_norm, learning_rate=self.learning_rate)
        counts = ("max_tokens", "hidden", "embedding", "min_count", "max_words", "epochs", "patience")
        _validate.count(**{name: getattr(self, name) for name in counts})
        check_choices(self)
        if self.projected:
            _validate.within(2, 4096, latent_dim=self.latent_dim)
        fill(self, labels=_validate.labels(self.labels))

    @property
    def model_settings(self) -> net.NetworkSettings:
        """The settings of the network and of its training on public text."""
        return settings_for(net.NetworkSettings, self)

    @property
    def schedule(self) -> net.Schedule:
        """The schedule of the training on public text."""
        return net.Schedule(self.epochs, self.patience, learning_rate=self.learning_rate)

    def trained(self, texts: Sequence[Record], **how: Any) -> net.AnnotatedModel:
        """Return the network, trained by `dptext_lab.adept.net.fit_model`."""
        return net.fit_model(self.model_settings, texts, **how)

    def loaded(self, folder: Path, **trainings: Any) -> net.AnnotatedModel:
        """Return the network saved in the folder; `dptext_lab.adept.net.load_fitted` checks its training."""
        return net.load_fitted(self.model_settings, folder, **trainings)


Spec_co = TypeVar("Spec_co", bound=LatentSpec, covariant=True)


def vector_noise(spec: LatentSpec, name: NoiseName, epsilon: float, delta: float) -> Noise:
    """Return the noise for clipped latents of the spec's network; only `gaussian` reads delta."""
    dim, clip_norm = spec.latent_dim, spec.clip_norm
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


def told(on_progress: OnProgress | None, *, losses: bool = True) -> Callable[[net.EpochProgress], None] | None:
    """Return the callback after each epoch; without `losses` it tells nothing that depends on private texts."""
    if on_progress is None:
        return None

    def tell(at: net.EpochProgress) -> None:
        note = f"loss {at.loss:.3g}, held out {at.held_out:.3g}" if losses else ""
        on_progress(FitProgress(at.epoch, at.epochs, "epochs", note))

    return tell


class LatentMechanism(OnModel[Spec_co]):
    """A spec with its network. Frozen."""

    __slots__ = ()

    model: net.AnnotatedModel

    def reconstruction_losses(self, records: Sequence[Record]) -> Floats:
        """Loss per token of decoding each record from its own latent without noise, `(n,)`: for audits, private."""
        return self.model.losses(records)


class Rewriter(LatentMechanism[Spec_co]):
    """A fitted network with noise on its latent, whose density is known (`HasLatent`)."""

    __slots__ = ("_noise",)

    def __init__(self, spec: Spec_co, model: net.AnnotatedModel) -> None:
        super().__init__(spec, model)
        self._noise = spec.vector_noise

    def latent(self, records: Sequence[Record]) -> Floats:
        """Clipped latents `(n_records, dim)`."""
        return self.model.latents(records)

    def release(self, latents: Floats, randomness: Randomness) -> Floats:
        """Latents with the mechanism's noise."""
        found = np.empty_like(latents, dtype=np.float64)
        for source, here in blocks_of(randomness, [1] * len(latents), _ROWS):
            found[here] = self._noise.release(latents[here], source)
        return found

    def log_density(self, released: Floats, latents: Floats) -> Floats:
        """Log density `(rows,)` of `released` given `latents`, up to a term that depends on `released` alone."""
        return self._noise.log_density(released, latents)

    def write(self, latents: Floats) -> list[tuple[str | None, str]]:
        """Decode latents `(n, dim)` as they are to label and text. A label that the decoder does not write is None."""
        return self.model.write(latents, net.Decoding(constrained=self.spec.decoding == "constrained"))

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one utterance and label a record: encode, clip, add noise, decode."""
        return written(records, self.write(self.release(self.latent(records), randomness)))


class ClippedRewriter(Rewriter[Spec_co]):
    """A rewriter that clips noisy latents again, to the ball on which its decoder was trained."""

    __slots__ = ()

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one utterance and label a record: encode, clip, add noise, clip again, decode."""
        noisy = clip(self.release(self.latent(records), randomness), self.spec.clip_norm)
        return written(records, self.write(noisy))


def written(records: Sequence[Record], texts: Sequence[tuple[str | None, str]]) -> Releases:
    """The releases of records from their labels and texts."""
    return Batch.of(records).released([text for _, text in texts], labels=[label for label, _ in texts])
