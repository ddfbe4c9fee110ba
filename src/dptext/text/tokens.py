"""Tokens, lines and sentences of a text, by public rules that depend on the text alone.

The tokens suit the vocabulary of GloVe 6B, but keep capitals: the embedder looks words up::

    >>> tokenize("It didn't cost $1,000.50 in the U.S.!")
    [['It', 'did', "n't", 'cost', '$', '1,000.50', 'in', 'the', 'U.S.', '!']]

Only whitespace is dropped: the tokens, joined without a space, are the text without its whitespace. The same holds for
sentences. For tokens, a space of zero width (U+200B) is whitespace; for sentences, it is not.
"""

import bisect
import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from dptext._validate import count
from dptext.text.markup import without_tags  # noqa: F401 (who reads it from here goes on)

if TYPE_CHECKING:
    from nupunkt import PunktParameters

#: Names, as guarantees list them in `reveals`, of public functions of a text.
TOKEN_COUNT: Final = "the number of tokens"  # noqa: S105 (no secret)
LINE_STRUCTURE: Final = "the line structure"
SENTENCE_COUNT: Final = "the number of sentences"
# A word character is a letter or a digit of any script. The underscore is punctuation: "_great_" is stress, not a name.
_WORD = r"[^\W_]"
_APOSTROPHE = "['\N{RIGHT SINGLE QUOTATION MARK}\N{FULLWIDTH APOSTROPHE}]"
# Soft hyphens, joiners, byte order marks and marks of text direction. They separate no words (UAX 29).
_INVISIBLE = (
    "\u00ad\u061c\u180e\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
)
# Characters that go with the character before, besides its marks: invisible characters, the Hebrew geresh, skin tones,
# letters of flags.
_JOINED = _INVISIBLE + "\u05f3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
_SPACE_OF_ZERO_WIDTH = "\u200b"  # separates words in Thai and Khmer
# Between two letters, these characters separate no words, as in Catalan, Greek, Armenian and Hebrew (MidLetter of UAX
# 29). Colons do.
_MIDDLE = "[\u00b7\u0387\u055f\u05f4\u2027]"
_HEBREW = "[\u05d0-\u05ea\u05ef-\u05f2]"
_POINT = "[.,:\u060c\u066b\u066c\ufe50\ufe52\uff0c\uff0e\uff1a]"  # within a number
_LAST_MARK = 0xE01EF  # the last mark of Unicode 17; there is none between 0x1F000 and 0xE0100


@functools.cache
def mark_class() -> str:
    """Return the characters that go with the character before, for a set in square brackets of a pattern.

    They are the combining marks (Unicode's categories Mn, Mc, Me), invisible characters such as joiners and soft
    hyphens, the Hebrew geresh, and modifiers of emojis.
    """
    codes = itertools.chain(range(0x300, 0x1F000), range(0xE0100, _LAST_MARK + 1))  # 20 ms; all codes would take 140 ms
    marks = (code for code in codes if unicodedata.category(chr(code))[0] == "M")
    runs = itertools.groupby(enumerate(marks), lambda place: place[1] - place[0])
    ends = ((run[0][1], run[-1][1]) for run in (list(found) for _, found in runs))
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ends) + _JOINED


