"""Writing style as a documented vector of features, and the distance of an output's style from its original's.

    >>> from dptext.utility.stylometry import FEATURES, features
    >>> found = dict(zip(FEATURES, features(["I like it. Do you?"])[0].tolist(), strict=True))
    >>> found["words"], found["sentences"], found["word you"], found["mark ?"]
    (5.0, 2.0, 0.2, 0.07142857142857142)

The features follow the groups of Iqbal et al. 2013 (lexical, function words, punctuation, structure) with readability.
They are computed from the tokens of `tokenize`. So a text and its tokens, joined by blanks, differ in the whitespace
ratio alone:

* A *character* is any character that is not whitespace. A *word* is a token with a letter, clitics joined again ("did
  n't" and "didn't" are one word). A *sentence* ends at a run of the tokens . ! ? and the ellipsis, if there was a word
  since the previous sentence. Words after the last run are a sentence, too.
* Lengths: characters, words, sentences, characters per word, words per sentence, the longest word.
* Shares of characters: letters, upper case, digits, others. Whitespace is the share of *all* characters.
* Shares of words: short (3 letters or fewer), long (7 or more), capitalised, all in capitals (2 letters or more), with
  a digit, contracted (with an apostrophe).
* Vocabulary richness, of N words in lower case, V of them different, V_i of which occur i times: type-token ratio
  V / N, its root form V / sqrt(N) (Guiraud), hapax share V_1 / N, dis legomena V_2 / N, Yule's
  K = 10^4 (sum of i^2 V_i - N) / N^2 (Yule 1944), Simpson's D = sum of i (i - 1) V_i / (N (N - 1)).
* Readability: syllables per word (`syllables`), Flesch reading ease 206.835 - 1.015 N/S - 84.6 syllables/N, and
  Flesch-Kincaid grade 0.39 N/S + 11.8 syllables/N - 15.59, for S sentences.
* `word ...`: share of the words that are this function word. `mark ...`: share of the characters that are this mark;
  curly quotes count as straight ones, both dashes as one.

A quotient of nothing is 0, so a text without words has readability 0, and an empty text is the zero vector.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.bootstrap import bootstrap_mean
from dptext.text.records import Record, Release
from dptext.text.tokens import composed, tokenize
from dptext.types import Floats
from dptext.utility.fidelity import check_pairs

#: English words of grammar, not of a topic: pronouns, articles, prepositions, conjunctions, auxiliaries, particles.
FUNCTION_WORDS: Final = (
    "i", "me", "my", "we", "us", "our", "you", "your", "he", "him", "his", "she", "her", "it", "its", "they", "them",
    "their", "this", "that", "these", "those", "who", "which", "what", "there",
    "a", "an", "the", "some", "any", "each", "every", "all", "both", "no", "other", "such", "more", "most", "much",
    "of", "in", "to", "for", "with", "on", "at", "by", "from", "about", "as", "into", "over", "after", "before",
    "through", "between", "under", "without", "against", "up", "down", "out", "off",
    "and", "or", "but", "if", "because", "while", "when", "where", "than", "though", "until", "since", "so",
    "is", "am", "are", "was", "were", "be", "been", "being", "have", "has", "had", "do", "does", "did", "will", "would",
    "can", "could", "should", "may", "might", "must",
    "not", "only", "just", "also", "very", "too", "then", "now", "here", "how", "why", "again",
)  # fmt: skip

#: Punctuation, each mark as it is counted.
MARKS: Final = (
    ".", ",", ";", ":", "!", "?", "\N{HORIZONTAL ELLIPSIS}", "'", '"', "-", "\N{EN DASH}", "(", ")", "/", "&", "*", "#",
    "@", "$", "%", "_", "+", "=", "<", ">",
)  # fmt: skip

_COUNTS = (
    "characters", "words", "sentences", "characters per word", "words per sentence", "longest word",
    "letter ratio", "upper case ratio", "digit ratio", "other ratio", "whitespace ratio",
    "short words", "long words", "capitalised words", "words in capitals", "words with a digit", "contracted words",
    "type-token ratio", "root type-token ratio", "hapax share", "dis legomena share", "Yule's K", "Simpson's D",
    "syllables per word", "Flesch reading ease", "Flesch-Kincaid grade",
)  # fmt: skip

#: Names of the features, in the order of their columns.
FEATURES: Final = (*_COUNTS, *(f"word {word}" for word in FUNCTION_WORDS), *(f"mark {mark}" for mark in MARKS))

_CURLY = "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
_CURLY_DOUBLE = "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_SAME_MARK = str.maketrans(f"{_CURLY}{_CURLY_DOUBLE}\N{EM DASH}", "''\"\"\N{EN DASH}")
_END_MARKS = frozenset((".", "!", "?", "\N{HORIZONTAL ELLIPSIS}"))
_CLITIC = re.compile(r"(?:n't|'(?:s|m|d|ll|re|ve))", re.IGNORECASE)
# A y before a vowel is a consonant: you, player.
_VOWELS = re.compile(r"(?:[aeiou]|y(?![aeiou]))+")
# A silent e, or the silent e of es and ed, at the end (stone, stones, baked; but table, handled, boxes, wanted) or
# before a suffix (likely, movement).
_SILENT = re.compile(
    r"(?<=[a-z])(?<![aeiouy])(?<![^aeiouyrl]l)(?:e|(?<![sxzcg])(?<!sh)(?<!ch)es|(?<![td])ed)$"
    r"|(?<=[aeiou]y)e[sd]?$|(?<=[a-z])(?<![aeiouyl])e(?=(?:ment|ful|ness|less)s?$|(?:l|t)y$)"
)
# Two syllables in one run of vowels: radio (not nation, million), annual (not quality), client (not patient), create,
# video (not people), going.
_SPLIT = re.compile(
    r"(?<![tscgxln])i[aou]|(?<![qg])ua|(?<![tscg])ie(?=n[ct]|ty)|(?<=sc)ie|(?<=cr)ea(?=t[eio])|(?<![pg])eo(?!u)"
    r"|[aeiou]ing|(?<=[^aeiou])ying|uous$|ism$"
)
_NOT = re.compile(r"[bcdfgkpst]n['\N{RIGHT SINGLE QUOTATION MARK}]t$")


def syllables(word: str) -> int:
    """Return the number of syllables of an English word, by its spelling: at least 1.

    The count starts from the number of runs of the vowels a, e, i, o, u, and y where no vowel follows. Accents are
    dropped. A silent e subtracts one: at the end (but not of -le after a consonant, of -es after a hissing sound, or of
    -ed after t or d), and before -ly, -ty, -ment, -ful, -ness and -less. A run of two syllables (radio, annual, client,
    going) adds one, and so does n't after a consonant.

    >>> [syllables(word) for word in ("the", "table", "stones", "wanted", "baked", "radio", "nation", "syllable")]
    [1, 2, 1, 2, 1, 3, 2, 3]
    """
    bare = unicodedata.normalize("NFKD", word.lower())
    spelled = "".join(letter for letter in bare if "a" <= letter <= "z")
    found = len(_VOWELS.findall(spelled)) - len(_SILENT.findall(spelled)) + len(_SPLIT.findall(spelled))
    return max(1, found + len(_NOT.findall(bare)))


def features(texts: Sequence[str]) -> Floats:
    """The features of each text, `(n_texts, len(FEATURES))` in the order of `FEATURES`; finite for empty texts, too."""
    return np.array([_features_of(text) for text in texts], np.float64).reshape(len(texts), len(FEATURES))


def _features_of(text: str) -> list[float]:
    text = composed(text).translate(_SAME_MARK)
    words, n_sentences = _words(text)
    characters = Counter(text)
    n_spaces, letters, upper, digits = (
        sum(count for character, count in characters.items() if test(character))
        for test in (str.isspace, str.isalpha, str.isupper, str.isdigit)
    )
    n_characters, n_words, lengths = len(text) - n_spaces, len(words), [len(word) for word in words]
    kinds = Counter(word.lower() for word in words)
    sentence_length = _share(n_words, n_sentences)
    word_syllables = _share(sum(syllables(word) * count for word, count in kinds.items()), n_words)
    return [
        *map(float, (n_characters, n_words, n_sentences)),
        _share(sum(lengths), n_words),
        sentence_length,
        float(max(lengths, default=0)),
        *(_share(count, n_characters) for count in (letters, upper, digits, n_characters - letters - digits)),
        _share(n_spaces, len(text)),
        *(_share(sum(map(test, words)), n_words) for test in _WORD_CLASSES),
        *_richness(kinds),
        word_syllables,
        206.835 - 1.015 * sentence_length - 84.6 * word_syllables if n_words else 0.0,
        0.39 * sentence_length + 11.8 * word_syllables - 15.59 if n_words else 0.0,
        *(_share(kinds[word], n_words) for word in FUNCTION_WORDS),
        *(_share(characters[mark], n_characters) for mark in MARKS),
    ]


_WORD_CLASSES = (
    lambda word: len(word) <= 3,
    lambda word: len(word) >= 7,
    lambda word: word[0].isupper() and not (len(word) > 1 and word.isupper()),
    lambda word: len(word) > 1 and word.isupper(),
    lambda word: any(map(str.isdigit, word)),
    lambda word: "'" in word,
)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _words(text: str) -> tuple[list[str], int]:
    words: list[str] = []
    n_sentences, begun, after_word = 0, False, False
    for token in (token for line in tokenize(text) for token in line):
        is_word = any(map(str.isalpha, token))
        if is_word and after_word and _CLITIC.fullmatch(token):
            words[-1] += token
        elif is_word:
            words.append(token)
            begun = True
        elif begun and token in _END_MARKS:
            n_sentences, begun = n_sentences + 1, False
        after_word = is_word
    return words, n_sentences + begun


def _richness(kinds: Counter[str]) -> list[float]:
    n, v = kinds.total(), len(kinds)
    occurring = Counter(kinds.values())
    repeated = sum(i * i * count for i, count in occurring.items()) - n
    shares = [_share(v, n), _share(v, math.sqrt(n)), _share(occurring[1], n), _share(occurring[2], n)]
    return [*shares, 1e4 * _share(repeated, n * n), _share(repeated, n * (n - 1))]


#: Features are cut at this number of standard deviations from their public mean. Otherwise a mark that public text
#: hardly has would outweigh everything else: an underscore in a text of 20 tokens was hundreds of deviations away.
LIMIT: Final = 5.0
_CONSTANT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class StyleSpace:
    """Features on a public scale: less their public mean, divided by their public standard deviation, cut at `LIMIT`.

    A distance in this space is a number of standard deviations, over all features together. The distance depends on the
    features and on the public text. Do not compare distances of two spaces, nor with distances that papers print.

    `mean` and `scale` are the mean and the standard deviation of each feature on the public text, `(len(FEATURES),)`.
    The scale is 1 for a feature that is constant there, so that the feature keeps its units.
    """

    mean: Floats
    scale: Floats

    def __post_init__(self) -> None:
        for name, given in (("mean", self.mean), ("scale", self.scale)):
            values = np.array(given, np.float64)
            if values.shape != (len(FEATURES),) or not np.isfinite(values).all():
                raise ConfigError(f"Expected {name} to be {len(FEATURES)} finite numbers, found shape {values.shape}.")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if self.scale.min() <= 0:
            raise ConfigError("Expected scale to be above 0 for every feature.")

    def __repr__(self) -> str:
        return f"StyleSpace({len(FEATURES)} features)"

    @classmethod
    def fit(cls, public: Iterable[Record]) -> StyleSpace:
        """Fit the space to public texts, for example those of a mechanism's fit; ConfigError for fewer than two."""
        texts = [record.text for record in public]
        if len(texts) < 2:
            raise ConfigError(f"Expected at least two public texts to scale features by, found {len(texts)}.")
        found = features(texts)
        mean, spread = found.mean(axis=0), found.std(axis=0)
        return cls(mean, np.where(spread > _CONSTANT * np.maximum(1.0, np.abs(mean)), spread, 1.0))

    def standardise(self, texts: Sequence[str]) -> Floats:
        """Return the features of texts in this space `(n_texts, len(FEATURES))`, in [-LIMIT, LIMIT]."""
        return np.asarray(np.clip((features(texts) - self.mean) / self.scale, -LIMIT, LIMIT))

    def distances(self, originals: Sequence[Record], outputs: Sequence[Release[str]]) -> Floats:
        """Return the Euclidean distance of each output's style from its own original's `(n_records,)`."""
        check_pairs(originals, outputs)
        before = self.standardise([record.text for record in originals])
        after = self.standardise([release.output for release in outputs])
        return np.asarray(np.linalg.norm(after - before, axis=1))

    def distance(self, originals: Sequence[Record], outputs: Sequence[Release[str]], *, seed: int = 0) -> Estimate:
        """The mean of `distances` with its 95% bootstrap interval over records; ConfigError for outputs of others."""
        farthest = 2 * LIMIT * math.sqrt(len(FEATURES))
        return bootstrap_mean(self.distances(originals, outputs), seed=seed, bounds=(0.0, farthest))
