"""The public word list: which words of a text count.

A text marks at most `most` different words of the list. Where it has more, those that come first in the list count, or,
for long texts, some that a digest of the text draws. List and order are made of public text alone, so that they stand
in the summary.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from dptext.embeddings.known_words import KnownWords
from dptext.embeddings.tfidf import load_sklearn
from dptext.errors import ConfigError
from dptext.text.function_words import ENGLISH, FUNCTION_WORDS
from dptext.text.tokens import words_of
from dptext.types import Floats, Integers

#: The number of words of a text that are read, from its first on. No text has more marks.
MOST_READ: Final = 4_096
_POOL: Final = 50.0  # weight of the pool's rates, in texts, beside the drafts
_PULL: Final = 8.0  # weight of all public texts, in texts, beside the drafts of a label
_LEAST: Final = 1e-5  # a rate is at least this

#: Forms of the most frequent English verbs (the 25 of the Oxford English Corpus, without those that name a subject:
#: work, call, leave), and of verbs that are used like them. scikit-learn's stop words have few of the forms.
_VERBS: Final = """
say says said saying get gets got getting gotten make makes made making go goes went going gone know knows knew known
knowing take takes took taken taking see sees saw seen seeing come comes came coming think thinks thought thinking look
looks looked looking want wants wanted wanting give gives gave given giving use uses used using find finds found finding
tell tells told telling ask asks asked asking seem seems seemed feel feels felt feeling try tries tried trying let lets
letting put puts putting keep keeps kept keeping need needs needed become becomes became like likes liked begin begins
began happen happens happened
"""
#: Words of scikit-learn's stop words that say something of a subject.
_TELLING: Final = frozenset({
    "amount", "bill", "call", "computer", "cry", "fire", "interest", "mill", "mine", "move", "system",
})  # fmt: skip


@cache
def untelling_words(language: str = ENGLISH) -> frozenset[str]:
    """Return the words that no report shows as words of a label or topic. They count as other words do.

    A language without a list of function words has none.
    """
    words = FUNCTION_WORDS.get(language, frozenset())
    if language != ENGLISH:
        return words
    stop = frozenset(load_sklearn().feature_extraction.text.ENGLISH_STOP_WORDS)
    return (stop - _TELLING) | words | frozenset(_VERBS.split())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lexicon:
    """The words of the list, in the order in which they count, and the largest number of marks of a text.

    With `drawn`, a text that has more words of the list marks those that its digest draws, whatever their order: the
    first of the list, which nearly all long texts have, tell little. The draw is a function of the text alone, as the
    order is, so that no guarantee rests on its being random (decision 26).
    """

    words: tuple[str, ...]
    most: int
    drawn: bool = False
    _known: KnownWords = field(init=False)

    def __post_init__(self) -> None:
        known = KnownWords(self.words, lambda text: words_of(text, MOST_READ), search="tokens", most=MOST_READ)
        object.__setattr__(self, "_known", known)

    def __reduce__(self) -> Any:
        return type(self), (self.words, self.most, self.drawn)  # what follows from them is made anew

    def __len__(self) -> int:
        return len(self.words)

    @property
    def digest(self) -> str:
        """sha256 of the list, its order, the number of marks, and how they are chosen."""
        rule = f"{self.most} drawn" if self.drawn else str(self.most)
        return hashlib.sha256("\n".join([rule, *self.words]).encode("utf-8", "surrogatepass")).hexdigest()

    def known(self, text: str) -> set[int]:
        """Return the places in the list of all words of a text."""
        _, places, _ = self._known.counted([text])
        return set(places.tolist())

    def marks(self, texts: Sequence[str]) -> Integers:
        """Return the places of the marks of each text, `(n, most)`, in order; -1 where a text has fewer."""
        rows, places, _ = self._known.counted(texts)
        starts = np.searchsorted(rows, np.arange(len(texts) + 1))
        column = np.arange(len(rows)) - starts[rows]
        first = column < self.most
        found = np.full((len(texts), self.most), -1, np.int64)
        found[rows[first], column[first]] = places[first]
        if self.drawn:
            for row in np.flatnonzero(np.diff(starts) > self.most).tolist():
                found[row] = _drawn(texts[row], places[starts[row] : starts[row + 1]], self.most)
        return found


def fit_lexicon(
    public: Iterable[str],
    *,
    names: Iterable[str] = (),
    more: Iterable[str] = (),
    size: int,
    most: int,
    drawn: bool = False,
    language: str = ENGLISH,
) -> Lexicon:
    """Return the list of at most `size` words: of `names`, then those of most public texts, then `more` in their order.

    `names` are the meanings of the labels. Their words say most of a label, and texts may lack them.

    Words without a letter or digit, clitics such as 's, single ASCII letters and the function words of the `language`
    are left out.
    ConfigError: no word is left.
    """
    named = [word for name in names for word in words_of(name, MOST_READ)]
    counts = Counter(word for text in public for word in set(words_of(text, MOST_READ)))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    function = FUNCTION_WORDS.get(language, frozenset())
    words = [word for word in dict.fromkeys([*named, *ranked, *more]) if _counts(word) and word not in function][:size]
    if not words:
        raise ConfigError("Expected public texts with words to count, found none: give other texts.")
    return Lexicon(tuple(words), most, drawn)


def mark_rates(lexicon: Lexicon, texts: Sequence[str], drafts: Sequence[Sequence[str]], labels: int) -> Floats:
    """Return the rates at which public texts of each label have each word among their marks, `(labels, width)`.

    They are rates of the drafts of a label, pulled towards those of all drafts and the pool's `texts`. Without drafts
    they are those of the pool, whatever the label.
    """
    own = [(_marked(lexicon, each), len(each)) for each in drafts or [()] * labels]
    pool, share = _marked(lexicon, texts), _POOL / max(1, len(texts))
    drafted, written = sum(marked for marked, _ in own), sum(n for _, n in own)
    usual = (drafted + share * pool) / (written + _POOL)
    return np.array([np.maximum((marked + _PULL * usual) / (n + _PULL), _LEAST) for marked, n in own])


def rate_texts(texts: int, drafts: Sequence[int]) -> Floats:
    """Return the numbers of independent texts whose rates vary as those of `mark_rates` do, `(labels,)`.

    `texts` is the number of the pool's texts, and `drafts` has that of each label's drafts. A rate is a weighted mean
    over these texts, whose variance is that of one text times the sum of the squared weights.
    """
    written = sum(drafts)
    pulled = _PULL / (written + _POOL)  # of all drafts; the pool as a whole has `_POOL` times as much
    squared = [n * (1 + pulled) ** 2 + (written - n + _POOL**2 / max(1, texts)) * pulled**2 for n in drafts]
    return np.array([(n + _PULL) ** 2 / each for n, each in zip(drafts, squared, strict=True)])


def _marked(lexicon: Lexicon, texts: Sequence[str]) -> Floats:
    """Return the number of texts that have each word among their marks, `(width,)`."""
    marks = lexicon.marks(texts)
    return np.bincount(marks[marks >= 0], minlength=len(lexicon)).astype(np.float64)


def _drawn(text: str, places: Integers, n: int) -> list[int]:
    """Return `n` of these places, which the digest of a text draws: the same ones for the same text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    mixed = places.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(int.from_bytes(digest, "big"))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finalizer of SplitMix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return sorted(places[np.argsort(mixed, kind="stable")[:n]])


def _counts(word: str) -> bool:
    """Return whether a word can be on the list, if it is no function word."""
    alone = len(word) == 1 and word.isascii() and not word.isdigit()
    return word[0].isalnum() and not alone and "'" not in word
