"""A public sentence encoder fine-tuned as a classifier of texts, and as an embedder for their subject.

Mean-pooled vectors, one linear layer, cross-entropy, AdamW; the encoder and the layer are trained together. As an
attacker it learns from redacted texts of two kinds and scores others; as an embedder it learns the topics of public
texts and gives vectors in which they differ more than in the encoder's own::

    model = fine_tune(texts, labels, schedule=FineTuning(epochs=1), seed=0)
    model.log_probabilities(others)            # (n_texts, n_labels)
    medical = model.encoder("all-MiniLM-L6-v2 on medical topics")    # an Embedder

Nothing is downloaded. What was trained on private text, redacted or not, is as private as the text: it is a measuring
device and no mechanism, and nothing of it may be released. Only an encoder that learned from public text may be saved.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

import numpy as np

from dptext import _validate
from dptext.embeddings.sentence_encoder import MINILM, Precision, SentenceEncoder, _quiet, load_sentence_encoder
from dptext.errors import ConfigError
from dptext.types import Booleans, Floats, Integers, Positions

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

#: Called after each epoch with its number, from 1, how many there are, and the mean loss of its texts in nats.
OnEpoch = Callable[[int, int, float], None]
#: From texts to scores `(n_texts,)`; and what makes it from texts of both sets, as `audits.inference.set_attackers` has it.
Attacker = Callable[[Sequence[str]], Floats]
TrainAttacker = Callable[[Sequence[str], Booleans, object, int], Attacker]

_CLIP: Final = 1.0
_WARM_UP: Final = 0.1
_WEIGHT_DECAY: Final = 0.01
#: The layer on top starts at nothing and learns faster than the encoder, which starts at what it knows.
_HEAD_FACTOR: Final = 20.0
_WINDOW: Final = 16
_INFERENCE_BATCH: Final = 128


@dataclass(frozen=True, slots=True)
class FineTuning:
    """How long, how fast, and how much of the encoder.

    Attributes:
        epochs: passes over the texts.
        batch_size: texts a step.
        max_tokens: word pieces of a text that are read, its two marks among them; of a public length.
        learning_rate: of the encoder at its highest: it rises over the first tenth of the steps and falls to 0. That of
            the layer on top is 20 times as high.
        top_layers: transformer layers that learn, from the top; the others and the word pieces keep their weights.
            None: everything learns. For 1,000 cancer sentences and an epoch (batches of 32, one core of an AMD EPYC)
            two layers of all-MiniLM-L6-v2 took 20 s, all 42 s, and in bfloat16 12 and 25 s; others were told apart
            with an accuracy of .823 by two layers, .804 by all.
        precision: "bfloat16" for the matrix products.

    Raises:
        ConfigError: a setting out of its range.
    """

    epochs: int = 1
    batch_size: int = 32
    max_tokens: int = 64
    learning_rate: float = 1e-4
    top_layers: int | None = 2
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        _validate.count(epochs=self.epochs, batch_size=self.batch_size)
        _validate.positive(learning_rate=self.learning_rate)
        _validate.within(3, 8192, max_tokens=self.max_tokens)
        if self.top_layers is not None:
            _validate.count(top_layers=self.top_layers)
        if self.precision not in get_args(Precision):
            raise ConfigError(f"Expected precision={self.precision!r} to be float32 or bfloat16.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FineTuned:
    """A fine-tuned classifier. Its `repr` shows nothing of the texts.

    Attributes:
        labels: of the training texts, sorted; the columns of its scores.
        schedule: that made it.
    """

    labels: tuple[str, ...]
    schedule: FineTuning
    _model: SentenceTransformer
    _head: torch.nn.Linear

    def __repr__(self) -> str:
        return f"FineTuned({len(self.labels)} labels)"

    def log_probabilities(self, texts: Sequence[str]) -> Floats:
        """Logarithms of the softmax scores, `(n_texts, n_labels)`, in double."""
        import torch  # noqa: PLC0415 (an extra, slow to load)

        found = np.empty((len(texts), len(self.labels)))
        pieces = _pieces(self._model, texts, self.schedule.max_tokens)
        order = sorted(range(len(texts)), key=lambda i: len(pieces[i]))
        with torch.no_grad(), _precision(self._model, self.schedule):
            for start in range(0, len(order), _INFERENCE_BATCH):
                rows = order[start : start + _INFERENCE_BATCH]
                logits = _logits(self._model, self._head, [pieces[i] for i in rows])
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
        for key, weights in sorted(self._model.state_dict().items()):
            digest.update(key.encode() + b"\n" + np.ascontiguousarray(weights.cpu().numpy()).tobytes())
        dim = int(self._head.in_features)
        return SentenceEncoder(name, dim, digest.hexdigest(), "float32", self._model)


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
        texts: of any length; of each the first `max_tokens` word pieces are read.
        labels: one for each text, at least two different ones.
        schedule: how long, how fast, and how much of the encoder.
        seed: of the layer on top, the order and the dropout.
        name: of the encoder, as `load_sentence_encoder` finds it; the network is never asked.
        device: of torch, such as "cpu" or "cuda".
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
    model = load_sentence_encoder(name, device=device)._model  # noqa: SLF001 (of the same room; a fresh one each time)
    import torch  # noqa: PLC0415 (an extra, slow to load; an encoder was loaded, so it is here)

    learning = _learning(model, schedule.top_layers)
    cuda = list(range(torch.cuda.device_count())) if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.manual_seed_all(seed)
        head = torch.nn.Linear(model.encode("").shape[0], len(names)).to(model.device)
        numbers = {label: i for i, label in enumerate(names)}
        targets = np.array([numbers[label] for label in labels], np.int64)
        pieces = _pieces(model, texts, schedule.max_tokens)
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
        device: of torch.
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


def save_encoder(encoder: SentenceEncoder, folder: Path) -> None:
    """Write an encoder that learned from *public* text; `load_sentence_encoder(str(folder))` reads it.

    Args:
        encoder: of `FineTuned.encoder`. One that saw private text, redacted or not, must not leave this process.
        folder: new, or empty.

    Raises:
        ConfigError: the folder is not empty, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"Expected folder={str(folder)!r} to be empty: name another one.")
        # A model card would say what was trained on which texts.
        with _quiet():
            encoder._model.save(str(folder), create_model_card=False)  # noqa: SLF001 (of the same room)
    except OSError as error:
        raise ConfigError(f"Cannot write the encoder to {folder}: {error.strerror}.") from error


