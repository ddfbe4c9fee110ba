"""Words of ASCII texts, looked up in a list of words by their bytes.

Texts lie end to end in `data`, and `ends` has a 0 and the end of each; so do the words of a list, which are different
ones of ASCII in lower case. `slots` is a table with open addressing, of the number of a word or -1; their number is a
power of two.
"""

from typing import Final

import numpy as np

from dptext.kernels.compilation import compiled_with
from dptext.types import Int32s, Integers, UInt8s

#: The words of a list, end to end, their ends, and the slots.
List = tuple[UInt8s, Integers, Int32s]

_BASIS: Final = np.uint64(0xCBF29CE484222325)  # of the hash FNV-1a
_PRIME: Final = np.uint64(0x100000001B3)
_HALF: Final = np.uint64(32)
_QUOTE: Final = ord("'")
_STOP: Final = ord(".")
_INNER: Final = (ord("."), ord(","), ord(":"))  # within a number
_ALONE: Final = (ord("s"), ord("m"), ord("d"))  # clitics of one letter
_L: Final = ord("l")
_BEFORE_E: Final = (ord("r"), ord("v"))
_E: Final = ord("e")
_LINE: Final = ord("_")
_N: Final = ord("n")
_T: Final = ord("t")

_compiled = compiled_with()


@_compiled
def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte


@_compiled
def _is_letter(byte: int) -> bool:
    return 97 <= _lower(byte) <= 122


@_compiled
def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


@_compiled
def _is_space(byte: int) -> bool:
    return 9 <= byte <= 13 or 28 <= byte <= 32


@_compiled
def _slot(data: UInt8s, start: int, stop: int, slots: Int32s) -> np.int64:
    found = _BASIS
    for i in range(start, stop):
        found = (found ^ np.uint64(_lower(data[i]))) * _PRIME
    return np.int64((found ^ (found >> _HALF)) & np.uint64(len(slots) - 1))


@_compiled
def fill(known: List) -> None:
    """Put the numbers of all words into the slots, of which at least half are to remain -1."""
    listed, ends, slots = known
    for i in range(len(ends) - 1):
        slot = _slot(listed, ends[i], ends[i + 1], slots)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = i


@_compiled
def _number(data: UInt8s, start: int, stop: int, known: List) -> np.int32:
    """The number of the word that these bytes are in lower case, or -1."""
    listed, ends, slots = known
    slot = _slot(data, start, stop, slots)
    while slots[slot] >= 0:
        word = slots[slot]
        first = ends[word]
        if ends[word + 1] - first == stop - start:
            i = 0
            while i < stop - start and listed[first + i] == _lower(data[start + i]):
                i += 1
            if i == stop - start:
                return np.int32(word)
        slot = (slot + 1) & (len(slots) - 1)
    return np.int32(-1)


@_compiled
def _kept(number: np.int32, found: Int32s, n: int) -> int:
    """Write the number of a listed word behind the first `n`, and return how many there are then."""
    if number < 0:
        return n
    found[n] = number
    return n + 1


@_compiled
def runs(data: UInt8s, ends: Integers, known: List, most: int, found: Int32s, counts: Integers) -> int:
    """Look up runs of letters, digits and underscores, at most the first `most` of a text.

    The numbers of those that are in the list are written into `found` `(len(data),)`, and how many each text has into
    `counts`. Returns how many all have.
    """
    n = 0
    for t in range(len(counts)):
        before, left, at = n, most, ends[t]
        while at < ends[t + 1] and left:
            start = at
            while at < ends[t + 1] and (_is_letter(data[at]) or _is_digit(data[at]) or data[at] == _LINE):
                at += 1
            if at == start:
                at += 1
                continue
            left -= 1
            n = _kept(_number(data, start, at, known), found, n)
        counts[t] = n - before
    return n


@_compiled
def _is_not(data: UInt8s, at: int, end: int) -> bool:
    return at + 2 < end and _lower(data[at]) == _N and data[at + 1] == _QUOTE and _lower(data[at + 2]) == _T


@_compiled
def _clitic(data: UInt8s, at: int, end: int) -> int:
    """The number of characters of a clitic that begins here, such as 3 of "n't" or "'ll", or 0.

    It ends where no word goes on, or where "n't" begins.
    """
    size = 0
    if _is_not(data, at, end):
        size = 3
    elif data[at] == _QUOTE and at + 1 < end:
        first, second = _lower(data[at + 1]), _lower(data[at + 2]) if at + 2 < end else 0
        if first in _ALONE:
            size = 2
        elif (first == _L and second == _L) or (first in _BEFORE_E and second == _E):
            size = 3
    after = at + size
    if size and after < end and (_is_letter(data[after]) or _is_digit(data[after])) and not _is_not(data, after, end):
        return 0
    return size


@_compiled
def _splits(data: UInt8s, at: int, end: int) -> bool:
    """Whether a clitic begins here, after a letter or digit."""
    return (data[at] == _QUOTE or _lower(data[at]) == _N) and _clitic(data, at, end) > 0


@_compiled
def _token(data: UInt8s, at: int, end: int) -> int:
    """The end of the token that begins here."""
    there = at
    while there + 1 < end and _is_letter(data[there]) and data[there + 1] == _STOP:  # U.S.
        there += 2
    if there >= at + 4:
        return there
    if data[at] == _QUOTE:
        return at + max(_clitic(data, at, end), 1)
    there = at
    while there < end and (_is_letter(data[there]) or _is_digit(data[there])):
        there += 1
        if there == end or _splits(data, there, end):
            return there
        if there + 1 < end:
            between, after = data[there], data[there + 1]
            inner = between == _QUOTE and (_is_letter(after) or _is_digit(after))  # O'Brien
            if inner or (between in _INNER and _is_digit(data[there - 1]) and _is_digit(after)):  # 1,000.50
                there += 1
    return max(there, at + 1)


@_compiled
def tokens(data: UInt8s, ends: Integers, known: List, most: int, found: Int32s, counts: Integers) -> int:
    """Look up the tokens of `dptext.text.tokens.tokenize`, as `runs` does runs."""
    n = 0
    for t in range(len(counts)):
        before, left, at = n, most, ends[t]
        while at < ends[t + 1] and left:
            if _is_space(data[at]):
                at += 1
                continue
            start, at = at, _token(data, at, ends[t + 1])
            left -= 1
            n = _kept(_number(data, start, at, known), found, n)
        counts[t] = n - before
    return n
