"""Decoding with ADePT's fitted auto-encoder: from latents to labels and texts."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dptext.types import Floats, Integers
from dptext_lab.adept.net.network import AutoEncoder
from dptext_lab.nets.tokens import BEGIN, END, PAD, UNKNOWN, Tokens

_NO_REPEAT = 3
#: Number of tokens in a block, in `drawn`.
_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Decoding:
    """The way in which a latent becomes a sequence: by the best tokens, or by draws at a `temperature` above 0.

    In a `constrained` sequence, a label (if there are labels) is first and nowhere else, and no trigram occurs twice.
    """

    constrained: bool = True
    temperature: float = 0.0


class Decoder:
    """A writer of sequences for many latents at once; immutable.

    A table holds the gates' part that depends on the token. The gates' part that depends on the latent is computed
    once. So a step is a look-up, a product with the hidden state, and the output layer. Rows that ended are dropped.
    """

    def __init__(self, model: AutoEncoder, tokens: Tokens, *, dtype: torch.dtype = torch.float32) -> None:
        self._tokens, self._device = tokens, model.start.weight.device
        size = model.sizes.embedding
        with torch.no_grad():
            weights = {name: value.detach() for name, value in model.writer.named_parameters()}
            inner, outer = weights["weight_ih_l0"], weights["weight_hh_l0"]
            bias = weights["bias_ih_l0"] + weights["bias_hh_l0"]
            self._table = (model.write_embedding.weight.detach() @ inner[:, :size].T + bias).contiguous()
            self._of_latent = inner[:, size:].T.contiguous()
            self._of_state = outer.contiguous()
            self._start = (model.start.weight.detach().T, model.start.bias.detach())
            self._output = model.choose.weight.detach().to(dtype).contiguous()
            bias = model.choose.bias.detach()
        self._dtype = dtype
        barred = torch.zeros((3, model.sizes.n_tokens), device=self._device)
        barred[:, [PAD, UNKNOWN, BEGIN]] = -torch.inf
        self._free = bias + barred[0]
        labels = list(tokens.label_ids())
        if labels:
            barred[0] = -torch.inf
            barred[0, labels] = 0.0
            barred[1:, labels] = -torch.inf
        barred[int(bool(labels)), END] = -torch.inf  # no text is empty
        self._barred = bias + barred

    def decode(self, latents: Floats, how: Decoding, *, seed: int = 0, rows: int = 512) -> list[tuple[str | None, str]]:
        """Label and text of each latent `(n, latent_dim)`, computed in blocks of `rows`.

        The seed determines drawn tokens. Draws are for public use only: private releases take the best tokens.
        """
        return [self._tokens.read(row) for row in self._ids(latents, how, seed, rows)]

    def _ids(self, latents: Floats, how: Decoding, seed: int, rows: int) -> list[list[int]]:
        generator = torch.Generator(device=self._device).manual_seed(seed)
        written: list[list[int]] = []
        with torch.inference_mode():
            for start in range(0, len(latents), rows):
                block = torch.from_numpy(np.ascontiguousarray(latents[start : start + rows], np.float32))
                written += self._write(block.to(self._device), how, generator).tolist()
        return written

    def _write(self, latents: Tensor, how: Decoding, generator: torch.Generator) -> Integers:
        n, length = len(latents), self._tokens.length
        written = torch.full((n, length), PAD, dtype=torch.int64, device=self._device)
        alive = torch.arange(n, device=self._device)
        weight, bias = self._start
        h = torch.tanh(latents @ weight + bias)
        c = torch.zeros_like(h)
        fixed = latents @ self._of_latent
        token = torch.full((n,), BEGIN, dtype=torch.int64, device=self._device)
        for step in range(length - 1):  # the last position is for the end
            gates = _product(h, self._of_state).add_(self._table[token]).add_(fixed)
            entered, kept, new, shown = gates.chunk(4, dim=1)
            c = torch.sigmoid(kept) * c + torch.sigmoid(entered) * torch.tanh(new)
            h = torch.sigmoid(shown) * torch.tanh(c)
            scores = _product(h.to(self._dtype), self._output).float()
            scores += self._barred[min(step, 2)] if how.constrained else self._free
            if how.constrained:
                self._bar_repeats(scores, written[alive, :step])
            if how.temperature > 0:
                token = drawn(torch.softmax(scores / how.temperature, dim=1), generator)
            else:
                token = scores.argmax(dim=1)
            written[alive, step] = token
            going = token != END
            if not bool(going.all()):
                if not bool(going.any()):
                    break
                alive, token, h, c, fixed = alive[going], token[going], h[going], c[going], fixed[going]
        return np.asarray(written.cpu().numpy())

    @staticmethod
    def _bar_repeats(scores: Tensor, before: Tensor) -> None:
        """Prevent repeated trigrams: bar each word that followed an earlier occurrence of the last two words."""
        last = _NO_REPEAT - 1
        if before.shape[1] < _NO_REPEAT:
            return
        windows = before[:, :-1].unfold(1, last, 1)  # (n, starts, last), each followed by one word
        same = (windows == before[:, None, -last:]).all(dim=2)
        rows, starts = torch.nonzero(same, as_tuple=True)
        scores[rows, before[rows, starts + last]] = -torch.inf


def _product(rows: Tensor, weight: Tensor) -> Tensor:
    """`rows @ weight.T`. oneDNN computes float32 on a CPU, because torch's MKL is half as fast on AMD's CPUs."""
    here = rows.dtype == torch.float32 and rows.device.type == "cpu"
    if here and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        product = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001  # torch has no public name for it
        return torch.as_tensor(product(rows, weight, None, "none", [], ""))
    return rows @ weight.T


def drawn(chances: Tensor, source: torch.Generator) -> Tensor:
    """Draw a token of each row `(n,)` by its chance in `(n, tokens)`, never a token of chance 0.

    A block of tokens is drawn first, then a token of the block. This takes two uniform numbers per row;
    torch.multinomial takes one for each token.
    """
    rows = torch.arange(len(chances), device=chances.device)
    parts = nn.functional.pad(chances, (0, -chances.shape[1] % _BLOCK)).reshape(len(chances), -1, _BLOCK)
    block = _place(parts.sum(dim=2), source)
    return block * _BLOCK + _place(parts[rows, block], source)


def _place(weights: Tensor, source: torch.Generator) -> Tensor:
    """Draw a column of each row, with a probability proportional to its weight."""
    below = weights.double().cumsum(dim=1)
    at = torch.rand((len(weights), 1), dtype=below.dtype, generator=source, device=weights.device) * below[:, -1:]
    return (below <= at).sum(dim=1)  # the first column whose cumulated weight is above `at`
