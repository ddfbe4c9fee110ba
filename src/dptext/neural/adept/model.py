"""A fitted auto-encoder of annotated utterances, as mechanisms use it: records in, latents; latents in, utterances out.

Saved as safetensors (weights) and JSON (sizes and vocabulary); nothing in the files is code. The JSON has a checksum of
both files, so that neither can be cut short, edited or mixed up by mistake, least of all what the model was trained on.
It is a checksum and no signature: whoever writes both files can write one that fits.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dptext.embeddings.devices import require_device
from dptext.embeddings.sentence_encoder import SentenceEncoder, load_sentence_encoder
from dptext.errors import ConfigError, MissingExtraError
from dptext.frozen import Frozen
from dptext.neural.adept.distilled import DistilledEncoder, distil
from dptext.neural.adept.network import Architecture, AutoEncoder, Decoder, Decoding, encode
from dptext.neural.adept.training import Noise, Progress, Schedule, reconstruction_losses, train
from dptext.neural.tokens import Tokens
from dptext.text.files import create_private
from dptext.text.records import Record, records_digest
from dptext.types import Floats, Json

WEIGHTS_FILE, SIZES_FILE = "weights.safetensors", "autoencoder.json"
FORMAT = "dptext annotated auto-encoder"
VERSION = 2
#: What reads texts in the place of an LSTM.
Reader: TypeAlias = SentenceEncoder | DistilledEncoder
#: How a model was trained that has seen public text only.
PUBLIC = "public text"
_PUPIL, _PUPIL_PARTS = "distilled.", ("rarity", "weights", "offset")
_SAVE_AGAIN = "Fit and save the model again."


@dataclass(frozen=True, slots=True)
class Settings:
    """Public settings of the auto-encoder; see `dptext.mechanisms.adept.sound.Adept` for what each means."""

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


class AnnotatedModel(Frozen):
    """An auto-encoder with its vocabulary; immutable once fitted.

    Attributes:
        tokens: the public vocabulary.
        model: the network.
        device: where it computes.
        digest: sha256 of weights and vocabulary.
        trained_on: `records_digest` of the text that it was trained on.
        training: how it was trained, `PUBLIC` or what a mechanism that trains on private text calls it: a spec that
            promises more than that does not load it.
    """

    __slots__ = ("_decoder", "_sentences", "device", "digest", "model", "tokens", "trained_on", "training")

    def __init__(
        self,
        model: AutoEncoder,
        tokens: Tokens,
        sentences: Reader | None,
        *,
        device: str,
        precision: Literal["float32", "bfloat16"] = "float32",
        trained_on: str = "",
        training: str = PUBLIC,
    ) -> None:
        self.trained_on = trained_on
        self.training = training
        self.tokens = tokens
        self.model = model.eval()
        self.device = device
        self._sentences = sentences
        self._decoder = Decoder(model, tokens, device=device, dtype=getattr(torch, precision))
        self.digest = _digest(model, tokens)

    def __repr__(self) -> str:
        return f"AnnotatedModel(n_tokens={len(self.tokens)}, latent_dim={self.model.sizes.latent_dim})"

    @property
    def dim(self) -> int:
        """Coordinates of a latent."""
        return self.model.sizes.latent_dim

    @property
    def reader(self) -> Reader | None:
        """What reads texts in the place of an LSTM, if anything does."""
        return self._sentences

    @property
    def sentence_digest(self) -> str | None:
        """sha256 of the sentence encoder's weights, where there is one."""
        return None if self._sentences is None else self._sentences.digest

    @property
    def digests(self) -> dict[str, str]:
        """sha256 digests: of the network, of the text that it was trained on, of the sentence encoder."""
        found = {
            "model": self.digest,
            "training text": self.trained_on,
            "sentence encoder": self.sentence_digest or "",
        }
        return {name: digest for name, digest in found.items() if digest}

    def inputs(self, records: Sequence[Record]) -> NDArray[np.generic]:
        """What the network reads: left-padded tokens, or sentence embedding and label, `(n, ...)`."""
        if self._sentences is None:
            return self.tokens.inputs(self.tokens.sequences(records))
        return _features(self._sentences, self.tokens, records)

    def latents(self, records: Sequence[Record]) -> Floats:
        """Clipped latents `(n, dim)`."""
        return encode(self.model, self.inputs(records), device=self.device)

    def meanings(self, records: Sequence[Record]) -> Floats:
        """Unit vectors `(n, d)` of the texts for ranking: sentence embeddings, else the directions of the latents."""
        if self._sentences is not None:
            return self._sentences.embed([record.text for record in records])
        latents = self.latents(records)
        return np.asarray(latents / np.maximum(np.linalg.norm(latents, axis=1, keepdims=True), 1e-12))

    @property
    def meaning_dim(self) -> int:
        """Coordinates of a meaning."""
        return self.dim if self._sentences is None else self._sentences.dim

    def write(self, latents: Floats, how: Decoding, *, seed: int = 0) -> list[tuple[str | None, str]]:
        """Label and text for each latent `(n, dim)`."""
        return self._decoder.decode(latents, how, seed=seed)

    def losses(self, records: Sequence[Record]) -> Floats:
        """Reconstruction loss per token of each record, `(n,)`."""
        sequences = self.tokens.sequences(records)
        return reconstruction_losses(self.model, self.inputs(records), sequences, device=self.device)

    def writing_losses(self, latents: Floats, records: Sequence[Record]) -> Floats:
        """Loss per token of writing each record from the latent in the same row, `(n,)`."""
        found = np.empty(len(records))
        sequences = self.tokens.sequences(records)
        with torch.inference_mode():
            for rows in (slice(i, i + 256) for i in range(0, len(records), 256)):
                read = torch.from_numpy(latents[rows].astype(np.float32)).to(self.device)
                wanted = torch.from_numpy(sequences[rows]).to(self.device)
                found[rows] = self.model.losses(read, wanted).double().cpu().numpy()
        return found

    def save(self, folder: Path) -> None:
        """Write weights and sizes into an existing folder, in files that only their owner can read.

        Raises:
            ConfigError: they are there already, or cannot be written.
        """
        save = _safetensors()[0]
        state = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        pupil = self._sentences if isinstance(self._sentences, DistilledEncoder) else None
        weights = save(state if pupil is None else {**state, **_pupil_state(pupil)})
        described = {
            "format": FORMAT,
            "version": VERSION,
            "trained_on": self.trained_on,
            "training": self.training,
            "sizes": asdict(self.model.sizes),
            "tokens": _tokens_data(self.tokens),
            "distilled": None if pupil is None else {"words": pupil.words, "teacher": pupil.teacher},
        }
        described["checksum"] = _checksum(described, weights)
        with create_private(folder / WEIGHTS_FILE) as file:
            file.write(weights)
        with create_private(folder / SIZES_FILE) as file:
            file.write(json.dumps(described).encode())


