"""Settings of a writer that asks a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from dptext import _validate
from dptext.errors import ConfigError
from dptext.language.server import Address
from dptext.synthesis.asking import BYS, TEMPLATES, By, Template
from dptext.synthesis.from_drafts import FromDrafts
from dptext.synthesis.lengths import Length
from dptext.types import Json

TOKENS_A_WORD: Final = 2  #: at most, about


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(FromDrafts):
    """Settings of a writer that asks a server, besides those of `FromDrafts`.

    Attributes:
        base: address of the server, with its /v1. The key comes from OPENAI_API_KEY.
        model: name of the model there.
        template: "lines" asks for the completion of lines; "chat" asks the chat model a question.
        by: "bias" moves tokens of the noisy numbers' words; "words" asks for key words; "both"; "auto" takes biases
            where the server takes them, else key words.
        biases: largest number of tokens that are moved at once.
        at_once: number of requests at once.
        most_requests, most_tokens: budget of the run with its earlier parts that were stopped; 0 is no limit. All
            requests count, retries and questions about tokens too, but for what was under way when a process was
            killed. Tokens are those that the server says, or about its bytes by four; those of retries do not count.
            What is under way when the budget is spent is finished, with its retries. What was written is kept.
        allow_remote: whether the server may stand on another machine: noisy numbers and public texts go there.
    """

    takes: ClassVar[str] = "BASE_URL#MODEL"
    part: ClassVar[int] = 32
    means: ClassVar[tuple[str, ...]] = ("at_once", "most_requests", "most_tokens", "allow_remote")

    base: str = ""
    template: Template = "lines"
    by: By = "auto"
    biases: int = 300
    at_once: int = 8
    most_requests: int = 0
    most_tokens: int = 0
    allow_remote: bool = False

    def __post_init__(self) -> None:
        FromDrafts.__post_init__(self)
        _validate.count(at_once=self.at_once, biases=self.biases)
        _validate.not_negative(most_requests=self.most_requests, most_tokens=self.most_tokens)
        for name, known in (("by", BYS), ("template", TEMPLATES)):
            if getattr(self, name) not in known:
                raise ConfigError(f"Expected {name} to be one of {', '.join(known)}, found {getattr(self, name)!r}.")
        address = self.address
        if not self.allow_remote and not address.is_here:
            raise ConfigError(
                f"Expected a server on this machine, found {address.host}: public texts and noisy numbers would go "
                "there. If they may, give --allow-remote (allow_remote=True in Python)."
            )

    @property
    def address(self) -> Address:
        """The server and its model."""
        return Address.of(f"{self.base}#{self.model}")

    @classmethod
    def at(cls, place: str) -> dict[str, Json]:
        """Return the settings that BASE_URL#MODEL names."""
        address = Address.of(place)
        return {"base": address.base, "model": address.model}

    def most_tokens_of(self, length: Length) -> int:
        """Return the largest number of tokens of a text of this length."""
        return self.tokens if length.below is None else min(self.tokens, length.below * TOKENS_A_WORD)
