"""Training of a fine-tuned sentence encoder: cross-entropy, AdamW, encoder and layer on top together.

Nothing is downloaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from dptext.embeddings.devices import seeded_torch
from dptext.embeddings.encoder_files import MINILM
from dptext.embeddings.sentence_encoder import model_folder
from dptext.embeddings.torch_network import load_torch_model
from dptext.errors import ConfigError
from dptext.neural.classifiers.fine_tuned import FineTuned, FineTuning, autocast, logits_of, piece_numbers
from dptext.types import Booleans, Floats, Integers, Positions

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

#: Called after each epoch with its number, from 1, how many there are, and the mean loss of its texts in nats.
OnEpoch = Callable[[int, int, float], None]
#: Turns texts into scores `(n_texts,)`; and what trains it on texts of both sets, as in `audits.inference.sets`.
Attacker = Callable[[Sequence[str]], Floats]
TrainAttacker = Callable[[Sequence[str], Booleans, object, int], Attacker]

_CLIP: Final = 1.0
_WARM_UP: Final = 0.1
_WEIGHT_DECAY: Final = 0.01
#: The layer on top learns from scratch, and so faster than the encoder.
_HEAD_FACTOR: Final = 20.0
_WINDOW: Final = 16


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

    The same arguments give the same model on the same machine with as many threads, whatever was drawn before; the
    random state of torch is left as it was found.

    Args:
        texts: texts of any length; of each the first `max_tokens` word pieces are read.
        labels: one for each text, at least two different ones.
        schedule: how long, how fast, and how much of the encoder.
        seed: it draws the layer on top, the order and the dropout.
        name: of the encoder, as `load_sentence_encoder` finds it; the network is never asked.
        device: where torch computes, such as "cpu" or "cuda".
        on_epoch: told of progress.

    Raises:
        ConfigError: no texts, another number of labels, a single one, more top layers than there are, an encoder that
            is not here, or a training that diverged.
        MissingExtraError: sentence-transformers, or the package with the weights, is not installed.
    """
    names = tuple(sorted(set(labels)))
    if not texts or len(texts) != len(labels) or len(names) < 2:
        raise ConfigError(
            f"Expected texts and as many labels, at least 2 different ones, found {len(texts)} texts and {len(labels)} "
            f"labels, {len(names)} of them different."
        )
    with model_folder(name) as (_, __, path):
        model = load_torch_model(path, device=device)
    learning = _learning(model, schedule.top_layers)
    with seeded_torch(seed, model.device):
        head = torch.nn.Linear(model.encode("").shape[0], len(names)).to(model.device)
        numbers = {label: i for i, label in enumerate(names)}
        targets = np.array([numbers[label] for label in labels], np.int64)
        pieces = piece_numbers(model, texts, schedule.max_tokens)
        model.train()
        _train(model, head, learning, pieces, targets, schedule, np.random.default_rng(seed), on_epoch)
    return FineTuned(names, schedule, model.eval(), head)


def train_transformer(
    schedule: FineTuning, *, name: str = MINILM, device: str = "cpu", on_epoch: OnEpoch | None = None
) -> TrainAttacker:
    """The transformer as an attacker that learns which of two sets a text is of; scores are log odds.

    Args:
        schedule: how long, how fast, and how much of the encoder.
        name: of the encoder, as `load_sentence_encoder` finds it.
        device: where torch computes.
        on_epoch: told of progress.
    """

    def train(
        texts: Sequence[str],
        is_first: Booleans,
        vectors: object,  # noqa: ARG001 (other attackers look at them)
        seed: int,
        /,
    ) -> Attacker:
        labels = np.where(is_first, "first", "second").tolist()
        model = fine_tune(texts, labels, schedule=schedule, seed=seed, name=name, device=device, on_epoch=on_epoch)

        def scores(found: Sequence[str]) -> Floats:
            first, second = model.log_probabilities(found).T
            return np.asarray(first - second, np.float64)

        return scores

    return train


def _learning(model: SentenceTransformer, top_layers: int | None) -> list[torch.nn.Parameter]:
    """The weights that learn; the others need no gradient any more."""
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


def _train(
    model: SentenceTransformer,
    head: torch.nn.Linear,
    learning: Sequence[torch.nn.Parameter],
    pieces: Sequence[Sequence[int]],
    targets: Integers,
    schedule: FineTuning,
    source: np.random.Generator,
    on_epoch: OnEpoch | None,
) -> None:
    rate = schedule.learning_rate
    optimizer = torch.optim.AdamW(
        [{"params": list(learning), "lr": rate}, {"params": list(head.parameters()), "lr": _HEAD_FACTOR * rate}],
        weight_decay=_WEIGHT_DECAY,
    )
    steps = schedule.epochs * math.ceil(len(pieces) / schedule.batch_size)
    warm = max(1, round(_WARM_UP * steps))
    rates = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    every = [*learning, *head.parameters()]
    for epoch in range(1, schedule.epochs + 1):
        total = 0.0
        for rows in _batches(pieces, schedule.batch_size, source):
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
        if not math.isfinite(total):
            raise ConfigError(
                "Expected a loss that is a number: the training diverged. Choose a smaller learning_rate."
            )
        if on_epoch is not None:
            on_epoch(epoch, schedule.epochs, total / len(pieces))


def _batches(pieces: Sequence[Sequence[int]], size: int, source: np.random.Generator) -> Iterator[Positions]:
    """Texts of like length in random order: sorted within windows of 16 batches, which leaves little padding."""
    order = source.permutation(len(pieces))
    lengths = np.array([len(pieces[i]) for i in order])
    order = order[np.lexsort((lengths, np.arange(len(order)) // (_WINDOW * size)))]
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    for place in source.permutation(len(batches)).tolist():
        yield batches[place]