def fit_model(
    settings: Settings,
    public: Sequence[Record],
    *,
    noise: Noise | None,
    seed: int | None,
    device: str,
    precision: Literal["float32", "bfloat16"],
    training: str = PUBLIC,
    on_epoch: Callable[[Progress], None] | None = None,
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
    sentences = _reader(settings, [record.text for record in public], device=device)
    targets = tokens.sequences(public)
    inputs: NDArray[np.generic] = tokens.inputs(targets) if sentences is None else _features(sentences, tokens, public)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoEncoder(_sizes(settings, tokens, sentences)).to(device)
        train(
            model,
            inputs,
            targets,
            schedule=settings.schedule,
            seed=seed,
            noise=noise,
            device=device,
            on_epoch=on_epoch,
        )
    return AnnotatedModel(
        model,
        tokens,
        sentences,
        device=device,
        precision=precision,
        trained_on=records_digest(public),
        training=training,
    )


def load_fitted(
    settings: Settings,
    folder: Path,
    *,
    device: str,
    precision: Literal["float32", "bfloat16"],
    trainings: Sequence[str] = (PUBLIC,),
) -> AnnotatedModel:
    """The model that `AnnotatedModel.save` wrote under the same settings, if it was trained in one of these ways.

    Raises:
        ConfigError: a file is absent, truncated, edited, of another version, no such model, or does not fit the
            settings; or the device is not here.
    """
    require_device(device)
    return _loaded(settings, folder, _described(folder), device=device, precision=precision, trainings=trainings)


def _loaded(
    settings: Settings,
    folder: Path,
    saved: tuple[dict[str, Any], bytes],
    *,
    device: str,
    precision: Literal["float32", "bfloat16"],
    trainings: Sequence[str],
) -> AnnotatedModel:
    """What `load_fitted` answers, of what `_described` found in the folder."""
    described, weights = saved
    try:
        words = described["tokens"]["words"]
        if not all(isinstance(word, str) for word in words):
            raise TypeError
        tokens = Tokens(tuple(words), settings.labels, settings.max_tokens)
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{folder / SIZES_FILE} lacks what a model needs: it was edited. {_SAVE_AGAIN}") from error
    if described.get("training") not in trainings:
        raise ConfigError(
            f"Expected the model in {folder} to be trained on {' or '.join(trainings)}: it was trained in another way, "
            "for which these settings promise too much. Load it under the settings it was fitted with."
        )
    load, failure = _safetensors()[1:]
    path = folder / WEIGHTS_FILE
    try:
        state = load(weights)
        if any(value.dtype != torch.float32 for value in state.values()):
            raise RuntimeError("weights of another type")
    except (failure, RuntimeError) as error:
        raise ConfigError(
            f"{path} does not hold the weights of this model: cut short or edited. {_SAVE_AGAIN}"
        ) from error
    if not all(bool(torch.isfinite(value).all()) for value in state.values()):
        raise ConfigError(f"{path} holds weights that are no numbers. {_SAVE_AGAIN}")
    if (described.get("distilled") is not None) != (settings.encoder == "distilled"):
        raise ConfigError(f"The model in {folder} was made with another encoder than {settings.encoder}. {_SAVE_AGAIN}")
    sentences: Reader | None = None
    if settings.encoder == "sentence":
        sentences = load_sentence_encoder(device=device)
    elif settings.encoder == "distilled":
        sentences = _saved_pupil(described.get("distilled"), state, settings.max_tokens, folder)
    sizes = _sizes(settings, tokens, sentences)
    if described["tokens"] != _tokens_data(tokens) or described.get("sizes") != asdict(sizes):
        raise ConfigError(f"The model in {folder} was made with other settings than these. {_SAVE_AGAIN}")
    model = AutoEncoder(sizes)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ConfigError(
            f"{path} does not hold the weights of this model: cut short or edited. {_SAVE_AGAIN}"
        ) from error
    return AnnotatedModel(
        model.to(device),
        tokens,
        sentences,
        device=device,
        precision=precision,
        trained_on=str(described.get("trained_on", "")),
        training=str(described["training"]),
    )


def load_autoencoder(folder: Path, *, device: str) -> AnnotatedModel:
    """The model in a folder under the settings that it names itself, if it was trained on public text alone.

    Raises:
        ConfigError: as `load_fitted`.
        MissingExtraError: the sentence encoder is not installed.
    """
    require_device(device)
    path = folder / SIZES_FILE
    described, weights = _described(folder)
    try:
        sizes, labels = Architecture(**described["sizes"]), described["tokens"]["labels"]
        numbers = [value for value in asdict(sizes).values() if isinstance(value, int)]
        if len(numbers) < 7 or min(numbers) < 0 or not all(isinstance(label, str) for label in labels):
            raise TypeError
        settings = Settings(
            labels=tuple(labels),
            encoder=("distilled" if described.get("distilled") else "sentence") if sizes.features else "lstm",
            latent_dim=sizes.latent_dim,
            clip_norm=float(sizes.clip_norm),
            max_tokens=int(described["tokens"]["max_tokens"]),
            hidden=sizes.hidden,
            embedding=sizes.embedding,
            min_count=1,  # this and what follows is of the training only
            max_words=len(described["tokens"]["words"]),
            projected=sizes.projected,
            schedule=Schedule(),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} lacks what a model needs: it was edited. {_SAVE_AGAIN}") from error
    return _loaded(settings, folder, (described, weights), device=device, precision="float32", trainings=(PUBLIC,))


def _reader(settings: Settings, public: Sequence[str], *, device: str) -> Reader | None:
    match settings.encoder:
        case "lstm":
            return None
        case "sentence":
            return load_sentence_encoder(device=device)
        case "distilled":
            teacher = load_sentence_encoder(device=device)
            return distil(teacher, public, max_tokens=settings.max_tokens, min_count=settings.min_count)


def _pupil_state(pupil: DistilledEncoder) -> dict[str, torch.Tensor]:
    return {_PUPIL + name: torch.from_numpy(getattr(pupil, name)) for name in _PUPIL_PARTS}


def _saved_pupil(described: object, state: dict[str, torch.Tensor], max_tokens: int, folder: Path) -> DistilledEncoder:
    """The pupil of the state, whose parts are taken out of it."""
    try:
        rarity, weights, offset = (state.pop(_PUPIL + name).numpy() for name in _PUPIL_PARTS)
        words, teacher = described["words"], described["teacher"]  # type: ignore[index]  # what is none is refused below
        if not all(isinstance(text, str) for text in (*words, teacher)):
            raise TypeError
        if (len(words),) != rarity.shape or (len(words), len(offset)) != weights.shape:
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"The model in {folder} lacks its distilled encoder. {_SAVE_AGAIN}") from error
    return DistilledEncoder(tuple(words), rarity, weights, offset, max_tokens, teacher)


