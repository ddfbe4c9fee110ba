"""The recoder of DeepCandidate, which moves sentence embeddings so that documents of one cluster or class are near.

Source: Meehan, Mrini and Chaudhuri 2022, section 4.3 and appendix A.3. The encoder is frozen. A 4-layer perceptron H,
as wide as the embedding (the paper gives no widths), recodes each sentence. A linear layer predicts the cluster of the
document from the mean of its recoded sentences. Both are trained on public text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dptext.embeddings.likeness import in_blocks
from dptext.mechanisms.sentences.document_candidates import Arrays, shaped
from dptext.types import Floats, Integers
from dptext_lab.nets.weights import weights_of

_PREFIX = "recoder."  # of the names of its arrays
_LAYERS = 4
_HELD_OUT = 0.1
_NORM_QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class RecoderSchedule:
    """Settings of the training. `batch_size` counts documents. The epoch with the least held-out loss is kept."""

    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Recoder:
    """A trained, public perceptron H. Outputs, over a public norm, are cut to length 1, for exact projections."""

    _model: nn.Module
    dim: int
    norm: float

    def __post_init__(self) -> None:
        self._model.eval()

    def __repr__(self) -> str:
        return f"Recoder(dim={self.dim})"

    @property
    def arrays(self) -> Arrays:
        """The weights and the norm, by names that begin with "recoder."."""
        weights = {f"{_PREFIX}{name}": value.numpy() for name, value in weights_of(self._model).items()}
        return {**weights, f"{_PREFIX}norm": np.array([self.norm])}

    def __call__(self, embeddings: Floats) -> Floats:
        """Recoded embeddings `(n, dim)` of length at most 1."""
        found = in_blocks(embeddings, self._run) / self.norm
        return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1.0))

    def _run(self, rows: Floats) -> Floats:
        with torch.inference_mode():
            return np.asarray(self._model(torch.from_numpy(rows.astype(np.float32))).double().numpy())


def _perceptron(dim: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i in range(_LAYERS):
        layers += [nn.Linear(dim, dim), *([nn.ReLU()] if i < _LAYERS - 1 else [])]
    return nn.Sequential(*layers)


def read_recoder(found: Arrays, dim: int) -> Recoder:
    """The recoder that was saved as `Recoder.arrays`. ValueError, LookupError: other numbers."""
    model = _perceptron(dim)
    state = {
        name: torch.from_numpy(shaped(found[f"{_PREFIX}{name}"], *value.shape).astype(np.float32))
        for name, value in model.state_dict().items()
    }
    model.load_state_dict(state)
    norm = float(shaped(found[f"{_PREFIX}norm"], 1).item())
    if not norm > 0:
        raise ValueError
    return Recoder(model, dim, norm)


def fit_recoder(
    embeddings: Floats, sizes: Sequence[int], targets: Integers, *, schedule: RecoderSchedule, seed: int
) -> Recoder:
    """Train H and the linear layer on public documents of at least one sentence, with targets from 0.

    `embeddings` `(n_sentences, dim)` are document after document. The seed determines weights, held-out documents and
    order.
    """
    order = np.random.default_rng(seed).permutation(len(sizes))
    held, kept = np.split(order, [max(1, round(_HELD_OUT * len(order)))])
    rows = np.split(np.arange(len(embeddings)), np.cumsum(sizes)[:-1])
    inputs, wanted = torch.from_numpy(embeddings.astype(np.float32)), torch.from_numpy(targets)
    dim, classes = embeddings.shape[1], int(targets.max()) + 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, last = _perceptron(dim), nn.Linear(dim, classes)

        def loss(documents: Integers) -> Tensor:
            lengths = torch.tensor([len(rows[i]) for i in documents])
            recoded = model(inputs[np.concatenate([rows[i] for i in documents])])
            owner = torch.repeat_interleave(torch.arange(len(documents)), lengths)
            means = torch.zeros(len(documents), dim).index_add_(0, owner, recoded) / lengths[:, None]
            return nn.functional.cross_entropy(last(means), wanted[documents])

        optimizer = torch.optim.Adam([*model.parameters(), *last.parameters()], lr=schedule.learning_rate)
        best, state = float("inf"), {name: value.clone() for name, value in model.state_dict().items()}
        for epoch in range(schedule.epochs):
            shuffled = np.random.default_rng([seed, epoch]).permutation(kept)
            for start in range(0, len(shuffled), schedule.batch_size):
                optimizer.zero_grad()
                loss(shuffled[start : start + schedule.batch_size]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with torch.inference_mode():
                now = float(loss(held))
            if now < best:
                best, state = now, {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(state)
    with torch.inference_mode():
        norms = model(inputs).norm(dim=1).numpy()
    return Recoder(model, dim, float(np.quantile(norms, _NORM_QUANTILE)) or 1.0)
