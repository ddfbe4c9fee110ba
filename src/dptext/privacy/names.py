"""Normal forms of names of people and accounts, so that each name has one spelling; detection of look-alike names.

>>> normal_form("  MARI\u0301A ") == normal_form("mar\u00eda")
True
>>> look_alike("people", "\u0440\u0435\u043e\u0440l\u0435")  # Cyrillic but for the l
True
>>> mixed_scripts("\u0440\u0435\u043e\u0440l\u0435"), mixed_scripts("\u043b\u044e\u0434\u0438 v2")
(('CYRILLIC', 'LATIN'), ())
"""

import re
import unicodedata
from typing import Final

#: The rule by which names are compared, in the words of certificates and terms.
COMPARED: Final = "compared in Unicode's form NFKC, with case folded and without white space at the ends"
#: The rule for names that are compared by their visible characters (`seen_form`).
AS_SEEN: Final = f"{COMPARED}, and without characters that show nothing"
#: The assumption of a charge to named subjects.
ONE_NAME: Final = f"each subject has one name in all runs (names are {AS_SEEN})"

#: East Asian words may mix these scripts, and Latin. None of their letters looks like a letter of an alphabet.
_EAST_ASIAN: Final = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"}
_WORD: Final = re.compile(r"[^\W_]+")
#: Characters that fonts show as nothing: a joiner, fillers, variation selectors.
_UNSEEN: Final = dict.fromkeys(
    [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
)
#: Small letters of Cyrillic, Greek, Armenian and phonetic Latin, and the Latin letters that look like them.
_SMALL: Final = {
    **str.maketrans("авсԁеһіјӏкмноргԛѕтуѵԝх", "abcdehijlkmhoprqstyvwx"),
    **str.maketrans("αγηικνορτυχω", "aynikvoptuxw"),
    **str.maketrans("գհյոսց\u0585զɑɡıʏ", "qhjnugoqagiy"),
}
#: Capitals of Cyrillic, Greek, Armenian and Cherokee, and the Latin capitals that look like them.
_CAPITAL: Final = {
    **str.maketrans("АВСЕНІӀЈКМОРԚЅТУҮѴԜХ", "ABCEHIIJKMOPQSTYYVWX"),
    **str.maketrans("ΑΒϹΕΖΗΙΚΜΝΟΡΤΥΧ", "ABCEZHIKMNOPTYX"),
    **str.maketrans("ՕՍԼՏ", "OULS"),
    **str.maketrans("ᎠᎡᎢᎪᎫᎬᎳᎷᎻᎽᏀᏃᏒᏔᏕᏙᏚᏞᏟᏢᏦᏴ", "DRTAJEWMHYGZRWSVSLCPKB"),
}


def normal_form(name: str) -> str:
    """Return the name in NFKC, with case folded and without white space at its ends. The function is idempotent."""
    found = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()
    return found if found == name else normal_form(found)


def seen_form(name: str) -> str:
    """The normal form of a name without its invisible characters: controls, joiners and the like."""
    if name.isascii() and name.isprintable():  # most names: all signs are seen, and are their own NFKC
        return name.casefold().strip()
    found = normal_form("".join(letter for letter in name if not _shows_nothing(letter)))
    return found if found == name else seen_form(found)


def _shows_nothing(letter: str) -> bool:
    return (
        ord(letter) in _UNSEEN
        or unicodedata.category(letter) == "Cf"
        or (unicodedata.category(letter) == "Cc" and not letter.isspace())
    )


def mixed_scripts(name: str) -> tuple[str, ...]:
    """The Unicode names of the scripts of the first word that mixes several scripts; empty if no word does."""
    bare = (letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter)[0] != "M")
    for word in _WORD.findall("".join(bare)):
        letters = [letter for letter in word if unicodedata.category(letter) in ("Lu", "Ll", "Lt", "Lo")]
        scripts = {unicodedata.name(letter, "UNKNOWN").split()[0] for letter in letters} - _EAST_ASIAN
        if len(scripts) > 1:
            return tuple(sorted(scripts))
    return ()


def look_alike(one: str, other: str) -> bool:
    """Tell whether two names look the same, in small letters or in capitals, by this module's tables of letters."""
    return bool(_looks(one) & _looks(other))


def _looks(name: str) -> set[str]:
    small = normal_form(name.translate(_UNSEEN))
    capital = small.upper()
    return {small.translate(_SMALL), capital.translate(_CAPITAL).lower()}