def _features(sentences: Reader, tokens: Tokens, records: Sequence[Record]) -> Floats:
    """Embedding and label side by side, `(n, dim + n_labels)`; no label known is a row of zeros."""
    rows = tokens.label_rows([record.label for record in records])
    labels = (rows[:, None] == np.arange(len(tokens.labels))).astype(np.float64)
    return np.concatenate([sentences.embed([record.text for record in records]), labels], axis=1)


def _sizes(settings: Settings, tokens: Tokens, sentences: Reader | None) -> Architecture:
    return Architecture(
        n_tokens=len(tokens),
        length=tokens.length,
        latent_dim=settings.latent_dim,
        hidden=settings.hidden,
        embedding=settings.embedding,
        clip_norm=settings.clip_norm,
        features=0 if sentences is None else sentences.dim + len(settings.labels),
        projected=settings.projected,
    )


def _tokens_data(tokens: Tokens) -> dict[str, Json]:
    return {"words": list(tokens.words), "labels": list(tokens.labels), "max_tokens": tokens.max_tokens}


def _described(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The JSON of a folder and the bytes of its weights, as they were saved together."""
    path = folder / SIZES_FILE
    try:
        described = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"Cannot read the model {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a JSON file: it was cut short or edited. {_SAVE_AGAIN}") from error
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise ConfigError(f"{path} is not the file of an auto-encoder. {_SAVE_AGAIN}")
    if described.get("version") != VERSION:
        raise ConfigError(f"Expected version {VERSION} of {path}, found {described.get('version')!r}. {_SAVE_AGAIN}")
    try:
        weights = (folder / WEIGHTS_FILE).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"Cannot read the weights {folder / WEIGHTS_FILE}: {error.strerror}. {_SAVE_AGAIN}"
        ) from error
    if described.pop("checksum", None) != _checksum(described, weights):
        raise ConfigError(f"{path} or {WEIGHTS_FILE} beside it was cut short or edited. {_SAVE_AGAIN}")
    return described, weights


def _checksum(described: Mapping[str, Any], weights: bytes) -> str:
    """Of what the JSON says besides it, in one order of keys, and of the weights."""
    found = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    found.update(hashlib.sha256(weights).digest())
    return found.hexdigest()


def _digest(model: AutoEncoder, tokens: Tokens) -> str:
    found = hashlib.sha256(json.dumps([tokens.words, tokens.labels, tokens.max_tokens]).encode())
    for name, value in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _safetensors() -> tuple[Callable[..., bytes], Callable[..., dict[str, torch.Tensor]], type[Exception]]:
    try:
        from safetensors import SafetensorError  # noqa: PLC0415 (an extra)
        from safetensors.torch import load, save  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "Saving and loading a network needs safetensors. Run: pip install torch==2.13.0 'dptext[neural]'"
        ) from error
    return save, load, SafetensorError
