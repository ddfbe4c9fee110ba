"""Columns that every format can hold, among them strings as Arrow holds them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeGuard, cast, overload

import numpy as np

from dptext.text.formats import Scalar, is_scalar, string_fault
from dptext.types import Int32s, Integers, UInt8s

_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


class PlainTexts(Sequence[str]):
    """Strings that every format can hold. They cannot be changed, so they are looked at once, where they are read.

    All are made strings of Python when one is asked for, and kept.
    """

    __slots__ = ("_array", "_ascii", "_made")

    def __init__(self, array: Any, made: list[str] | None = None, *, ascii: bool = False) -> None:
        self._array = array
        self._made = made
        self._ascii = ascii

    @classmethod
    def of(cls, array: Any) -> "PlainTexts | None":
        """The strings of an array of pyarrow; None where one is null or holds a NUL. ArrowInvalid: one is not UTF-8."""
        found = cls(array)
        data, _ = found.utf8()
        if array.null_count or not data.min(initial=1):
            return None
        found._ascii = bool(data.max(initial=0) < 128)
        if not found._ascii:
            array.validate(full=True)
        return found

    def utf8(self) -> tuple[UInt8s, Int32s | Integers]:
        """All strings in UTF-8, one after the other, and their ends in it, after the beginning of the first `(n + 1,)`.

        The ends count from anywhere.
        """
        _, offsets, data = self._array.buffers()
        if not len(self):
            return np.zeros(0, np.uint8), np.zeros(1, np.int64)
        kind: Any = np.int32 if str(self._array.type) == "string" else np.int64
        ends = np.frombuffer(offsets, kind, len(self) + 1, self._array.offset * kind().itemsize)
        return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], ends

    def sizes(self) -> Int32s | Integers:
        """The number of bytes of each string."""
        return np.diff(self.utf8()[1])

    def lengths(self) -> list[int]:
        """The number of characters of each string."""
        return self.sizes().tolist() if self._ascii else list(map(len, self._strings()))

    def _strings(self) -> list[str]:
        if self._made is None:
            self._made = self._array.to_numpy(zero_copy_only=False).tolist()
        return self._made

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if not isinstance(at, slice) or at.step is not None:
            return self._strings()[at]
        start, stop, _ = at.indices(len(self))
        part = self._array.slice(start, max(0, stop - start))
        return PlainTexts(part, self._made and self._made[at], ascii=self._ascii)

    def __iter__(self) -> Iterator[str]:
        return iter(self._strings())

    def __arrow_array__(self, type: Any = None) -> Any:
        """The array, for pyarrow."""
        return self._array if type in {None, self._array.type} else self._array.cast(type)


def kinds(column: Sequence[object]) -> set[type]:
    """The types of the values."""
    return {str} if isinstance(column, PlainTexts) else set(map(type, column))


def plain_texts(column: Sequence[object]) -> TypeGuard[Sequence[str]]:
    """Whether all values are strings that every format can hold."""
    if isinstance(column, PlainTexts):
        return True
    # A fault of one string is one of all together: what a string begins, no other completes.
    return set(map(type, column)) <= {str} and string_fault("".join(cast("Sequence[str]", column))) is None


def plain_scalars(column: Sequence[object]) -> TypeGuard[Sequence[Scalar]]:
    """Whether every format can hold all values. A value of a type that is derived of these is doubtful."""
    found = kinds(column)
    if found == {str}:
        return plain_texts(column)
    return (
        found <= _SCALARS
        and (found <= {str, bool, type(None)} or all(map(is_scalar, column)))
        and plain_texts([value for value in column if isinstance(value, str)])
    )
