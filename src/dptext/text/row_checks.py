"""Check that rows can become records: whole columns at once, or row by row. Find ids that are used twice.

Columns that are accepted at once are accepted row by row, too, and give the same records. If a column is doubtful, its
rows are checked one by one. Only this check tells which row is bad, and why.
"""

import contextlib
import hashlib
import itertools
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from dptext.text.batches import Batch, Kept
from dptext.text.formats import Scalar, as_scalar, cell_text, is_scalar, name_of, spelled, string_fault
from dptext.text.lines import Bad, Broken, Chunk, Needed, Row, Table, missing_field
from dptext.text.packed_rows import PlainTexts, kinds, plain_scalars, plain_texts
from dptext.text.records import Fields, Record
from dptext.types import Booleans, Int32s, Integers, UInt8s, UInt64s

# A character takes at most 12 bytes of a line (two JSON escapes, "\ud83d\ude00"); the rest is for the other fields.
_BYTES_PER_CHARACTER: Final = 12
_BYTES_FOR_OTHER_FIELDS: Final = 2**20
_NULL: Final = (
    "the field {!r} is null (take such rows out, or read them as empty texts: --empty-nulls on the command line, "
    "empty_nulls=True in Python)"
)


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a row that is to become a record. Methods return a fault as a value."""

    fields: Fields
    max_characters: int
    empty_nulls: bool = False

    @property
    def max_line(self) -> int:
        """The number of bytes of the longest line that can hold a record."""
        return _BYTES_PER_CHARACTER * self.max_characters + _BYTES_FOR_OTHER_FIELDS

    def record(self, item: object, *, default_id: str) -> Record | Bad | Broken:
        """Return the record of a row, or the fault. A row that is a `Record` is returned if its strings are sound."""
        match item:
            case Bad() | Broken():
                return item
            case Record():
                return self._strings(item, ("id", "text", "label", "author", "subject"))
            case Mapping():
                return self._row(item, default_id)
            case str():
                return self._strings(Record(default_id, item), ("id", "text", "label", "author", "subject"))
            case None if self.empty_nulls:
                return Record(default_id, "")
            case None:
                return Bad(_NULL.format("text"))
            case _:
                return Bad(f"the row is of type {type(item).__name__}, expected a text, a mapping or a Record")

    def _row(self, row: Mapping[str, object], default_id: str) -> Record | Bad:
        fields = self.fields
        for name in _wanted(fields):
            if name not in row and name not in fields.measured:  # an absent value of a column is null
                return Bad(missing_field(name, needed(fields), row))
            if isinstance(value := row.get(name), Bad) and name not in fields.measured:
                return value
        text = row[fields.text]
        if text is None:
            if not self.empty_nulls:
                return Bad(_NULL.format(fields.text))
            text = ""
        if not isinstance(text, str):
            return Bad(f"the field {fields.text!r} is not a string but of type {type(text).__name__}")
        whom = ((fields.id, "a record"), (fields.author, "an author"), (fields.subject, "a subject"))
        id_, author, subject = (None if name is None else name_of(row[name]) for name, _ in whom)
        for (name_of_it, it), found in zip(whom, (id_, author, subject), strict=True):
            if name_of_it is not None and found is None:
                return Bad(f"the field {name_of_it!r} is not a string or integer that can name {it}")
        label = None if fields.label is None else spelled(row[fields.label])
        if not isinstance(label, str | None):
            return Bad(f"the field {fields.label!r} is not a string, a finite number, a date, a boolean or null")
        kept: dict[str, Scalar] = {}
        for name in fields.keep:
            value = as_scalar(row[name])
            if not is_scalar(value):
                return Bad(f"the field {name!r} is not a string, a finite number, a date, a boolean or null")
            kept[name] = value
        kept |= {name: cell_text(row.get(name)) for name in fields.measured}
        record = Record(id_ or default_id, text, label, author, kept, subject=subject)
        defaults = (fields.label or "label", fields.author or "author", fields.subject or "subject")
        return self._strings(record, (fields.id or "id", fields.text, *defaults))

    def _strings(self, record: Record, names: tuple[str, str, str, str, str]) -> Record | Bad:
        values: tuple[object, ...] = (record.id, record.text, record.label, record.author, record.subject)
        optional = (False, False, True, True, True)
        for name, value, may_miss in zip(names, values, optional, strict=True):
            if not isinstance(value, str) and not (may_miss and value is None):
                return Bad(f"the field {name!r} is not a string")
        for name, value in itertools.chain(zip(names, values, strict=True), record.kept.items()):
            if isinstance(value, str):
                if (fault := string_fault(value)) is not None:
                    return Bad(f"the field {name!r} {fault}")
            elif value is not None and not is_scalar(value):
                return Bad(f"the field {name!r} is not a string, a finite number, a boolean or null")
        if len(record.text) > self.max_characters:
            return Bad(f"the text is longer than max_characters={self.max_characters}")
        return record


def needed(fields: Fields) -> Needed:
    """Return the names of all fields, the text's field first, each once, with the options that name them."""
    return Needed(_wanted(fields), fields.asked)


