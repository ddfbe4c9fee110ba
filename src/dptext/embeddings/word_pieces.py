"""The word pieces of texts, as a lower-casing BERT has them (Devlin et al. 2019).

A word of an ASCII text that is in the vocabulary is one piece, and is looked up there; `tokenizers` reads all else. So
English texts are split in less time, with the same pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: Words, and other visible characters one by one.
_WORDS: Final = re.compile(r"[a-z0-9]+|[^a-z0-9\s]")
#: What `tokenizers` reads otherwise: control characters, which it drops, and the brackets of its marks, such as [SEP].
_OTHER: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\[]")

#: The share of rare words up to which they are read one by one, which takes longer than to read a text.
_MOST_RARE: Final = 0.25


class WordPieces:
    """A function from texts to the numbers of their pieces, with those of the beginning and the end.

    Args:
        tokenizer: that of the model, with its truncation and without padding.
        most: the number of pieces at which it cuts a text, beginning and end included.
    """

    __slots__ = ("_most", "_tokenizer", "_vocabulary")

    def __init__(self, tokenizer: Tokenizer, most: int) -> None:
        self._tokenizer, self._most, self._vocabulary = tokenizer, most, tokenizer.get_vocab()

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the pieces of each text."""
        first, last = self._vocabulary["[CLS]"], self._vocabulary["[SEP]"]
        split = [self._split(text) for text in texts]
        rare = sorted({each for parts in split for each in parts or () if isinstance(each, str)})
        pieces = dict(zip(rare, self._read(rare, whole=False), strict=True))
        other = iter(self._read([text for text, parts in zip(texts, split, strict=True) if parts is None], whole=True))
        found = []
        for parts in split:
            if parts is None:
                found.append(next(other))
                continue
            own = list[int]()
            for part in parts:
                own += pieces[part] if isinstance(part, str) else (part,)
            found.append([first, *own[: self._most - 2], last])
        return found

    def _split(self, text: str) -> list[int | str] | None:
        """The words of a text: a piece, or the word itself if it is not in the vocabulary; each is at least one piece.

        None: `tokenizers` must read the text, or does so faster, as most of the words are not in the vocabulary.
        """
        if not text.isascii() or _OTHER.search(text):
            return None
        words = _WORDS.findall(text.lower())[: self._most]
        found = [self._vocabulary.get(word, word) for word in words]
        rare = sum(isinstance(each, str) for each in found)
        return found if rare <= _MOST_RARE * len(found) else None

    def _read(self, texts: Sequence[str], *, whole: bool) -> list[list[int]]:
        """The pieces of texts, or of words, by `tokenizers`. Half of a surrogate pair is read as "?"."""
        readable = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return [each.ids for each in self._tokenizer.encode_batch(readable, add_special_tokens=whole)] if texts else []
