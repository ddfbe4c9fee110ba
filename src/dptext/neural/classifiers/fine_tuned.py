"""A sentence encoder fine-tuned as a classifier of texts, and as an embedder for their subject.

It takes the mean-pooled vectors of the encoder through one linear layer. As an attacker it learns from redacted texts
of two kinds and scores others. As an embedder it learns the topics of public texts; its vectors differ more between
these topics than the encoder's own::

    model = fine_tune(texts, labels, schedule=FineTuning(epochs=1), seed=0)
    model.log_probabilities(others)            # (n_texts, n_labels)
    medical = model.encoder("all-MiniLM-L6-v2 on medical topics")    # an Embedder

What was trained on private text, redacted or not, is as private as the text. It is a measuring device and no mechanism,
and nothing of it may be released. Only an encoder that learned from public text may be saved.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

import numpy as np
import torch

from dptext import _validate
from dptext.embeddings.sentence_encoder import SentenceEncoder
from dptext.embeddings.torch_network import TorchNetwork, TorchPrecision, word_pieces
from dptext.errors import ConfigError
from dptext.types import Floats

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_INFERENCE_BATCH: Final = 128


@dataclass(frozen=True, slots=True)
class FineTuning:
    """How long, how fast, and how much of the encoder.

    Attributes:
        epochs: passes over the texts.
        batch_size: texts a step.
        max_tokens: word pieces of a text that are read, the marks at its ends included.
        learning_rate: the highest one of the encoder. It rises over the first tenth of the steps, then falls to 0. The
            layer on top learns 20 times as fast.
        top_layers: number of transformer layers that learn, from the top. The other layers and the embeddings of word
            pieces keep their weights. None: everything learns, which takes about twice as long as two layers.
        precision: "bfloat16" for the matrix products.

    Raises:
        ConfigError: a setting out of its range.
    """

    epochs: int = 1
    batch_size: int = 32
    max_tokens: int = 64
    learning_rate: float = 1e-4
    top_layers: int | None = 2
    precision: TorchPrecision = "float32"

    def __post_init__(self) -> None:
        _validate.count(epochs=self.epochs, batch_size=self.batch_size)
        _validate.positive(learning_rate=self.learning_rate)
        _validate.within(3, 8192, max_tokens=self.max_tokens)
        if self.top_layers is not None:
            _validate.count(top_layers=self.top_layers)
        if self.precision not in get_args(TorchPrecision):
            raise ConfigError(f"Expected precision={self.precision!r} to be float32 or bfloat16.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FineTuned:
    """A fine-tuned classifier. Its `repr` shows nothing of the texts.

    Attributes:
        labels: those of the training texts, sorted; the columns of its scores.
        schedule: how it was trained.
        model: the encoder.
        head: the layer on top.
    """

    labels: tuple[str, ...]
    schedule: FineTuning
    model: SentenceTransformer
    head: torch.nn.Linear

    def __repr__(self) -> str:
        return f"FineTuned({len(self.labels)} labels)"

    def log_probabilities(self, texts: Sequence[str]) -> Floats:
        """Logarithms of the softmax scores, `(n_texts, n_labels)`, in double."""
        found = np.empty((len(texts), len(self.labels)))
        pieces = piece_numbers(self.model, texts, self.schedule.max_tokens)
        order = sorted(range(len(texts)), key=lambda i: len(pieces[i]))
        with torch.no_grad(), autocast(self.model, self.schedule):
            for start in range(0, len(order), _INFERENCE_BATCH):
                rows = order[start : start + _INFERENCE_BATCH]
                logits = logits_of(self.model, self.head, [pieces[i] for i in rows])
                found[rows] = torch.log_softmax(logits.double(), dim=1).cpu().numpy()
        return found

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Softmax scores `(n_texts, n_labels)`; each row sums to 1."""
        return np.exp(self.log_probabilities(texts))

    def encoder(self, name: str) -> SentenceEncoder:
        """The fine-tuned encoder as an `Embedder` of mean-pooled unit vectors.

        Args:
            name: what identifies it in reports, such as "all-MiniLM-L6-v2 on medical topics".
        """
        digest = hashlib.sha256()
        for key, weights in sorted(self.model.state_dict().items()):
            digest.update(key.encode() + b"\n" + np.ascontiguousarray(weights.cpu().numpy()).tobytes())
        dim = int(self.head.in_features)
        return SentenceEncoder(name, dim, digest.hexdigest(), "float32", TorchNetwork(self.model))


def piece_numbers(model: SentenceTransformer, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
    """Numbers of the first word pieces of each text."""
    limit = min(max_tokens, model.max_seq_length or max_tokens)
    return word_pieces(model, texts, limit=limit)["input_ids"] if texts else []


def logits_of(model: SentenceTransformer, head: torch.nn.Linear, pieces: Sequence[Sequence[int]]) -> torch.Tensor:
    """Logits `(batch, n_labels)` of padded texts: the layer on top reads the mean over the word pieces."""
    ids = torch.full((len(pieces), max(map(len, pieces))), model.tokenizer.pad_token_id or 0)
    mask = torch.zeros_like(ids)
    for row, own in enumerate(pieces):
        ids[row, : len(own)] = torch.tensor(own)
        mask[row, : len(own)] = 1
    features = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
    vectors = torch.nn.functional.normalize(model(features)["sentence_embedding"].float(), dim=-1)
    # Unit vectors have coordinates of about 1/sqrt(dim): the layer would first have to learn large weights.
    logits: torch.Tensor = head(vectors * math.sqrt(vectors.shape[1]))
    return logits


def autocast(model: SentenceTransformer, schedule: FineTuning) -> torch.autocast:
    """The precision of the schedule, where the model computes."""
    return torch.autocast(model.device.type, torch.bfloat16, enabled=schedule.precision == "bfloat16")
