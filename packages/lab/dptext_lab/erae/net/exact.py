"""ER-AE's network for inference. A text's logits depend, bit for bit, on the text and its own released words alone.

Products are tiles (see `dptext.kernels.tiles`), and the other steps compute each row on its own.
"""

from typing import Final

import numpy as np

from dptext.kernels import pooling, tiles
from dptext.kernels.compilation import Array, F, compiled
from dptext.kernels.linear import Linear, product, require_alike, rows_for
from dptext.kernels.processors import each
from dptext.types import Int32s, Integers, Singles
from dptext_lab.erae.net.network import FIRST_OPTION, LARGEST_LOGIT, LOGIT_GRID, ErAeNetwork
from dptext_lab.nets.recurrence import elu, gru_step, tanh
from dptext_lab.nets.tokens import BEGIN

_ROWS: Final = 64  # texts of a part; a thread computes a part
_PER_UNIT, _MOST = F(1 / LOGIT_GRID), F(LARGEST_LOGIT)


@compiled
def _on_grid(scores: Array, n: int, out: Array) -> None:
    for i in range(n):
        for k in range(out.shape[1]):
            out[i, k] = np.int32(min(max(np.rint(scores[i, k] * _PER_UNIT), -_MOST), _MOST))


class ExactNetwork:
    """The weights in the layout of tiles. ConfigError: this processor computes other last bits at another place."""

    def __init__(self, network: ErAeNetwork) -> None:
        weights = {name: values.detach().float().cpu().numpy() for name, values in network.named_parameters()}

        def layer(kind: str, part: str = "") -> Linear:
            return Linear.padded(weights[kind.format("weight") + part], weights[kind.format("bias") + part])

        self.sizes = network.sizes
        self.words, self.places = weights["words.weight"], weights["places.weight"]
        ways = ("_l0", "_l0_reverse")
        self.reader = [(layer("reader.{}_ih", way), layer("reader.{}_hh", way)) for way in ways]
        self.writer = layer("writer.{}_ih_l0"), layer("writer.{}_hh_l0")
        self.to_latent, self.start = layer("to_latent.{}"), layer("start.{}")
        self.narrow, self.choose = layer("narrow.{}"), layer("choose.{}")
        self._require_alone()

    def begin(self, targets: Integers, *, public: bool) -> "ExactWriting":
        """Begin to write the texts `(n, length)`. With `public`, the public language model gives logits, too."""
        return ExactWriting(self, targets, public=public)

    def latents(self, ids: Integers) -> Singles:
        """The latents `(n, length, latent_dim)`; see `ErAeNetwork.latents`."""
        (n, length), half = ids.shape, self.sizes.hidden // 2
        known, inputs = np.unique(ids, return_inverse=True)
        inputs = inputs.reshape(ids.shape)
        words, states = rows_for(len(known), self.words.shape[1]), rows_for(n * length, 2 * half)
        words[: len(known)] = self.words[known]
        by_text = states[: n * length].reshape(n, length, 2 * half)
        for way, (inner, outer) in enumerate(self.reader):
            of_words, h = product(words, len(known), inner), rows_for(n, half)
            for t in range(length)[:: 1 - 2 * way]:
                gru_step(of_words, np.ascontiguousarray(inputs[:, t]), product(h, n, outer), n, half, h)
                by_text[:, t, way * half : (way + 1) * half] = h[:n]
        if self.sizes.latent == "text":
            last = rows_for(n, 2 * half)
            last[:n, :half], last[:n, half:] = by_text[:, -1, :half], by_text[:, 0, half:]
            whole = product(last, n, self.to_latent)
            tanh(whole, n)
            return np.repeat(whole[:n, None, : self.sizes.latent_dim], length, axis=1)
        found = product(states, n * length, self.to_latent)
        tanh(found, n * length)
        return np.ascontiguousarray(found[: n * length, : self.sizes.latent_dim]).reshape(n, length, -1)

    def _require_alone(self) -> None:
        public = np.random.default_rng(0).integers(FIRST_OPTION, self.sizes.n_tokens, (3 * tiles.ROWS, 2))
        targets = np.resize(public, (len(public), self.sizes.length))

        def found(rows: slice) -> list[Singles]:
            writing = self.begin(targets[rows], public=True)
            first = writing.scores()
            writing.wrote(public[rows, 0] - FIRST_OPTION)
            return [*first, *(writing.scores() if self.sizes.length > 1 else [])]

        single = [found(slice(i, i + 1)) for i in range(len(public))]
        alone = [np.concatenate(parts) for parts in zip(*single, strict=True)]
        for shift in range(tiles.ROWS):
            for a, b in zip(found(slice(shift, None)), alone, strict=True):
                remedy = "Take another mechanism: this one's guarantee would not hold here."
                require_alike(a, b[shift:], "logits", remedy)


