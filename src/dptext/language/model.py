"""What a language model is here: prompts in, log-probabilities of the next token out, and a cache in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from dptext.types import Floats, Integers

Tokens = Sequence[int]
MODEL_IS_PUBLIC: Final = "the language model is public and was trained on none of the private texts"


class Contexts(Protocol):
    """Texts that a model has read so far, one a row."""

    def log_probabilities(self) -> Floats:
        """ln of the probability of each token after each text, `(n, vocabulary)`."""
        ...

    def append(self, tokens: Integers) -> None:
        """Read one token more of each text, `(n,)`."""
        ...


class LanguageModel(Protocol):
    """A causal language model."""

    @property
    def digest(self) -> str:
        """sha256 of its weights."""
        ...

    @property
    def size(self) -> int:
        """Tokens of its vocabulary."""
        ...

    @property
    def end(self) -> int:
        """The token that ends a text to it."""
        ...

    def require_room(self, tokens: int) -> None:
        """Raise ConfigError where the model does not read so many tokens."""
        ...

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, as if it stood in the middle of one: no token for begin or end."""
        ...

    def text(self, tokens: Tokens) -> str:
        """The text of tokens; those that mean no text are left out."""
        ...

    def contexts(self, prompts: Sequence[Tokens], *, more: int) -> Contexts:
        """Read prompts of one token at least, with room for so many tokens more.

        ConfigError: a prompt is empty, or longer than the model reads.
        """
        ...
