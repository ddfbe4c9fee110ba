"""A fitted auto-encoder of annotated utterances, as mechanisms use it: from records to latents to utterances.

A saved model is a file of weights (safetensors), and a file of sizes and vocabulary (JSON). Neither holds code. The
JSON has a checksum of both files. `Candidates(ranker="adept")` reads the files outside the seal of a saved model, and
its guarantee relies on their statement about the training text. So the checksum must reveal accidental edits. The
checksum is no signature: anybody who can write both files can write a fitting checksum.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save

from dptext.embeddings.distilled import DistilledEncoder
from dptext.embeddings.encoders import Encoder
from dptext.embeddings.torch_network import TorchPrecision
from dptext.errors import ConfigError
from dptext.frozen import Frozen
from dptext.text.files import write_private
from dptext.text.inputs import SAVE_AGAIN, reading_saved
from dptext.text.records import Record
from dptext.types import Floats
from dptext_lab.adept.net.decoding import Decoder, Decoding
from dptext_lab.adept.net.network import AutoEncoder, Encoding
from dptext_lab.adept.net.training import reconstruction_losses, writing_losses
from dptext_lab.nets.tokens import Tokens
from dptext_lab.nets.weights import network_digest, weights_of

WEIGHTS_FILE, SIZES_FILE = "weights.safetensors", "autoencoder.json"
FORMAT = "dptext annotated auto-encoder"
VERSION = 2
#: An encoder that reads texts instead of an LSTM.
Reader: TypeAlias = Encoder | DistilledEncoder
#: The training of a model that has seen public text only.
PUBLIC = "public text"
#: Names of a distilled encoder's arrays among the weights.
PUPIL, PUPIL_PARTS = "distilled.", ("rarity", "weights", "offset")


def read_files(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Read the JSON (without its checksum) and the weights. ConfigError: absent, edited, another version or kind."""
    path = folder / SIZES_FILE
    with reading_saved(f"the auto-encoder {path}"):
        described = json.loads(path.read_bytes())
        if described["format"] != FORMAT:
            raise ValueError
        version = described.get("version")
        if version != VERSION:
            raise ConfigError(f"Expected version {VERSION} of {path}, found {version!r}. {SAVE_AGAIN}")
    with reading_saved(f"the weights {folder / WEIGHTS_FILE} and {SIZES_FILE}"):
        weights = (folder / WEIGHTS_FILE).read_bytes()
        if described.pop("checksum") != checksum(described, weights):
            raise ValueError
    return described, weights


def checksum(described: Mapping[str, Any], weights: bytes) -> str:
    """sha256 of the JSON (without the checksum, keys sorted) and of the weights."""
    found = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    found.update(hashlib.sha256(weights).digest())
    return found.hexdigest()


class AnnotatedModel(Frozen):
    """An auto-encoder with its vocabulary; immutable once fitted.

    A `reader`, if any, replaces an LSTM. `digest` is that of weights and vocabulary, `trained_on` that of the training
    text. Only a spec that names the same `training` loads the model: `PUBLIC`, or a mechanism's name for its own
    training on private text.
    """

    __slots__ = ("_decoder", "_encoding", "digest", "dim", "model", "reader", "tokens", "trained_on", "training")

    def __init__(
        self,
        model: AutoEncoder,
        tokens: Tokens,
        reader: Reader | None,
        *,
        precision: TorchPrecision = "float32",
        trained_on: str = "",
        training: str = PUBLIC,
    ) -> None:
        self.trained_on, self.training = trained_on, training
        self.tokens, self.reader = tokens, reader
        self.model, self.dim = model.eval(), model.sizes.latent_dim
        self._encoding = Encoding(self.model)
        self._decoder = Decoder(model, tokens, dtype=getattr(torch, precision))
        self.digest = network_digest(model, json.dumps([tokens.words, tokens.labels, tokens.max_tokens]))

    def __repr__(self) -> str:
        return f"AnnotatedModel(n_tokens={len(self.tokens)}, latent_dim={self.model.sizes.latent_dim})"

    @property
    def digests(self) -> dict[str, str]:
        """sha256 digests of the network, its training text, and the sentence encoder."""
        reader = "" if self.reader is None else self.reader.digest
        found = {"model": self.digest, "training text": self.trained_on, "sentence encoder": reader}
        return {name: digest for name, digest in found.items() if digest}

    def inputs(self, records: Sequence[Record]) -> NDArray[np.generic]:
        """The network's inputs `(n, ...)`; see `network_inputs`."""
        return network_inputs(self.tokens, self.reader, records)

    def latents(self, records: Sequence[Record]) -> Floats:
        """Clipped latents `(n, dim)`."""
        return self._encoding(self.inputs(records))

    def meanings(self, records: Sequence[Record]) -> Floats:
        """Unit vectors `(n, d)` of the texts for ranking: the reader's embeddings, else the latents' directions."""
        if self.reader is not None:
            return self.reader.embed([record.text for record in records])
        latents = self.latents(records)
        return np.asarray(latents / np.maximum(np.linalg.norm(latents, axis=1, keepdims=True), 1e-12))

    def write(self, latents: Floats, how: Decoding, *, seed: int = 0) -> list[tuple[str | None, str]]:
        """Label and text for each latent `(n, dim)`."""
        return self._decoder.decode(latents, how, seed=seed)

    def losses(self, records: Sequence[Record]) -> Floats:
        """Reconstruction loss per token of each record, `(n,)`."""
        return reconstruction_losses(self.model, self.inputs(records), self.tokens.sequences(records))

    def writing_losses(self, latents: Floats, records: Sequence[Record]) -> Floats:
        """Loss per token of decoding each record from the latent in the same row, `(n,)`."""
        return writing_losses(self.model, latents, self.tokens.sequences(records))

    def save(self, folder: Path) -> None:
        """Write weights and sizes as new files, readable by their owner alone, into an existing folder."""
        pupil = self.reader if isinstance(self.reader, DistilledEncoder) else None
        described: dict[str, Any] = {"format": FORMAT, "version": VERSION, "trained_on": self.trained_on}
        described |= {"training": self.training, "sizes": asdict(self.model.sizes)}
        described["tokens"] = described_tokens(self.tokens)
        described["distilled"] = None if pupil is None else {"words": pupil.words, "teacher": pupil.teacher}
        arrays = {} if pupil is None else {PUPIL + name: torch.from_numpy(getattr(pupil, name)) for name in PUPIL_PARTS}
        weights = save({**weights_of(self.model), **arrays})
        write_private(folder / WEIGHTS_FILE, weights)
        described["checksum"] = checksum(described, weights)
        write_private(folder / SIZES_FILE, json.dumps(described).encode())


def network_inputs(tokens: Tokens, reader: Reader | None, records: Sequence[Record]) -> NDArray[np.generic]:
    """The network's inputs `(n, ...)`: left-padded tokens, or the reader's vector and the label (zeros if unknown)."""
    if reader is None:
        return tokens.inputs(tokens.sequences(records))
    rows = tokens.label_rows([record.label for record in records])
    labels = (rows[:, None] == np.arange(len(tokens.labels))).astype(np.float64)
    return np.concatenate([reader.embed([record.text for record in records]), labels], axis=1)


def described_tokens(tokens: Tokens) -> dict[str, Any]:
    """The vocabulary in the form in which it is saved."""
    return {"words": list(tokens.words), "labels": list(tokens.labels), "max_tokens": tokens.max_tokens}
