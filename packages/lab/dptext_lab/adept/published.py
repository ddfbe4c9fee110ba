"""ADePT as published (Krishna, Gupta and Dupuy 2021, EACL), for comparison and audits. No guarantee.

The publication has two faults. The noise is scaled for an L1 distance of 2C, while two latents clipped in L2 differ by
up to 2C sqrt(n) in L1 (Habernal 2021, EMNLP). And the auto-encoder is trained on the very texts that it rewrites: even
correctly scaled noise on the latent would not protect texts that the decoder has memorized.

The paper gives no sizes. These are those of the replication by Igamberdiev and Habernal (2022, COLING). The latent is
made of the LSTM's final hidden and cell state, so that n = 2 * hidden = 256.
"""

import math
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self

from dptext import _validate
from dptext.errors import ConfigError, NoGuaranteeError
from dptext.mechanism import Learns, OnProgress, Traits
from dptext.mechanisms.bases import NoGuarantee
from dptext.privacy.guarantee import Trust, Unit
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext_lab.adept import latent
from dptext_lab.adept.latent import LatentSpec, Rewriter
from dptext_lab.adept.published_noise import ClassicalGaussian, PublishedLaplace

_PRIVATE = "private text, without protection"


@dataclass(frozen=True, slots=True)
class PublishedAdept(LatentSpec, NoGuarantee):
    """ADePT with the published noise, trained on the private text itself.

    Use:
        Take it to reproduce the paper, never to protect.
        Set first: variance, claimed_epsilon, labels.

    Guarantee:
        None (basis NONE). The certificate states two epsilons: the authors' claim, and the true epsilon of their noise
        for any two latents. The latter is no guarantee either, because the model was trained on the private text.
        Running it needs `without_guarantee=True`.

    Attributes:
        variance: variance of the noise on a coordinate; the paper sweeps .25 to 1. Or give claimed_epsilon.
        claimed_epsilon: the epsilon that the authors would claim.
        noise: `laplace` or `gaussian`.
        delta: the delta that is claimed for `gaussian`; the paper names none.
        labels: the set of labels; empty for unlabelled text.
        clip_norm: C. The paper does not give a value.
        max_tokens: the number of words of a text that are read, and written, at most.
        hidden: units of the LSTM; the latent has twice as many coordinates.
        embedding, min_count, max_words, epochs, patience, learning_rate, device: as in `Adept`.
        decoding: `greedy` as published, or `constrained`, which the paper suggests against repetitions.
    """

    unit: ClassVar[Unit] = Unit.DOCUMENT
    encoder = "lstm"
    projected = False

    variance: float | None = None
    claimed_epsilon: float | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    delta: float = 1e-5
    labels: tuple[str, ...] = ()
    clip_norm: float = 1.0
    max_tokens: int = 46
    hidden: int = 128
    embedding: int = 128
    min_count: int = 1
    max_words: int = 50_000
    decoding: Literal["constrained", "greedy"] = "greedy"
    epochs: int = 40
    patience: int = 5
    learning_rate: float = 3e-3
    device: str = "cpu"
    kind: Literal["published_adept"] = field(default="published_adept", init=False)

    def __post_init__(self) -> None:
        if (self.variance is None) == (self.claimed_epsilon is None):
            raise ConfigError("Expected one of variance=... and claimed_epsilon=..., which decide each other.")
        scale = {"variance": self.variance, "claimed_epsilon": self.claimed_epsilon}
        _validate.positive(delta=self.delta, **{name: value for name, value in scale.items() if value is not None})
        _validate.probability(delta=self.delta)
        self.check_network()

    @property
    def traits(self) -> Traits:
        """The published mechanism is trained on the texts that it rewrites."""
        reads = bool(self.labels)
        return Traits(Learns.EITHER, trains=True, labels=self.labels, reads_labels=reads, trust=Trust.CENTRAL)

    @property
    def reason(self) -> str:
        """The reason states both epsilons."""
        noise = self.vector_noise
        at = f" at delta {self.delta:g}" if self.noise == "gaussian" else ""
        return (
            f"claimed epsilon {noise.claimed.epsilon:.4g}{at}, true epsilon of the noise {noise.true_epsilon:.4g}{at} "
            f"in {2 * self.hidden} dimensions; and as published the auto-encoder is trained on the very texts that it "
            "rewrites"
        )

    @property
    def vector_noise(self) -> PublishedLaplace | ClassicalGaussian:
        """The published noise; its `claimed` and `true_epsilon` hold for two latents."""
        dim = 2 * self.hidden
        if self.noise == "laplace":
            claimed = self.claimed_epsilon or 2 * self.clip_norm / math.sqrt((self.variance or 0.0) / 2)
            return PublishedLaplace(claimed, dim, self.clip_norm)
        classical = 2 * self.clip_norm * math.sqrt(2 * math.log(1.25 / self.delta))
        claimed = self.claimed_epsilon or classical / math.sqrt(self.variance or 0.0)
        return ClassicalGaussian(claimed, self.delta, dim, self.clip_norm)

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> NoReturn:
        """Refused (NoGuaranteeError): no noise makes this mechanism private; see `Adept`."""
        raise NoGuaranteeError("published_adept has no epsilon to calibrate to: use adept, or set claimed_epsilon.")

    def fit(
        self,
        *,
        public: Iterable[Record] = (),
        private: Iterable[Record] = (),
        seed: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> "PublishedAdeptMechanism":
        """Train without noise, but with clipping, on the private records if there are any, else on the public records.

        ConfigError: fewer than two records, or both kinds.
        """
        texts, others = as_records(private), as_records(public)
        if texts and others:
            raise ConfigError("Expected private=... or public=..., not both: the paper trains on what it rewrites.")
        seed, told = secrets.randbits(32) if seed is None else seed, latent.told(on_progress, losses=not texts)
        how: dict[str, Any] = {"noise": None, "training": _PRIVATE if texts else "public text"}
        return PublishedAdeptMechanism(self, self.trained(texts or others, seed=seed, on_epoch=told, **how))

    def load(self, folder: Path) -> "PublishedAdeptMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        return PublishedAdeptMechanism(self, self.loaded(folder, trainings=(_PRIVATE, "public text")))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """A small network."""
        return (cls(variance=1.0, labels=latent.TINY_LABELS, max_tokens=8, hidden=8, embedding=8, epochs=1),)


class PublishedAdeptMechanism(Rewriter[PublishedAdept]):
    """A `PublishedAdept` with its network. Immutable; its latent has a known density (`HasLatent`)."""

    __slots__ = ()

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the network and of its training text; none after training on private text.

        Certificates show digests: somebody who knows the seed and all private records but one could test guesses of
        that record.
        """
        return {} if self.model.training == _PRIVATE else super().digests
