"""Fitting of ADePT's auto-encoder to public records, and loading of a saved one."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dptext.embeddings.devices import require_device
from dptext.embeddings.distilled import DistilledEncoder, distil
from dptext.embeddings.encoders import load_encoder
from dptext.embeddings.torch_network import TorchPrecision
from dptext.errors import ConfigError
from dptext.text.inputs import reading_saved
from dptext.text.records import Record, records_digest
from dptext_lab.adept.net.model import (
    PUBLIC,
    PUPIL,
    PUPIL_PARTS,
    AnnotatedModel,
    Reader,
    described_tokens,
    network_inputs,
    read_files,
)
from dptext_lab.adept.net.network import Architecture, AutoEncoder
from dptext_lab.adept.net.training import EpochProgress, LatentNoise, Schedule, train
from dptext_lab.nets.seeds import seeded_torch
from dptext_lab.nets.tokens import Tokens
from dptext_lab.nets.weights import read_weights


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """A spec's settings of the network. `dptext_lab.Adept` explains each."""

    labels: tuple[str, ...]
    encoder: Literal["sentence", "distilled", "lstm"]
    latent_dim: int
    clip_norm: float
    max_tokens: int
    hidden: int
    embedding: int
    min_count: int
    max_words: int
    projected: bool
    schedule: Schedule
    device: str = "cpu"
    precision: TorchPrecision = "float32"

    def architecture(self, tokens: Tokens, read_dim: int) -> Architecture:
        """Sizes of the network. `read_dim` is the reader's number of coordinates, 0 if an LSTM reads the texts."""
        features = read_dim + len(self.labels) if read_dim else 0
        sizes = (len(tokens), tokens.length, self.latent_dim, self.hidden, self.embedding)
        return Architecture(*sizes, self.clip_norm, features, self.projected)


def fit_model(
    settings: NetworkSettings,
    public: Sequence[Record],
    *,
    noise: LatentNoise | None,
    seed: int | None,
    training: str = PUBLIC,
    on_epoch: Callable[[EpochProgress], None] | None = None,
) -> AnnotatedModel:
    """Fit vocabulary and weights to these records alone. ConfigError: fewer than two records, or no such device."""
    require_device(settings.device)
    if len(public) < 2:
        raise ConfigError(f"Expected at least 2 public records to fit on, found {len(public)}: give public=...")
    seed, texts = secrets.randbits(32) if seed is None else seed, [record.text for record in public]
    counts = {"min_count": settings.min_count, "max_words": settings.max_words}
    tokens = Tokens.from_public(texts, labels=settings.labels, max_tokens=settings.max_tokens, **counts)
    reader = _reader(settings, texts)
    with seeded_torch(seed):
        model = AutoEncoder(settings.architecture(tokens, reader.dim if reader else 0)).to(settings.device)
        read, wanted = network_inputs(tokens, reader, public), tokens.sequences(public)
        train(model, read, wanted, schedule=settings.schedule, seed=seed, noise=noise, on_epoch=on_epoch)
    known: dict[str, Any] = {"trained_on": records_digest(public), "training": training}
    return AnnotatedModel(model, tokens, reader, precision=settings.precision, **known)


def _reader(settings: NetworkSettings, public: Sequence[str]) -> Reader | None:
    if settings.encoder == "lstm":
        return None
    encoder = load_encoder("sentence", device=settings.device)
    if settings.encoder == "sentence":
        return encoder
    return distil(encoder, public, max_tokens=settings.max_tokens, min_count=settings.min_count)


def load_fitted(settings: NetworkSettings, folder: Path, *, trainings: Sequence[str] = (PUBLIC,)) -> AnnotatedModel:
    """Load the model that `AnnotatedModel.save` wrote under the same settings.

    ConfigError: a file is absent, truncated, edited, of another version, no such model, or does not fit the settings;
    or the model was trained in none of the ways `trainings`.
    """
    require_device(settings.device)
    described, weights = read_files(folder)
    reader = _reader(settings, ()) if settings.encoder == "sentence" else None
    with reading_saved(f"the auto-encoder in {folder}"):
        words, state = described["tokens"]["words"], read_weights(weights)
        if not all(isinstance(word, str) for word in words) or any(v.dtype != torch.float32 for v in state.values()):
            raise ValueError
        if described["training"] not in trainings:
            raise ConfigError(
                f"Expected the model in {folder} to be trained on {' or '.join(trainings)}: it was trained in another "
                "way, for which these settings promise too much. Load it under the settings it was fitted with."
            )
        if (described.get("distilled") is not None) != (settings.encoder == "distilled"):
            raise ValueError
        if settings.encoder == "distilled":
            reader = _saved_pupil(described["distilled"], state, settings.max_tokens)
        tokens = Tokens(tuple(words), settings.labels, settings.max_tokens)
        sizes = settings.architecture(tokens, reader.dim if reader else 0)
        if described["tokens"] != described_tokens(tokens) or described["sizes"] != asdict(sizes):
            raise ValueError
        model = AutoEncoder(sizes)
        model.load_state_dict(state)
    known: dict[str, Any] = {"trained_on": str(described.get("trained_on", "")), "training": str(described["training"])}
    return AnnotatedModel(model.to(settings.device), tokens, reader, precision=settings.precision, **known)


def load_autoencoder(folder: Path, *, device: str) -> AnnotatedModel:
    """Load the model in a folder by its own settings. It must be trained on public text. Errors: see `load_fitted`."""
    described, _ = read_files(folder)
    with reading_saved(f"the auto-encoder in {folder}"):
        sizes, tokens = Architecture(**described["sizes"]), described["tokens"]
        numbers = [value for value in asdict(sizes).values() if isinstance(value, int)]
        if len(numbers) < 7 or min(numbers) < 0 or not all(isinstance(label, str) for label in tokens["labels"]):
            raise ValueError
        encoder: Literal["sentence", "distilled", "lstm"] = "lstm"
        if sizes.features:
            encoder = "distilled" if described.get("distilled") else "sentence"
        settings = NetworkSettings(
            labels=tuple(tokens["labels"]),
            encoder=encoder,
            latent_dim=sizes.latent_dim,
            clip_norm=float(sizes.clip_norm),
            max_tokens=int(tokens["max_tokens"]),
            hidden=sizes.hidden,
            embedding=sizes.embedding,
            min_count=1,  # used in training only, like max_words and schedule
            max_words=len(tokens["words"]),
            projected=sizes.projected,
            schedule=Schedule(),
            device=device,
        )
    return load_fitted(settings, folder)


def _saved_pupil(described: Mapping[str, Any], state: dict[str, Tensor], max_tokens: int) -> DistilledEncoder:
    """Make the distilled encoder, and remove its arrays from the weights. ValueError: the arrays do not fit."""
    rarity, weights, offset = (state.pop(PUPIL + name).numpy() for name in PUPIL_PARTS)
    words, teacher = described["words"], described["teacher"]
    if not all(isinstance(text, str) for text in (*words, teacher)):
        raise ValueError
    if (len(words),) != rarity.shape or (len(words), len(offset)) != weights.shape:
        raise ValueError
    return DistilledEncoder(tuple(words), rarity, weights, offset, max_tokens, teacher)
