"""Names of people and accounts in a normal form, so that one name has one spelling.

>>> normal_form("  MARI\u0301A ") == normal_form("mar\u00eda")
True
"""

import unicodedata
from typing import Final

#: How names are compared, as certificates and terms say it.
COMPARED: Final = "compared in Unicode's form NFKC, with case folded and without white space at the ends"


def normal_form(name: str) -> str:
    """The name in NFKC, with case folded and without white space at its ends; applied twice it changes nothing."""
    found = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()
    return found if found == name else normal_form(found)
