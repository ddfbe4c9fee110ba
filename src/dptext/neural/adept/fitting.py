"""Fits ADePT's auto-encoder to public records."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from dptext.embeddings.devices import require_device, seeded_torch
from dptext.embeddings.distilled import distil
from dptext.embeddings.encoders import load_encoder
from dptext.embeddings.torch_network import TorchPrecision
from dptext.errors import ConfigError
from dptext.neural.adept.model import PUBLIC, AnnotatedModel, Reader, network_inputs
from dptext.neural.adept.network import AutoEncoder
from dptext.neural.adept.settings import NetworkSettings
from dptext.neural.adept.training import EpochProgress, LatentNoise, train
from dptext.neural.tokens import Tokens
from dptext.text.records import Record, records_digest


def fit_model(
    settings: NetworkSettings,
    public: Sequence[Record],
    *,
    noise: LatentNoise | None,
    seed: int | None,
    device: str,
    precision: TorchPrecision,
    training: str = PUBLIC,
    on_epoch: Callable[[EpochProgress], None] | None = None,
) -> AnnotatedModel:
    """Vocabulary and weights from these records alone.

    Raises:
        ConfigError: there are fewer than two records, or the device is not here.
        MissingExtraError: the sentence encoder is not installed.
    """
    require_device(device)
    if len(public) < 2:
        raise ConfigError(f"Expected at least 2 public records to fit on, found {len(public)}: give public=...")
    seed = secrets.randbits(32) if seed is None else seed
    tokens = Tokens.from_public(
        [record.text for record in public],
        labels=settings.labels,
        max_tokens=settings.max_tokens,
        min_count=settings.min_count,
        max_words=settings.max_words,
    )
    reader = _reader(settings, [record.text for record in public], device=device)
    with seeded_torch(seed):
        model = AutoEncoder(settings.architecture(tokens, reader.dim if reader else 0)).to(device)
        train(
            model,
            network_inputs(tokens, reader, public),
            tokens.sequences(public),
            schedule=settings.schedule,
            seed=seed,
            noise=noise,
            device=device,
            on_epoch=on_epoch,
        )
    return AnnotatedModel(
        model,
        tokens,
        reader,
        device=device,
        precision=precision,
        trained_on=records_digest(public),
        training=training,
    )


def _reader(settings: NetworkSettings, public: Sequence[str], *, device: str) -> Reader | None:
    match settings.encoder:
        case "lstm":
            return None
        case "sentence":
            return load_encoder("sentence", device=device)
        case "distilled":
            teacher = load_encoder("sentence", device=device)
            return distil(teacher, public, max_tokens=settings.max_tokens, min_count=settings.min_count)
