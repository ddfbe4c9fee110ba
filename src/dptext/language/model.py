"""What a language model is here: prompts in, log-probabilities of the next token out, and a cache in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dptext.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dptext.language.llama import Llama, LlamaContexts

Tokens = Sequence[int]
MODEL_IS_PUBLIC: Final = "the language model is public and was trained on none of the private texts"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LanguageModel:
    """A network of the Llama family with its tokenizer, its token that ends a text, and sha256 of its weights."""

    network: Llama
    tokenizer: Tokenizer
    end: int
    digest: str

    def __repr__(self) -> str:
        return f"LanguageModel({self.digest[:12]})"

    @property
    def size(self) -> int:
        """Tokens of its vocabulary."""
        return len(self.network.words)

    def require_room(self, tokens: int) -> None:
        """Raise ConfigError where the model does not read so many tokens."""
        if tokens > self.network.longest:
            raise ConfigError(f"Expected at most {self.network.longest} tokens in a prompt, found {tokens}: set fewer.")

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, as if it stood in the middle of one; what looks like a special token is text."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def text(self, tokens: Tokens) -> str:
        """The text of tokens; those that mean no text are left out."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def contexts(self, prompts: Sequence[Tokens], *, more: int) -> LlamaContexts:
        """Read prompts of one token at least, with room for so many tokens more; ConfigError where it cannot."""
        return self.network.contexts(prompts, more=more)