class ExactWriting:
    """A block of texts that are being written, with the interface of `Writing`."""

    def __init__(self, network: ExactNetwork, targets: Integers, *, public: bool) -> None:
        starts = range(0, len(targets), _ROWS)
        self._parts = each(lambda start: _WritingPart(network, targets[start : start + _ROWS], public=public), starts)

    def scores(self) -> list[Singles]:
        """Logits `(n_texts, options)` at this position: the private ones, then the public ones if `public`."""
        return [np.concatenate(sides) for sides in zip(*each(_WritingPart.scores, self._parts), strict=True)]

    def logits(self) -> list[Int32s]:
        """The `scores` in whole steps of `LOGIT_GRID`."""
        return [np.concatenate(sides) for sides in zip(*each(_WritingPart.logits, self._parts), strict=True)]

    def wrote(self, options: Integers) -> None:
        """Move to the next position. `options` `(n_texts,)` were released at this position."""
        for i, part in enumerate(self._parts):
            part.wrote(options[i * _ROWS : (i + 1) * _ROWS])


class _WritingPart:
    """Some texts of a block. Its sides are the private one, and the public language model, which sees no latents."""

    def __init__(self, network: ExactNetwork, targets: Integers, *, public: bool) -> None:
        self._network = network
        self._n = n = len(targets)
        self._step = 0
        self._before = np.full(n, BEGIN)
        self._found = rows_for(n, len(network.choose.bias))
        latents, means = network.latents(targets), rows_for(n, network.sizes.latent_dim)
        self._sides = []
        for given in (latents, np.zeros_like(latents))[: 1 + public]:
            pooling.means(given, n, means)
            first, seen = product(means, n, network.start), rows_for(n, network.sizes.hidden + given.shape[2])
            tanh(first, n)
            seen[:, : network.sizes.hidden] = first[:, : network.sizes.hidden]
            self._sides.append((given, seen))

    def scores(self) -> list[Singles]:
        """Logits of these texts; see `ExactWriting.scores`."""
        return [self._read_on(*side)[: self._n, : self._options].copy() for side in self._sides]

    def logits(self) -> list[Int32s]:
        """Logits of these texts in whole steps; see `ExactWriting.logits`."""
        found = [np.empty((self._n, self._options), np.int32) for _ in self._sides]
        for side, steps in zip(self._sides, found, strict=True):
            _on_grid(self._read_on(*side), self._n, steps)
        return found

    @property
    def _options(self) -> int:
        return self._network.sizes.n_tokens - FIRST_OPTION

    def _read_on(self, latents: Singles, seen: Singles) -> Singles:
        """Compute the scores of a side into `_found`. `seen` holds the side's state, and the latent beside it."""
        network, n, units = self._network, self._n, self._network.sizes.hidden
        width = network.sizes.embedding
        inputs = rows_for(n, width + latents.shape[2])
        inputs[:n, :width] = network.words[self._before] + network.places[self._step]
        inputs[:n, width:] = seen[:n, units:] = latents[:, self._step]
        inner, outer = network.writer
        gru_step(product(inputs, n, inner), np.arange(n), product(seen, n, outer), n, units, seen)
        narrowed = product(seen, n, network.narrow)
        elu(narrowed, n)
        return product(narrowed, n, network.choose, self._found)

    def wrote(self, options: Integers) -> None:
        """Move these texts to the next position; see `ExactWriting.wrote`."""
        self._before = options + FIRST_OPTION
        self._step += 1
