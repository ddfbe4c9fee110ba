"""Fine-tuning of a sentence encoder, as a classifier of texts, or as an embedder for a subject.

One linear layer reads the encoder's mean-pooled vectors. Encoder and layer are trained together, by cross-entropy and
AdamW. As an attacker, the model learns from redacted texts of two kinds and scores other texts. As an embedder, it
learns the topics of public texts::

    model = fine_tune(texts, labels, schedule=FineTuning(epochs=1), seed=0)
    model.log_probabilities(others)            # (n_texts, n_labels)
    medical = model.encoder("all-MiniLM-L6-v2 on medical topics")    # an Embedder

A model trained on private text, redacted or not, is as private as the text: no part of it may be released. Only an
encoder that learned from public text may be saved.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

import numpy as np
import torch

from dptext import _validate
from dptext.embeddings.embedder import MINILM
from dptext.embeddings.sentence_encoder import SentenceEncoder, model_folder
from dptext.embeddings.torch_network import TorchNetwork, TorchPrecision, load_torch_model, word_pieces
from dptext.errors import ConfigError
from dptext.types import Booleans, Floats
from dptext_lab.nets.seeds import seeded_torch
from dptext_lab.nets.tokens import batches, require_converging

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_INFERENCE_BATCH: Final = 128
#: A callback after each epoch: its number from 1, the number of epochs, and the mean loss of its texts in nats.
OnEpoch = Callable[[int, int, float], None]
#: An attacker maps texts to scores `(n_texts,)`. A trainer makes it from texts of both sets (`audits.inference.trait`).
Attacker = Callable[[Sequence[str]], Floats]
TrainAttacker = Callable[[Sequence[str], Booleans, object, int], Attacker]
_CLIP: Final = 1.0
_WARM_UP: Final = 0.1
_WEIGHT_DECAY: Final = 0.01
#: The layer on top starts from random weights, so its rate is higher than the encoder's by this factor.
_HEAD_FACTOR: Final = 20.0


@dataclass(frozen=True, slots=True)
class FineTuning:
    """Settings of the fine-tuning.

    Attributes:
        epochs: number of passes over the texts.
        batch_size: number of texts per step.
        max_tokens: number of word pieces of a text that are read, including the marks at its ends.
        learning_rate: highest learning rate of the encoder. The rate rises over the first tenth of the steps, then
            falls to 0. The rate of the layer on top is 20 times as high.
        top_layers: number of transformer layers that learn, from the top. The other layers and the embeddings of word
            pieces keep their weights. None: all weights learn, which takes about twice as long as two layers.
        precision: precision of the matrix products, "float32" or "bfloat16".

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
    """The encoder with a layer on top. Columns of scores are the sorted labels. The `repr` shows no text or label."""

    labels: tuple[str, ...]
    schedule: FineTuning
    model: "SentenceTransformer"
    head: torch.nn.Linear

    def __repr__(self) -> str:
        return f"FineTuned({len(self.labels)} labels)"

    def log_probabilities(self, texts: Sequence[str]) -> Floats:
        """Logarithms of the softmax scores, `(n_texts, n_labels)`, in float64."""
        found = np.empty((len(texts), len(self.labels)))
        pieces = piece_numbers(self.model, texts, self.schedule.max_tokens)
        order = sorted(range(len(texts)), key=lambda i: len(pieces[i]))
        with torch.no_grad(), autocast(self.model, self.schedule):
            for start in range(0, len(order), _INFERENCE_BATCH):
                rows = order[start : start + _INFERENCE_BATCH]
                logits = logits_of(self.model, self.head, [pieces[i] for i in rows])
                found[rows] = torch.log_softmax(logits.double(), dim=1).cpu().numpy()
        return found

    def encoder(self, name: str) -> SentenceEncoder:
        """The fine-tuned encoder as an `Embedder` of mean-pooled unit vectors. `name` is its name in reports."""
        digest = hashlib.sha256()
        for key, weights in sorted(self.model.state_dict().items()):
            digest.update(key.encode() + b"\n" + np.ascontiguousarray(weights.cpu().numpy()).tobytes())
        dim = int(self.head.in_features)
        return SentenceEncoder(name, dim, digest.hexdigest(), "float32", TorchNetwork(self.model))


def piece_numbers(model: "SentenceTransformer", texts: Sequence[str], max_tokens: int) -> list[list[int]]:
    """The ids of the first word pieces of each text, at most `max_tokens`."""
    limit = min(max_tokens, model.max_seq_length or max_tokens)
    return word_pieces(model, texts, limit=limit)["input_ids"] if texts else []


