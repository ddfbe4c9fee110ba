"""Public settings of ADePT's auto-encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dptext.neural.adept.network import Architecture
from dptext.neural.adept.training import Schedule
from dptext.neural.tokens import Tokens


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What a spec says about the network; `dptext.Adept` explains each."""

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

    def architecture(self, tokens: Tokens, read_dim: int) -> Architecture:
        """Sizes of the network.

        Args:
            tokens: the vocabulary.
            read_dim: coordinates of what reads texts in the place of an LSTM; 0 where an LSTM does.
        """
        return Architecture(
            n_tokens=len(tokens),
            length=tokens.length,
            latent_dim=self.latent_dim,
            hidden=self.hidden,
            embedding=self.embedding,
            clip_norm=self.clip_norm,
            features=read_dim + len(self.labels) if read_dim else 0,
            projected=self.projected,
        )
