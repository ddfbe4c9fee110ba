"""Which words are one token within a line, by the tokenizer of a server.

Many words are asked for in one request: each stands in a line of its own, so that the tokens of line breaks part them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

#: Returns the tokens of a text, or None if the server does not tell.
Tokenizes: TypeAlias = Callable[[str], Sequence[int] | None]
_LINES: Final = 256  # in a request


def spellings(word: str) -> tuple[str, ...]:
    """Return a word as it stands within a text, in small letters and with a capital."""
    return tuple(dict.fromkeys((f" {word}", f" {word.capitalize()}")))


def token_requests(words: int) -> int:
    """Return about how many requests the tokens of so many words take. A word that joins a line break takes more."""
    return 3 + -(-2 * words // _LINES)


class WordTokens:
    """The tokens of words within a line. What the server told is remembered."""

    def __init__(self, ask: Tokenizes) -> None:
        self._ask, self._known = ask, dict[str, int | None]()
        self._break: int | None = None  # token of a line break
        self._tells: bool | None = None

    def __repr__(self) -> str:
        return f"WordTokens({len(self._known)} known)"

    def learn(self, texts: Iterable[str]) -> None:
        """Ask for the tokens of these texts, each of which stands in one line, as far as they are not known.

        ServerError: the server fails.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new and self._tells is None:
            # Some tokenizers put a space before a text that begins: the break is the last token.
            alone = self._ask("\n")
            self._tells = bool(alone)
            self._break = alone[-1] if alone else None
        for digits in (False, True):
            own = [text for text in new if text.lstrip()[:1].isdigit() is digits]
            for start in range(0, len(own), _LINES):
                self._learn(own[start : start + _LINES], digits=digits)

    def of(self, text: str) -> int | None:
        """Return the token of a text; None if it has several, or the server does not tell. It was learnt before."""
        return self._known[text]

    def _learn(self, texts: Sequence[str], *, digits: bool) -> None:
        if (found := self._parted(texts)) is not None:
            own = (line[0] if len(line) == 1 else None for line in found)
            self._known.update(zip(texts, own, strict=True))
        elif len(texts) == 1 or not self._tells or (digits and self._parted(texts[:1]) is None):
            # A line break and the space after it are one token here. Where they are before a digit, they always are.
            self._known.update(dict.fromkeys(texts))
        else:
            middle = len(texts) // 2
            self._learn(texts[:middle], digits=digits)
            self._learn(texts[middle:], digits=digits)

    def _parted(self, texts: Sequence[str]) -> list[list[int]] | None:
        """Return the tokens of each text; None if the breaks between them are no tokens of their own."""
        if not self._tells:
            return None
        lines: list[list[int]] = [[]]
        for token in self._ask("".join(f"\n{text}" for text in texts)) or ():
            if token == self._break:
                lines.append([])
            else:
                lines[-1].append(token)
        # Before the first break there is nothing, or a space.
        return lines[1:] if len(lines) == len(texts) + 1 else None