def _wanted(fields: Fields) -> list[str]:
    names = (fields.text, fields.id, fields.label, fields.author, fields.subject, *fields.keep, *fields.measured)
    return list(dict.fromkeys(name for name in names if name is not None))


def batch_of(chunk: Chunk, fields: Fields, *, first: int, max_characters: int) -> Batch | None:
    """Return the records of a chunk. None if a column is doubtful. Without a field of ids, ids count from `first`."""
    table = chunk if isinstance(chunk, dict) else _table(chunk, needed(fields))
    if table is None:
        return None
    texts = table[fields.text]
    nothing: list[None] = [None] * len(texts)
    ids = list(map(str, range(first, first + len(texts)))) if fields.id is None else _names(table[fields.id])
    authors, subjects = (nothing if name is None else _names(table[name]) for name in (fields.author, fields.subject))
    labels = nothing if fields.label is None else table[fields.label]
    kept: dict[str, Sequence[Scalar]] = {name: column for name in fields.keep if plain_scalars(column := table[name])}
    if ids is None or authors is None or subjects is None or len(kept) < len(fields.keep):
        return None
    if not plain_scalars(labels) or not plain_texts(texts) or _longest(texts, max_characters) > max_characters:
        return None
    kept |= {name: list(map(cell_text, table[name])) for name in fields.measured}
    return Batch(ids, texts, _written(labels), authors, subjects, Kept(kept, len(texts)))


def _table(rows: list[Row], names: list[str]) -> Table | None:
    found = cast("list[dict[str, object]]", rows)
    with contextlib.suppress(KeyError):
        return {name: [row[name] for row in found] for name in names} if set(map(type, rows)) == {dict} else None
    return None


def _longest(texts: Sequence[str], most: int) -> int:
    """Return the largest number of characters of a text, or of bytes if no text has more than `most` bytes."""
    if isinstance(texts, PlainTexts) and (size := int(texts.sizes().max())) <= most:
        return size
    return max(map(len, texts))


def _names(column: Sequence[object]) -> Sequence[str] | None:
    """Return the names of records, authors or subjects in a column. None if a value may name nobody."""
    if isinstance(column, PlainTexts):
        return column if column.sizes().all() else None
    if not kinds(column) <= {str, int} or not plain_scalars(column):
        return None
    names = column if kinds(column) <= {str} else list(map(str, column))
    return None if "" in names else cast("Sequence[str]", names)


def _written(labels: Sequence[Scalar]) -> Sequence[str | None]:
    if kinds(labels) <= {str, type(None)}:
        return cast("Sequence[str | None]", labels)
    return [cast("str | None", spelled(label)) for label in labels]


# An id of at most 16 bytes is kept as its bytes, a longer id as a hash of 16 bytes. Two ids have one hash with
# probability 2**-128. No id holds a NUL.
_WORD: Final = 8
#: Bytes of the longest id that is kept unchanged, and of the longest id that is hashed here.
_SHORT: Final = 2 * _WORD
_MIDDLE: Final = 8 * _WORD
_BITS: Final = np.arange(0, 8 * _WORD + 1, 8, dtype=np.uint64)  #: The number of bits of 0 to 8 bytes
_Numbers = Int32s | Integers


def key_of(id_: str) -> str | bytes:
    """Return the key to keep of a single id: the id, or its hash if this is shorter. Text and bytes are never equal."""
    if len(id_) <= _SHORT and id_.isascii():
        return id_
    return hashlib.blake2b(id_.encode(), digest_size=16).digest()


def _random(*shape: int) -> UInt64s:
    return np.frombuffer(secrets.token_bytes(_WORD * int(np.prod(shape))), np.uint64).reshape(shape)


