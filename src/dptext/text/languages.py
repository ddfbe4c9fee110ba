"""The language that most of some texts are in.

py3langid tells the language of a passage (naive Bayes over bytes; Lui and Baldwin 2012). It misjudges single short
texts: of five words of English it calls up to every second not English. So texts are joined to passages of at least
200 letters, and each passage is judged. Where the passages do not agree, nothing is said.

The model takes a second to load. Where four in five passages have many words that are English alone, it is not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from dptext.text.function_words import ENGLISH, FUNCTION_WORDS
from dptext.text.tokens import words_of

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier  # a second to load its model

#: The number of texts that are looked at, evenly spaced, and of the first characters of each that are.
MOST_TEXTS: Final = 400
MOST_CHARACTERS: Final = 500
_LETTERS: Final = 200  # at least, of a passage
_MOST_PASSAGES: Final = 40
_FEWEST_PASSAGES: Final = 3
_SURE: Final = 0.8  # of the passages are in one language
_MOST_WORDS: Final = 200  # of a text that are compared with English ones
#: Function words of English that German, Dutch, French, Spanish, Portuguese or Italian texts have, too.
_SHARED: Final = """
a i me my he her his it we us our am is was be do does had have has will an as at in on or no not so of by all also more
most can must if here once over up under who same such mine
"""
_ENGLISH_ALONE: Final = FUNCTION_WORDS[ENGLISH] - frozenset(_SHARED.split())
_CLEARLY_ENGLISH: Final = 0.1  # of the words of a passage
_NAMES: Final = {
    "af": "Afrikaans", "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "bs": "Bosnian", "ca": "Catalan",
    "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "ko": "Korean",
    "la": "Latin", "lb": "Luxembourgish", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ms": "Malay",
    "nl": "Dutch", "nn": "Norwegian", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish",
    "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MainLanguage:
    """The language that most of some texts are in.

    Attributes:
        code: its name in ISO 639, such as "de".
        share: the share of the passages that were judged to be in it; at least .8.
    """

    code: str
    share: float

    @property
    def name(self) -> str:
        """The name in words, such as "German"; the code of a language without a name here."""
        return _NAMES.get(self.code, f"the language {self.code!r} of ISO 639")


def main_language(texts: Sequence[str]) -> MainLanguage | None:
    """Return the language that most of the texts are in; None if that is not sure, or they have too few letters.

    The first 500 characters of 400 texts are read, which are evenly spaced.
    """
    looked = [text[:MOST_CHARACTERS] for text in _spaced(texts, MOST_TEXTS)]
    passages = _spaced(list(_passages(looked)), _MOST_PASSAGES)
    if len(passages) < _FEWEST_PASSAGES:
        return None
    clearly = sum(_english_words(passage) >= _CLEARLY_ENGLISH for passage in passages) / len(passages)
    if clearly >= _SURE:
        return MainLanguage(ENGLISH, clearly)
    judged = Counter(load_identifier().classify(passage)[0] for passage in passages)
    code, n = judged.most_common(1)[0]
    share = n / len(passages)
    return MainLanguage(code, share) if share >= _SURE and code != _NOTHING else None


class Spaced:
    """At least `MOST_TEXTS` of any number of texts, evenly spaced, as they come one after the other."""

    __slots__ = ("_seen", "_step", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._seen, self._step = 0, 1

    def __repr__(self) -> str:
        return f"Spaced({len(self.texts)} of {self._seen} texts)"

    def add(self, text: str) -> None:
        """Look at one more text."""
        if self._seen % self._step == 0:
            self.texts.append(text)
            if len(self.texts) == 2 * MOST_TEXTS:
                self.texts, self._step = self.texts[::2], 2 * self._step
        self._seen += 1


_NOTHING: Final = "zxx"  # the answer of the model for what is in no language


def _spaced(texts: Sequence[str], most: int) -> Sequence[str]:
    """Return at most so many texts, evenly spaced."""
    return texts if len(texts) <= most else [texts[i * len(texts) // most] for i in range(most)]


def _passages(texts: Sequence[str]) -> Iterator[str]:
    """Yield passages of whole texts, each with enough letters. The rest is dropped."""
    letters, joined = 0, list[str]()
    for text in texts:
        joined.append(text)
        letters += sum(map(str.isalpha, text))
        if letters >= _LETTERS:
            yield "\n".join(joined)
            letters, joined = 0, []


def _english_words(passage: str) -> float:
    """Return the share of function words that are English alone among the words of a passage."""
    words = [word for word in words_of(passage, _MOST_WORDS) if word[0].isalpha()]
    return sum(word in _ENGLISH_ALONE for word in words) / max(1, len(words))


@cache
def load_identifier() -> LanguageIdentifier:
    """Load the model of py3langid. It is looked up at each call, so that tests can replace it."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 (needed by few)

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
