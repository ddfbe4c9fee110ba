"""Read structs of Thrift's compact protocol, in which Parquet writes its footer and page headers, with bounds.

The protocol is that of https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

INT32, INT64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12  #: Types of values
FALSE: Final = 2  #: Thrift stores a boolean as the type of its field.
_BITS: Final = {4: 2**15, 5: 2**31, 6: 2**63}  # ends of numbers of 16, 32 and 64 bits
_DEEPEST: Final = 12  # levels of structs
_LONGEST: Final = 2**25  # most bytes of a text
_DAMAGED: Final = "the Parquet data is truncated or damaged"

Members = dict[int, tuple[int, Any]]  #: The fields of a struct, by number: their types and values.


class UnreadableError(Exception):
    """A file is damaged or too large to read. The message gives the reason."""


class ShortError(UnreadableError):
    """The bytes end within a value."""


def require(sound: bool, otherwise: str = _DAMAGED) -> None:
    """Raise UnreadableError with the reason `otherwise` if the data are not sound."""
    if not sound:
        raise UnreadableError(otherwise)


def member(fields: Members, number: int, kind: int) -> Any:
    """Return the value of a field. UnreadableError: the field is missing, of another type, or a negative number."""
    found, value = fields.get(number, (0, None))
    require(found == kind and (not isinstance(value, int) or value >= 0))
    return value


@dataclass(slots=True)
class Compact:
    """A reader of the bytes of `data` from the place `at`. At most `left` fields and items are read.

    `lists` are the lists that are read, by the path of fields to each, with the type of their items. Any other list
    counts as damaged, and so does input that two readers could understand differently: a repeated field, a number of
    too many bits.
    """

    data: bytes
    left: int
    at: int = 0
    lists: Mapping[tuple[int, ...], int] = field(default_factory=dict)

    def struct(self, path: tuple[int, ...] = ()) -> Members:
        """Return the fields of the struct at `path`, by number, with their types."""
        found: Members = {}
        place = 0
        while kind := (head := self.byte()) & 15:
            place = place + (head >> 4) if head >> 4 else self.number()
            if not 0 < place < 100 or place in found:
                raise UnreadableError(_DAMAGED)
            found[place] = kind, self.value(kind, (*path, place))
        return found

    def value(self, kind: int, path: tuple[int, ...] = ()) -> Any:
        """Return a number, a struct or a list of structs. Any other value is skipped, and None returned."""
        self.left -= 1
        if self.left <= 0 or len(path) >= _DEEPEST:
            raise UnreadableError(_DAMAGED)
        if kind in _BITS:  # most values, so they come first
            value = self.varint()
            value, most = value >> 1 ^ -(value & 1), _BITS[kind]
            if -most <= value < most:
                return value
            raise UnreadableError(_DAMAGED)
        match kind:
            case 1 | 2:  # the type is the value of a boolean
                return None
            case 3 | 7:
                self.skip(1 if kind == 3 else 8)
                return None
            case 8:
                size = self.varint()
                require(size <= _LONGEST)
                self.skip(size)
                return None
            case 9:
                head = self.byte()
                size, item = self.varint() if head >> 4 == 15 else head >> 4, head & 15
                require(self.lists.get(path) == item and size <= self.left)
                items = [self.value(item, path) for _ in range(size)]
                return items if item == STRUCT else None
            case 12:
                return self.struct(path)
        raise UnreadableError(_DAMAGED)

    def number(self) -> int:
        """Return a signed number."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def varint(self) -> int:
        """Return a number of at most 64 bits without a sign."""
        data, at, value = self.data, self.at, 0
        for shift in range(0, 64, 7):
            if at >= len(data):
                raise ShortError(_DAMAGED)
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                require(value < 2**64)
                self.at = at
                return value
        raise UnreadableError(_DAMAGED)

    def byte(self) -> int:
        """Return one byte as a number."""
        try:
            found = self.data[self.at]
        except IndexError:
            raise ShortError(_DAMAGED) from None
        self.at += 1
        return found

    def skip(self, size: int) -> None:
        """Pass over bytes, which may end before: the next value says so."""
        self.at += size

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        found = self.data[self.at : self.at + size]
        if len(found) != size:
            raise ShortError(_DAMAGED)
        self.at += size
        return found
