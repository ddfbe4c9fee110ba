"""The input of a check of the contract, and the error that a check raises."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dptext.errors import ConfigError, DPTextError
from dptext.mechanism import Mechanism
from dptext.text.records import Record


class ContractError(DPTextError, AssertionError):
    """A mechanism breaks the contract; the message names the broken part."""


def require(condition: bool, broken: str) -> None:
    """Raise ContractError, which names what is `broken`, unless the condition holds."""
    if not condition:
        raise ContractError(f"The contract is broken. It requires: {broken}.")


AnyCase = TypeVar("AnyCase")


def run_checks(
    known: Mapping[str, Callable[[AnyCase], None]], case: AnyCase, wanted: Sequence[str] | None
) -> tuple[str, ...]:
    """Run the named checks, or all, and return their names; ConfigError for an unknown name."""
    names = tuple(known) if wanted is None else tuple(wanted)
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"Expected checks among {', '.join(known)}, found {', '.join(unknown)}.")
    for name in names:
        known[name](case)
    return names


LONG = 10_000  # words of the longest text


def _new_canaries() -> tuple[str, ...]:
    """Private texts that no draw gives by chance, each of one kind of character: letters, digits, ideographs, emoji."""
    ranges = ("0123456789", *(list(map(chr, range(*ends))) for ends in ((0x20000, 0x20400), (0x1F300, 0x1F5FF))))
    return _new_canary(), *("".join(secrets.choice(letters) for _ in range(16)) for letters in ranges)


def _new_canary() -> str:
    """A word that no vocabulary has and no mechanism can draw, of letters only, so that no tokenizer splits it."""
    return "zq" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(14))


@dataclass(frozen=True, slots=True)
class Case:
    """The input of a check.

    `words`, at least two, are of the mechanism's vocabulary. `seed` is of the seeded runs. `fit` can learn from
    `public`. `canary` and `others`, in letters, digits, ideographs and emoji, stand for private text.
    """

    mechanism: Mechanism[str]
    records: tuple[Record, ...] = field(repr=False)
    words: tuple[str, ...]
    seed: int
    public: tuple[Record, ...] = field(repr=False)
    canary: str = field(default_factory=_new_canary, repr=False)
    others: tuple[str, ...] = field(default_factory=_new_canaries, repr=False)

    @property
    def odd(self) -> list[Record]:
        """Records that break code that was not built for them."""
        word, canary = self.words[0], self.canary
        texts = (
            *("", " \n\t ", canary),
            *(f"{canary} {canary}\n{canary.upper()} {word}", f"{word} {canary}, {canary.capitalize()}!"),
            "\u00e9\u4e16\u754c \U0001f600 a\u0301 \u202e",
            "\u0645\u0631\u062d\u0628\u0627 \u043f\u0440\u0438\u0432\u0435\u0442",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 3,
            *("a" * 5000, "!?" * 200, f"{word} " * LONG + canary),
            *(f"{word} {other}" for other in self.others),
            f"{word}\r\n{word}\x0b{word}\x00",
            *["The same text."] * 2,
        )
        # Labels and authors that no training saw.
        return [Record(f"odd{i}", text, label=canary, author=canary) for i, text in enumerate(texts)]

    @property
    def batch(self) -> list[Record]:
        """Odd records, then the caller's records, then plain records."""
        plain = [Record(f"plain{i}", f"{word} {self.words[0]}") for i, word in enumerate(self.words)]
        return [*self.odd, *self.records, *plain]

    def leaks(self, text: str) -> bool:
        """Return whether a canary shows, in upper or lower case."""
        lowered = "".join(text.lower().split())  # a tokenizer may have put spaces between emoji or ideographs
        return self.canary in lowered or any(other in lowered for other in self.others)
