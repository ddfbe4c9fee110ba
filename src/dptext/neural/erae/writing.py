"""ER-AE's network in use by torch: a block of texts written word by word. See `exact` for what a processor computes."""

import numpy as np
import torch

from dptext.errors import ConfigError
from dptext.neural.erae.network import FIRST_OPTION, ErAeNetwork
from dptext.neural.tokens import BEGIN, END
from dptext.types import Int32s, Integers

#: Texts at once. Where torch computes them, a block always has as many rows, whatever stands in them.
ROWS = 128
#: Logits are rounded to this grid before they are used. It hides what rounding does in another place of a block.
LOGIT_GRID = 2.0**-8
LARGEST_LOGIT = 1 << 22


class Writing:
    """A block of texts that are being written. Of the private texts it holds the latents and nothing else.

    The public language model is the same network without latents. Its state has seen the released words only.
    """

    def __init__(self, network: ErAeNetwork, targets: Integers, *, device: str, public: bool, rows: int = ROWS) -> None:
        if len(targets) > rows:
            raise ConfigError(f"Expected at most {rows} texts at once, found {len(targets)}.")
        self._network = network
        self._device = device
        self._n = len(targets)
        self._step = 0
        padded = np.full((rows, network.sizes.length), END, np.int64)
        padded[: len(targets)] = targets
        with torch.no_grad():
            self._latents = network.latents(torch.from_numpy(padded).to(device))
            nothing = torch.zeros_like(self._latents)
            self._states = [network.begin(self._latents)]
            self._given = [self._latents]
            if public:
                self._states.append(network.begin(nothing))
                self._given.append(nothing)
        self._before = torch.full((rows, 1), BEGIN, dtype=torch.int64, device=device)

    def logits(self) -> list[Int32s]:
        """Logits of the options at this position, `(n_texts, options)` each: private, then public if there are any.

        They are in steps of `LOGIT_GRID`.
        """
        found = []
        with torch.no_grad():
            for i, latents in enumerate(self._given):
                here = latents[:, self._step : self._step + 1]
                logits, self._states[i] = self._network.read_on(self._before, here, self._states[i], self._step)
                steps = torch.round(logits[: self._n, 0] / LOGIT_GRID).clamp(
                    -LARGEST_LOGIT, LARGEST_LOGIT
                )  # exact in float32
                found.append(steps.to(torch.int32).cpu().numpy())
        return found

    def wrote(self, options: Integers) -> None:
        """Go on to the next position: these options `(n_texts,)` were released at this one."""
        self._before[: self._n, 0] = torch.from_numpy(options + FIRST_OPTION).to(self._device)
        self._step += 1
