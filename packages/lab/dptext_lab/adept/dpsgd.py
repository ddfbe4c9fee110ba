"""ADePT trained on private text with DP-SGD: a central guarantee of the training and a local one of the release.

The network learns from public records first, then from private records by noisy gradients
(`dptext_lab.adept.net.private_training`), and then rewrites. The privacy loss of a record is composed of training and
release (derivations, "Training and release"). Both are accounted for under one relation, *replace one*. (opacus
accounts for adding or removing a record: a smaller epsilon of a weaker statement.) The trainer sees the private texts;
only the release is local.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from dptext import _validate
from dptext.errors import ConfigError
from dptext.mechanism import FitProgress, Learns, OnProgress, Traits
from dptext.mechanisms.bases import Lazy, OneUnit
from dptext.privacy import accounting
from dptext.privacy.events import Event, SampledGaussianEvent
from dptext.privacy.guarantee import Guarantee, Trust, Unit
from dptext.sampling.clipping import clip
from dptext.sampling.randomness import Randomness, secure, seeded
from dptext.text.reading import as_records
from dptext.text.records import Record, require_labels
from dptext.types import Floats
from dptext_lab.adept import latent
from dptext_lab.adept.latent import ClippedRewriter, LatentSpec

if TYPE_CHECKING:
    from dptext_lab.adept.net import private_training
else:
    private_training = Lazy("dptext_lab.adept.net.private_training")

#: Assumptions of the guarantee.
ASSUMPTIONS = (
    "the texts of the first training are public, and so are vocabulary, labels, sizes and all settings",
    "no text stands in more than one training record",
    "floats are taken for real numbers in the gradients and their noise",
)
NOT_TRAINED_ON = "the network was not trained on this text"


@dataclass(frozen=True, slots=True)
class AdeptDpSgd(LatentSpec, OneUnit):
    """Settings of rewriting utterances through a noisy latent by a network that was trained on private text.

    Use:
        Take it as adept, where the domain has no public text and a trainer may see the private.
        Set first: epsilon, delta, labels, private_rate.

    Guarantee:
        Unit DOCUMENT, relation replace one, trust CENTRAL: the trainer sees the private texts and must be trusted. Of
        two private collections that differ in one text with its label, trained network and rewritten text together have
        probabilities whose ratio is at most e^epsilon, up to delta. That holds for the texts that trained the network.
        A text that was rewritten but not trained on is protected by the release alone, locally, at `epsilon`. The
        number of training records is revealed. Gradient noise and sampling come from
        `dptext.sampling.randomness.secure`, whatever the seed.

    Attributes:
        epsilon: the privacy loss of one release, without the training; `guarantee()` states the loss of both.
        labels: the public set of labels; empty for unlabelled text.
        noise: the noise added to a latent, as in `Adept`; there is no codebook.
        release_delta: the part of delta that `gaussian` takes; 0 for the other noises.
        delta: the smallest delta at which training and release together are stated.
        noise_multiplier: standard deviation of the gradient noise, in units of gradient_clip.
        sampling_rate: the probability with which each step takes each record.
        steps: steps of the training on private text.
        gradient_clip: largest L2 norm of the gradient of one record.
        private_rate: learning rate of Adam in the training on private text.
        training_share: the share of a total epsilon that `calibrate` leaves to the training; public.
        encoder, latent_dim, clip_norm, max_tokens, hidden, embedding, min_count, max_words, decoding: as in `Adept`; a
            small network loses less to the noise.
        epochs, patience, learning_rate: the schedule of the training on public text, which comes first.
        device: "cpu", "cuda", ...
    """

    only: ClassVar[str] = "a text is trained on and released as a whole"
    reveals: ClassVar[tuple[str, ...]] = ("the number of training records",)

    epsilon: float
    labels: tuple[str, ...] = ()
    noise: Literal["privunit", "gaussian", "l2_laplace", "laplace_l1", "laplace_l2"] = "privunit"
    release_delta: float = 0.0
    delta: float = 1e-5
    noise_multiplier: float = 1.0
    sampling_rate: float = 0.05
    steps: int = 300
    gradient_clip: float = 0.5
    private_rate: float = 2e-3
    training_share: float = 0.5
    encoder: latent.EncoderName = "lstm"
    latent_dim: int = 16
    clip_norm: float = 1.0
    max_tokens: int = 24
    hidden: int = 128
    embedding: int = 64
    min_count: int = 2
    max_words: int = 20_000
    decoding: Literal["constrained", "greedy"] = "constrained"
    epochs: int = 14
    patience: int = 3
    learning_rate: float = 2e-3
    device: str = "cpu"
    kind: Literal["adept_dpsgd"] = field(default="adept_dpsgd", init=False)

    def __post_init__(self) -> None:
        positive = ("epsilon", "gradient_clip", "private_rate", "delta")
        _validate.positive(**{name: getattr(self, name) for name in positive})
        _validate.probability(delta=self.delta)
        self.check_network()
        if (self.noise == "gaussian") != (self.release_delta > 0):
            found = f"{self.release_delta!r} > 0 for noise='gaussian' and 0 for every other"
            raise ConfigError(f"Expected release_delta={found}, found {self.noise!r}.")
        if not 0 < self.training_share < 1:
            raise ConfigError(f"Expected training_share={self.training_share!r} between 0 and 1.")
        used = max(self.release_delta, accounting.slack(self.release_events))
        if self.delta <= used:
            raise ConfigError(f"Expected delta={self.delta!r} > {used:.3g}, what the release takes of it.")
        _ = self.training_event

    @property
    def traits(self) -> Traits:
        """The mechanism is trained on private text, and reads text and label of a record."""
        reads = bool(self.labels)
        return Traits(Learns.PRIVATE, trains=True, labels=self.labels, reads_labels=reads, trust=Trust.CENTRAL)

    @property
    def released(self) -> tuple[Event, ...]:
        """Events of the training and of one release. A ledger that adds two releases counts the training twice."""
        return (self.training_event, *self.release_events)

    @property
    def training_event(self) -> SampledGaussianEvent:
        """The event of the training on private text."""
        return SampledGaussianEvent(self.noise_multiplier, self.sampling_rate, self.steps)

    @property
    def vector_noise(self) -> latent.Noise:
        """The noise on a latent."""
        return latent.vector_noise(self, self.noise, self.epsilon, self.release_delta)

    @property
    def release_events(self) -> tuple[Event, ...]:
        """Events of one release of one utterance by the trained network; local."""
        return self.vector_noise.events

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of training and release together."""
        return (*ASSUMPTIONS, *latent.alone(self.encoder, self.device))

    def training_guarantee(self) -> Guarantee:
        """Guarantee of the trained network alone, at the spec's delta."""
        return self._stated((self.training_event,), self.delta)

    def release_guarantee(self) -> Guarantee:
        """Guarantee of one release for a text that the network was not trained on; local."""
        assumed = (NOT_TRAINED_ON, *latent.alone(self.encoder, self.device))
        events, delta = self.release_events, self.release_delta
        return self._stated(events, delta, trust=Trust.LOCAL, assumptions=assumed, reveals=())

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> "AdeptDpSgd":
        """Return the spec whose training and release together cost at most epsilon at delta (the spec's if delta is 0).

        The release gets `1 - training_share` of epsilon. ConfigError names the smallest epsilon that can be reached.
        """
        self.events(unit or Unit.DOCUMENT)
        _validate.positive(epsilon=epsilon)
        found = replace(self, epsilon=(1 - self.training_share) * epsilon, delta=delta or self.delta)
        release = found.release_events
        training = accounting.calibrate(
            self.training_event, epsilon, delta=found.delta, lifted=lambda event: (event, *release)
        )
        return replace(found, noise_multiplier=training.noise_multiplier)

    @property
    def private_schedule(self) -> "private_training.PrivateSchedule":
        """The settings of the training on private text."""
        how = (self.sampling_rate, self.noise_multiplier, self.steps, self.gradient_clip, self.private_rate)
        return private_training.PrivateSchedule(*how)

    def fit(
        self,
        *,
        public: Iterable[Record] = (),
        private: Iterable[Record] = (),
        seed: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> "AdeptDpSgdMechanism":
        """Train on public records, then with DP-SGD on private ones.

        `public` has at least two records, each with one of the labels if the spec has labels, else ConfigError; the
        public records give the vocabulary. `private` may be empty; a missing or unknown private label is read as no
        label. `seed` seeds the training on public records, and is drawn if None. Random numbers for private records are
        always fresh, so that the training on private records differs each time. `on_progress` is called after each
        epoch on public records and after each step on private records; it is not told the loss of private records.
        MissingExtraError: the sentence encoder is not installed.
        """
        seed = secrets.randbits(32) if seed is None else seed
        known, texts = as_records(public), as_records(private)
        require_labels(known, self.labels, "public")
        noise, public_bits, private_bits = self.vector_noise, seeded(seed), secure()

        # Training with this noise teaches the decoder what noisy latents look like. For private records the noise must
        # be secret, too: the coupling in `train_privately` takes its bits for random.
        def noisy(latents: Floats, source: Randomness = public_bits) -> Floats:
            return clip(noise.release(latents, source), self.clip_norm)

        model = self.trained(known, noise=noisy, seed=seed, on_epoch=latent.told(on_progress))

        def step(done: int, total: int) -> None:
            if on_progress is not None:
                on_progress(FitProgress(done, total, "steps on private text"))

        if texts:
            how: dict[str, Any] = {"randomness": private_bits, "noise": lambda latents: noisy(latents, private_bits)}
            schedule = self.private_schedule
            model = private_training.train_further(model, texts, schedule=schedule, on_step=step, **how)
        return AdeptDpSgdMechanism(self, model)

    def load(self, folder: Path) -> "AdeptDpSgdMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        model = self.loaded(folder, trainings=(self.private_schedule.name, "public text"))
        return AdeptDpSgdMechanism(self, model)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Small networks; the training costs little, so that audits of the release have power."""
        how: dict[str, Any] = {"epochs": 80, "patience": 80, "learning_rate": 2e-2}  # fewer, and all latents are alike
        small = cls(2.0, **latent.TINY, **how, noise_multiplier=20.0, sampling_rate=0.5, steps=2)
        return small, replace(small, noise="gaussian", release_delta=5e-6, labels=())


class AdeptDpSgdMechanism(ClippedRewriter[AdeptDpSgd]):
    """An `AdeptDpSgd` with its network. Immutable; its latent has a known density (`HasLatent`)."""

    __slots__ = ()