def logits_of(model: "SentenceTransformer", head: torch.nn.Linear, pieces: Sequence[Sequence[int]]) -> torch.Tensor:
    """Logits `(batch, n_labels)` of padded texts. The layer on top reads the mean over the word pieces."""
    ids = torch.full((len(pieces), max(map(len, pieces))), model.tokenizer.pad_token_id or 0)
    mask = torch.zeros_like(ids)
    for row, own in enumerate(pieces):
        ids[row, : len(own)] = torch.tensor(own)
        mask[row, : len(own)] = 1
    features = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
    vectors = torch.nn.functional.normalize(model(features)["sentence_embedding"].float(), dim=-1)
    # Unit vectors have coordinates of about 1/sqrt(dim). Without the factor, the layer would need large weights.
    logits: torch.Tensor = head(vectors * math.sqrt(vectors.shape[1]))
    return logits


def autocast(model: "SentenceTransformer", schedule: FineTuning) -> torch.autocast:
    """A context in which torch computes in the schedule's precision on the model's device."""
    return torch.autocast(model.device.type, torch.bfloat16, enabled=schedule.precision == "bfloat16")


def fine_tune(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    schedule: FineTuning,
    seed: int,
    name: str = MINILM,
    device: str = "cpu",
    on_epoch: OnEpoch | None = None,
) -> FineTuned:
    """Train a public sentence encoder to tell labelled texts apart, without a validation set.

    Equal arguments give equal models on one machine with one number of threads. torch's random state is restored. The
    first `max_tokens` word pieces of each text are read. Each text has one label; there are at least two different
    labels. The seed determines the layer on top, the order and the dropout. `name` is the name of an encoder for
    `load_sentence_encoder`. ConfigError: no texts, another number of labels than texts, fewer than two different
    labels, more top layers than the encoder has, an encoder that is not here, or a training that diverged.
    MissingExtraError: the package with the weights is absent.
    """
    names = tuple(sorted(set(labels)))
    if not texts or len(texts) != len(labels) or len(names) < 2:
        found = f"{len(texts)} texts and {len(labels)} labels, {len(names)} of them different"
        raise ConfigError(f"Expected texts and as many labels, at least 2 different ones, found {found}.")
    with model_folder(name) as (_, __, path):
        model = load_torch_model(path, device=device)
    learning = _learning(model, schedule.top_layers)
    with seeded_torch(seed, model.device):
        head = torch.nn.Linear(model.encode("").shape[0], len(names)).to(model.device)
        numbers = {label: i for i, label in enumerate(names)}
        targets = np.array([numbers[label] for label in labels], np.int64)
        pieces = piece_numbers(model, texts, schedule.max_tokens)
        model.train()
        source = np.random.default_rng(seed)
        rate = schedule.learning_rate
        top = {"params": list(head.parameters()), "lr": _HEAD_FACTOR * rate}
        optimizer = torch.optim.AdamW([{"params": list(learning), "lr": rate}, top], weight_decay=_WEIGHT_DECAY)
        steps = schedule.epochs * math.ceil(len(pieces) / schedule.batch_size)
        warm = max(1, round(_WARM_UP * steps))
        rates = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
        )
        every, lengths = [*learning, *head.parameters()], np.array([len(own) for own in pieces])
        for epoch in range(1, schedule.epochs + 1):
            total = 0.0
            for rows in batches(np.arange(len(pieces)), lengths, schedule.batch_size, source):
                with autocast(model, schedule):
                    logits = logits_of(model, head, [pieces[i] for i in rows])
                wanted = torch.from_numpy(targets[rows]).to(model.device)
                loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(every, _CLIP)
                optimizer.step()
                rates.step()
                total += float(loss.detach()) * len(rows)
            require_converging(total)
            if on_epoch is not None:
                on_epoch(epoch, schedule.epochs, total / len(pieces))
    return FineTuned(names, schedule, model.eval(), head)


def train_transformer(schedule: FineTuning, *, name: str = MINILM, on_epoch: OnEpoch | None = None) -> TrainAttacker:
    """Make a trainer of attackers: a fine-tuned transformer scores texts by the log odds of the first of two sets."""

    def train(texts: Sequence[str], is_first: Booleans, _vectors: object, seed: int, /) -> Attacker:
        labels = np.where(is_first, "first", "second").tolist()
        model = fine_tune(texts, labels, schedule=schedule, seed=seed, name=name, on_epoch=on_epoch)

        def scores(found: Sequence[str]) -> Floats:
            first, second = model.log_probabilities(found).T
            return np.asarray(first - second, np.float64)

        return scores

    return train


def _learning(model: "SentenceTransformer", top_layers: int | None) -> list[torch.nn.Parameter]:
    if top_layers is None:
        return list(model.parameters())
    stacks = [part for part in model.modules() if isinstance(part, torch.nn.ModuleList)]
    layers = max(stacks, key=len, default=torch.nn.ModuleList())
    if top_layers > len(layers):
        raise ConfigError(f"Expected top_layers={top_layers!r} <= {len(layers)}, the layers of the encoder, or None.")
    for weights in model.parameters():
        weights.requires_grad = False
    found = [weights for layer in list(layers)[-top_layers:] for weights in layer.parameters()]
    for weights in found:
        weights.requires_grad = True
    return found