def _compiled(marks: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of clitics and of tokens, for `marks` that go with the character before."""
    mark, letter = f"[{marks}]", r"[^\W\d_]"
    run = f"{_WORD}+(?:{mark}+{_WORD}*)*"
    before = f"(?:{_WORD}|{mark})"
    # A clitic ends where no word goes on, or where another clitic begins: "she'dn't" is "she 'd n't".
    end = rf"(?:(?!{_WORD}|{mark})|(?=[nN]{_APOSTROPHE}[tT](?!{mark})))"
    # The lookbehinds ("there is a word before it") come last: a pattern that starts with literal characters is searched
    # for three times as fast as one that starts with a lookbehind.
    clitic = (
        rf"(?:[nN]{_APOSTROPHE}[tT](?<={before}...)"
        rf"|{_APOSTROPHE}[sSmMdD](?<={before}..)"
        rf"|{_APOSTROPHE}(?:[lL][lL]|[rR][eE]|[vV][eE])(?<={before}...)){end}"
    )
    # Every repetition starts with a character that the one before cannot match, so matching takes linear time. Hyphens
    # split: on film reviews a fifth fewer tokens are then outside the first 50,000 words of GloVe 6B.
    token = (
        rf"{letter}{mark}*\.(?:{letter}{mark}*\.)+{mark}*"  # U.S., e.g.
        # word, O'Brien, 1990s, 1,000.50, 10:30, the same in Arabic, col·lecció, and a Hebrew word with an inner quote
        rf"|{run}(?:(?:{_APOSTROPHE}|(?<=\d){_POINT}(?=\d)|(?<=[^\W\d_]|{mark}){_MIDDLE}(?={letter})"
        rf"|(?<={_HEBREW})\"(?={_HEBREW})){run})*"
        rf"|{_APOSTROPHE}(?:[sSmMdD]|[lL][lL]|[rR][eE]|[vV][eE]){end}"  # 's, 'll
        # a mark of punctuation; or a flag or another emoji, with those joined to it
        rf"|(?:[\U0001f1e6-\U0001f1ff]{{2}}|\S){mark}*(?:(?<=\u200d)[^\w\s]{mark}*)*"
    )
    return re.compile(clitic), re.compile(rf"[{_INVISIBLE}]*+(?:{token})|[{_INVISIBLE}]+")


def _compiled_for_ascii() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns for a text of ASCII alone: without what it cannot have, tokens are found twice as fast."""
    clitic, _ = _compiled("\u0300")  # any mark will do, because an ASCII text has none
    letter, word = "[a-zA-Z]", "[a-zA-Z0-9]"
    token = (
        rf"{letter}\.(?:{letter}\.)+|{word}+(?:(?:'|(?<=[0-9])[.,:](?=[0-9])){word}+)*"
        rf"|'(?:[sSmMdD]|[lL][lL]|[rR][eE]|[vV][eE])(?:(?!{word})|(?=[nN]'[tT]))|\S"
    )
    return clitic, re.compile(token)


_ASCII: Final = _compiled_for_ascii()
_marked = functools.cache(lambda: _compiled(mark_class()))
_many_marks = functools.cache(lambda: re.compile(f"([{mark_class()}]{{31,}})"))


def _split(text: str) -> tuple[str, re.Pattern[str]]:
    """Return the text with a space before each clitic, and the pattern of its tokens."""
    if text.isascii():
        clitic, token = _ASCII
        return clitic.sub(r" \g<0>", text) if "'" in text else text, token
    clitic, token = _marked()
    text = text.replace(_SPACE_OF_ZERO_WIDTH, " ")
    if any(each in text for each in _APOSTROPHE[1:-1]):  # a hundredth of the time of the search
        text = clitic.sub(r" \g<0>", text)
    return text, token


# nupunkt takes quadratic time on a long run of marks without a space and cubic time on a long run of blank lines. It
# sees the text with both replaced by harmless characters, so that no offset changes.
_BLANK_RUN = re.compile(r"\s{20,}")
_MARKS_OF_A_LONG_WORD = re.compile(r"[.!?\u2026](?=\S{50})(?<=\S{50})")
# Marks that end a sentence before a space in Hindi, Arabic, Urdu, Ethiopic, Armenian and Burmese, with the marks that
# nupunkt knows in their place.
_END_MARKS = str.maketrans("\u0964\u0965\u061f\u06d4\u1362\u1367\u0589\u104b", "..?..?..")
_LINE_END = re.compile(r"\r\n|\r|\n")
# nupunkt keeps objects for every possible end until it finishes, and Python's garbage collector visits them again and
# again. From some thousand ends on, each end took more than twice as long (measured). So nupunkt sees a text in pieces
# of a public length, each with AROUND_CHARACTERS more characters on either side.
PIECE_CHARACTERS, AROUND_CHARACTERS = 5_000, 500


def composed(text: str) -> str:
    """Return the text in Unicode's form NFC, which spells a letter and its marks in one way. Words are compared in NFC.

    Runs of more than 30 marks stay unchanged: Python sorts a run in quadratic time, and no word has so many (UAX 15).
    """
    if text.isascii():
        return text
    parts = enumerate(_many_marks().split(text))  # every second part is a long run
    return "".join(part if place % 2 else unicodedata.normalize("NFC", part) for place, part in parts)


def sentences(text: str) -> list[str]:
    r"""Split a text into sentences by nupunkt 0.8 (Bommarito et al. 2025, after Kiss and Strunk 2006), for English.

    - Each sentence is a piece of the text without the whitespace around it; none is blank. Nothing but whitespace
      between sentences is dropped.
    - An empty or blank text has no sentence. A text in which nothing ends a sentence is a single sentence.
    - One line end is whitespace. A blank line ends a sentence, unless the line before it has no end mark and the text
      goes on with a small letter (or that line ends with a hyphen).
    - The same text always gives the same sentences, and the time is linear in the length of any text.
    - nupunkt sees pieces of 5,000 characters, with 500 more on either side. The characters that decide on an end are
      nearer. In texts longer than 5,000 characters, only a word or a run of whitespace of 500 characters can change a
      result.

    nupunkt reads its own model from disk and writes nothing. In the memory of the process, it keeps words that stood
    before or after a possible end, at most some 120,000.

    >>> sentences("Dr. Smith came at 5 p.m. sharp.\nHe said: \"It's fine!\" Then he left")
    ['Dr. Smith came at 5 p.m. sharp.', 'He said: "It\'s fine!"', 'Then he left']
    >>> sentences("A heading\n\nA line\nand its end. "), sentences(" \n")
    (['A heading', 'A line\nand its end.'], [])
    """
    from nupunkt import PunktSentenceTokenizer  # noqa: PLC0415 (30 ms: only who needs sentences pays)

    # A splitter for this call alone, because a splitter remembers its decisions.
    splitter = PunktSentenceTokenizer(_learnt(), include_common_abbrevs=False)
    spelled = composed(text)  # nupunkt takes a letter and its marks for several characters, so not for an initial
    shown = _BLANK_RUN.sub(_short_blank, _MARKS_OF_A_LONG_WORD.sub("_", spelled.translate(_END_MARKS)))
    starts: list[int] = []
    for first, begin, end in _windows(len(shown)):
        spans = splitter.spans(shown[first : first + PIECE_CHARACTERS])
        starts += [first + start for start, _ in spans if begin <= first + start < end]
    if spelled != text:
        starts = _places(starts, spelled, text)
    pieces = (text[i:j].strip() for i, j in zip([0, *starts[1:]], [*starts[1:], len(text)], strict=True))
    return [piece for piece in pieces if piece]


def _places(starts: Sequence[int], spelled: str, text: str) -> list[int]:
    """Map positions in `spelled` to positions in `text`. Both are equal once each character is decomposed."""
    before, after = (
        list(itertools.accumulate((len(unicodedata.normalize("NFD", each)) for each in form), initial=0))
        for form in (spelled, text)
    )
    return [bisect.bisect_left(after, before[start]) for start in starts]


def _windows(length: int) -> Iterator[tuple[int, int, int]]:
    """Yield windows of a text: begin of the window, and the two places between which its sentence starts count.

    The spans between these places cover the text once.
    """
    begin = 0
    while begin < length:
        first = max(0, begin - AROUND_CHARACTERS)
        end = length if first + PIECE_CHARACTERS >= length else first + PIECE_CHARACTERS - AROUND_CHARACTERS
        yield first, begin, end
        begin = end


@functools.cache
def _learnt() -> "PunktParameters":
    import nupunkt  # noqa: PLC0415

    return nupunkt.load_default_model().parameters  # our own: others may change the shared model of `nupunkt.load`


def _short_blank(run: re.Match[str]) -> str:
    """Return a run of equal length: at most two line ends, then spaces."""
    return ("\n" * min(len(_LINE_END.findall(run[0])), 2)).ljust(len(run[0]))


def tokenize(text: str) -> list[list[str]]:
    r"""Split a text into lines, and each line into words, numbers and punctuation marks.

    - Lines end at ``\n``, ``\r\n`` or ``\r``; a text with n line ends has n + 1 lines, any of which may be empty.
    - Words are runs of letters and digits. A character takes its combining marks and joiners along (Unicode's UAX 29):
      no token ends within a character that readers see as one. A run of a script without spaces is one word. The marks
      that Catalan, Greek, Armenian and Hebrew write within a word stay in it (``col·lecció``); a space of zero width is
      whitespace.
    - English clitics split off as in the Penn Treebank, whose tokens GloVe was trained on (``did n't``, ``it 's``,
      ``they 'll``); another inner apostrophe stays (``O'Brien``).
    - Numbers keep inner ``.``, ``,`` and ``:`` (``1,000.50``, ``10:30``); abbreviations of single letters keep their
      dots (``U.S.``).
    - Every other character that is not whitespace is a token of its own, with its marks.

    Case and spelling are kept. The time is linear in the length of any text. ``detokenize`` gives a text of the same
    tokens.

    >>> tokenize("It's well-made.\nI'd see it again!")
    [['It', "'s", 'well', '-', 'made', '.'], ['I', "'d", 'see', 'it', 'again', '!']]
    """
    spaced, token = _split(text)
    return [token.findall(line) for line in spaced.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def detokenize(lines: Sequence[Sequence[str]]) -> str:
    r"""Write tokens of lines as a text: one space between tokens, ``\n`` between lines.

    The spacing of the private text is dropped on purpose: the result is a function of the tokens alone.

    >>> detokenize([["It", "'s", "fine", "."], [], ["Bye"]])
    "It 's fine .\n\nBye"
    """
    return "\n".join(" ".join(line) for line in lines)


def cut(lines: Sequence[Sequence[str]], max_tokens: int) -> list[list[str]]:
    """Return new lists with the first ``max_tokens`` tokens of all lines. ``max_tokens`` is public, and at least 1.

    Lines that begin after the last kept token are dropped. Empty lines before it count as no token, so the number of
    lines is not bounded by ``max_tokens``.

    >>> cut([["a", "b"], ["c", "d"], ["e"]], 3)
    [['a', 'b'], ['c']]
    """
    count(max_tokens=max_tokens)
    kept: list[list[str]] = []
    left = max_tokens
    for line in lines:
        if left == 0:
            break
        head = list(line[:left])
        kept.append(head)
        left -= len(head)
    return kept


def words_of(text: str, max_tokens: int) -> list[str]:
    r"""Return the first `max_tokens` tokens of `tokenize`, over all lines, in lower case and NFC; `max_tokens` >= 1.

    No token goes past a line end, so that one search finds the tokens of all lines. The German ß stays a letter of its
    own: words are shown, and language models write it.

    >>> words_of("It DIDN'T go\nto Rome", 5)
    ['it', 'did', "n't", 'go', 'to']
    >>> words_of("Große Straße", 5)
    ['große', 'straße']
    """
    count(max_tokens=max_tokens)
    spaced, token = _split(composed(text))
    found = token.findall(spaced)[:max_tokens]
    joined = " ".join(found)  # one call for all tokens: none has a space, even in lower case
    parts = (joined,) if joined.isascii() else _SHARP_S.split(joined)
    return "ß".join(part.casefold() for part in parts).split()


_SHARP_S: Final = re.compile("[ßẞ]")

REVEALED: Final[Mapping[str, Callable[[str], Hashable]]] = MappingProxyType(
    {
        TOKEN_COUNT: lambda text: sum(map(len, tokenize(text))),
        LINE_STRUCTURE: lambda text: tuple(map(len, tokenize(text))),
        SENTENCE_COUNT: lambda text: len(sentences(text)),
    }
)
r"""Functions of a text that mechanisms reveal. Neighbours are texts for which a revealed function is equal.

A mechanism that cuts texts reveals these functions of the cut text only, which are functions of the line structure.

>>> {name: function("It's fine.\n\nBye") for name, function in REVEALED.items()}
{'the number of tokens': 5, 'the line structure': (4, 0, 1), 'the number of sentences': 2}
"""