def _learning(model: SentenceTransformer, top_layers: int | None) -> list[torch.nn.Parameter]:
    """The weights that learn; the others need no gradient any more."""
    import torch  # noqa: PLC0415 (an extra, slow to load)

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
    import torch  # noqa: PLC0415 (an extra, slow to load)

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
            with _precision(model, schedule):
                logits = _logits(model, head, [pieces[i] for i in rows])
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


def _pieces(model: SentenceTransformer, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
    """Numbers of the word pieces, those of the encoder's own prompt first.

    Half of a surrogate pair, which UTF-8 cannot hold, is read as "?".
    """
    prompt = model.prompts.get(model.default_prompt_name or "") or ""
    readable = [(prompt + text).encode("utf-8", "replace").decode("utf-8") for text in texts]
    limit = min(max_tokens, model.max_seq_length or max_tokens)
    if not readable:
        return []
    found = model.tokenizer(readable, truncation=True, max_length=limit, return_attention_mask=False)
    return [list(ids) for ids in found["input_ids"]]


def _logits(model: SentenceTransformer, head: torch.nn.Linear, pieces: Sequence[Sequence[int]]) -> torch.Tensor:
    """Logits `(batch, n_labels)` of padded texts: the layer on top reads the mean over the word pieces."""
    import torch  # noqa: PLC0415 (an extra, slow to load)

    ids = torch.full((len(pieces), max(map(len, pieces))), model.tokenizer.pad_token_id or 0)
    mask = torch.zeros_like(ids)
    for row, own in enumerate(pieces):
        ids[row, : len(own)] = torch.tensor(own)
        mask[row, : len(own)] = 1
    features = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
    vectors = torch.nn.functional.normalize(model(features)["sentence_embedding"].float(), dim=-1)
    # At length 1 a coordinate would be 1/sqrt(dim): the layer would have to grow before it says anything.
    logits: torch.Tensor = head(vectors * math.sqrt(vectors.shape[1]))
    return logits


@contextmanager
def _precision(model: SentenceTransformer, schedule: FineTuning) -> Iterator[None]:
    import torch  # noqa: PLC0415 (an extra, slow to load)

    with torch.autocast(model.device.type, torch.bfloat16, enabled=schedule.precision == "bfloat16"):
        yield