@dataclass(slots=True)
class Ids:
    """A growing set of ids, which takes columns of ids.

    As long as ids rise, as running numbers do, each id is compared with the id before it alone. Then a table is built.
    """

    _rising: list[UInt64s] = field(default_factory=list)
    _last: int = 0
    _table: "_Table | None" = None
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _factors: UInt64s = field(default_factory=lambda: _random(_MIDDLE // 4 + 1, 4))

    def fresh(self, ids: Sequence[str]) -> Booleans:
        """Add ids, at least one. Mark the ids that were neither in the set nor earlier in the list."""
        data, ends = ids.utf8() if isinstance(ids, PlainTexts) else _utf8(ids)
        sizes = np.diff(ends)
        longest = int(sizes.max())
        stops = ends[1:] - ends[0]
        keys = _words(data, stops, sizes, -(-min(longest, _MIDDLE) // _WORD))
        if longest > _SHORT:
            keys = self._hashed(keys, data, stops, sizes)
        elif self._table is None and _rise(keys) and _value(keys[0]) > self._last:
            self._last = _value(keys[-1])
            self._rising.append(keys)
            return np.ones(len(keys), bool)
        if self._table is None:
            self._table = _Table()
            for earlier in self._rising:
                self._table.add(earlier)
            self._rising.clear()
        return self._table.add(keys)

    def _hashed(self, words: UInt64s, data: UInt8s, stops: _Numbers, sizes: _Numbers) -> UInt64s:
        keys = words[:, :2].copy()
        # Multilinear, strongly universal: Lemire and Kaser, "Strongly universal string hashing is fast" (2014).
        middle = np.flatnonzero((sizes > _SHORT) & (sizes <= _MIDDLE))
        halves = words[middle].view(np.uint32).astype(np.uint64)
        sums = (halves @ self._factors[: halves.shape[1]] + self._factors[-1]) >> np.uint64(32)
        keys[middle] = sums[:, :2] << np.uint64(32) | sums[:, 2:]
        for place in np.flatnonzero(sizes > _MIDDLE).tolist():
            whole = data[stops[place] - sizes[place] : stops[place]].tobytes()
            keys[place] = np.frombuffer(hashlib.blake2b(whole, digest_size=16, key=self._secret).digest(), np.uint64)
        return keys


def _utf8(ids: Sequence[str]) -> tuple[UInt8s, _Numbers]:
    text = "".join(ids)
    data = text.encode()
    sizes = map(len, ids if len(data) == len(text) else map(str.encode, ids))
    return np.frombuffer(data, np.uint8), np.cumsum([0, *sizes], dtype=np.int64)


def _words(data: UInt8s, stops: _Numbers, sizes: _Numbers, n: int) -> UInt64s:
    """Return the last `n` words (of 8 bytes) of each id, `(ids, n)`, the last first. NULs stand before short ids."""
    if sizes.min() == sizes.max() <= n * _WORD:  # ids of one length, such as UUIDs
        square = np.zeros((len(sizes), n * _WORD), np.uint8)
        square[:, n * _WORD - sizes[0] :] = data.reshape(len(sizes), -1)
        return square.view(">u8")[:, ::-1].astype(np.uint64, order="C")
    padded = np.zeros(n * _WORD + data.size, np.uint8)
    padded[n * _WORD :] = data
    from_any_byte = np.ndarray((data.size + (n - 1) * _WORD + 1,), ">u8", padded, 0, (1,))
    words: UInt64s = np.empty((len(sizes), n), np.uint64)
    for place in range(n):
        foreign = _BITS[(_WORD * (place + 1) - sizes).clip(0, _WORD)]
        found = from_any_byte[stops + (n - 1 - place) * _WORD].astype(np.uint64)
        words[:, place] = found << foreign >> foreign
    return words


def _rise(keys: UInt64s) -> bool:
    """Return whether each key is greater than the key before: longer, or as long and later in the order of bytes."""
    before, after = keys[:-1], keys[1:]
    rises = after[:, 0] > before[:, 0]
    for place in range(1, keys.shape[1]):
        rises = (after[:, place] > before[:, place]) | (after[:, place] == before[:, place]) & rises
    return bool(rises.all())


def _value(key: UInt64s) -> int:
    return sum(word << 64 * place for place, word in enumerate(key.tolist()))


@dataclass(slots=True)
class _Table:
    """A hash table with open addressing. A slot holds the number of a key, from 1; 0 is a free slot. Half are free."""

    _keys: UInt64s = field(default_factory=lambda: np.empty((2**12, 2), np.uint64))
    _n: int = 0
    _slots: Any = field(default_factory=lambda: np.zeros(2**17, np.uint32))
    _factors: UInt64s = field(default_factory=lambda: _random(2) | np.uint64(1))

    def add(self, keys: UInt64s) -> Booleans:
        total = self._n + len(keys)
        if total > len(self._keys):
            self._keys = np.concatenate([self._keys[: self._n], np.empty((max(self._n, len(keys)), 2), np.uint64)])
        new = self._keys[self._n : total]
        new[:, 1] = 0
        new[:, : keys.shape[1]] = keys
        if 2 * total > len(self._slots):
            held = np.sort(self._slots[self._slots > 0])
            size = 2 ** (4 * total).bit_length()
            self._slots = np.zeros(size, np.uint32 if size < 2**32 else np.uint64)
            self._insert(held, self._keys[held - 1])
        numbers = np.arange(self._n + 1, total + 1, dtype=self._slots.dtype)
        self._n = total
        return self._insert(numbers, new)

    def _insert(self, numbers: Any, keys: UInt64s) -> Booleans:
        """Insert keys under their numbers, which rise. Mark the keys that were not there."""
        slots, fresh = self._slots, np.ones(len(numbers), bool)
        mixed = keys[:, 0] * self._factors[0] + keys[:, 1] * self._factors[1]
        places = (mixed >> np.uint64(65 - len(slots).bit_length())).astype(np.int64)
        todo = np.arange(len(numbers))[::-1]  # reversed: of the keys for one slot, the first is written last, and stays
        while todo.size:
            at, own = places[todo], numbers[todo]
            before = slots[at]
            slots[at] = own
            taken = np.flatnonzero(before)
            slots[at[taken]] = before[taken]
            there = slots[at]
            other = np.flatnonzero(there != own)
            todo = todo[other]
            same = (self._keys[there[other] - 1] == keys[todo]).all(axis=1)
            fresh[todo[same]] = False
            todo = todo[~same]
            places[todo] = (places[todo] + 1) % len(slots)
        return fresh
