"""Records and releases as columns. A mechanism needs no object for each record.

    >>> batch = Batch.of([Record("0", "so", "positive"), Record("1", "la")])
    >>> batch.texts, batch.labels
    (['so', 'la'], ['positive', None])
    >>> batch.released([text.upper() for text in batch.texts])[1]
    Release(id='1', output='LA', label=None, kept={}, vector=None)

Both classes are sequences, too. A single record or release is created when it is accessed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

import numpy as np

from dptext._wording import plural
from dptext.errors import ConfigError
from dptext.text.formats import Scalar
from dptext.text.packed_rows import PlainTexts
from dptext.text.records import Record, Release
from dptext.types import Floats

Names = Sequence[str | None]
Item = TypeVar("Item")
Part = TypeVar("Part", bound=Sequence[Any])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch(Sequence[Record]):
    """Private records as columns of equal length. A label, author or subject may be None. The `kept` fields are public.

    `whole` marks the ids that were numbers in the input. It is None if no id was a number. The `repr` shows no record.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    labels: Names
    authors: Names
    subjects: Names
    kept: Sequence[Mapping[str, Scalar]]
    whole: Sequence[bool] | None = None

    @classmethod
    def of(cls, records: Sequence[Record]) -> Batch:
        """Return the records as columns. A batch is returned unchanged."""
        if isinstance(records, Batch):
            return records
        names = ("id", "text", "label", "author", "subject")
        columns: list[Any] = [[getattr(record, name) for record in records] for name in names]
        columns.append(Kept.of([record.kept for record in records]))
        return cls(*columns)

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns but `whole`, in the order of the arguments."""
        return self.ids, self.texts, self.labels, self.authors, self.subjects, self.kept

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Record: ...

    @overload
    def __getitem__(self, at: slice) -> Batch: ...

    def __getitem__(self, at: int | slice) -> Record | Batch:
        if isinstance(at, slice):
            columns: list[Any] = [column[at] for column in self.columns]
            columns.append(None if self.whole is None else self.whole[at])
            return Batch(*columns)
        id_, text, label, author, subject, kept = (column[at] for column in self.columns)
        return Record(id_, text, label, author, subject=subject, kept=kept)

    def __iter__(self) -> Iterator[Record]:
        for id_, text, label, author, subject, kept in zip(*self.columns, strict=True):
            yield Record(id_, text, label, author, subject=subject, kept=kept)

    def __repr__(self) -> str:
        return f"Batch({plural(len(self), 'record')})"

    @staticmethod
    def joined(parts: Sequence[Batch]) -> Batch:
        """Return one batch with the records of all `parts`, in order. At least one part is needed."""
        if len(parts) == 1:
            return parts[0]
        *columns, kept = zip(*(part.columns for part in parts), strict=True)
        found: list[Any] = [*map(_chained, columns), _kept(kept), _whole(parts)]
        return Batch(*found)

    def lengths(self) -> list[int]:
        """The number of characters of each text."""
        return self.texts.lengths() if isinstance(self.texts, PlainTexts) else list(map(len, self.texts))

    def released(
        self, texts: Sequence[str] | None = None, *, labels: Names | None = None, vectors: Floats | None = None
    ) -> Releases:
        """Return the releases of these records, in the same order.

        Without `texts`, each output is empty. Without `labels` or `vectors`, the releases have none. `vectors` has the
        shape `(n_records, dim)`. ConfigError: a column's length is not the number of records.
        """
        outputs = [""] * len(self) if texts is None else texts
        sizes = {len(self), len(outputs), *(len(each) for each in (labels, vectors) if each is not None)}
        if len(sizes) > 1:
            raise ConfigError(f"Expected one text, label and vector for each of {len(self)} records.")
        return Releases(self.ids, outputs, labels, self.kept, vectors)


@dataclass(frozen=True, slots=True, eq=False)
class Kept(Sequence[Mapping[str, Scalar]]):
    """Kept fields of `n` records as columns by name. The mapping of a single record is created when it is accessed."""

    columns: Mapping[str, Sequence[Scalar]] = field(repr=False)
    n: int

    @staticmethod
    def of(mappings: Sequence[Mapping[str, Scalar]]) -> Sequence[Mapping[str, Scalar]]:
        """Return the mappings as columns if all have the same names in the same order, otherwise unchanged."""
        names = {tuple(mapping) for mapping in mappings}
        if len(names) != 1:
            return mappings
        return Kept({name: [mapping[name] for mapping in mappings] for name in names.pop()}, len(mappings))

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Scalar]: ...

    @overload
    def __getitem__(self, at: slice) -> Kept: ...

    def __getitem__(self, at: int | slice) -> Mapping[str, Scalar] | Kept:
        if isinstance(at, slice):
            return Kept({name: column[at] for name, column in self.columns.items()}, len(range(self.n)[at]))
        range(self.n)[at]  # IndexError at the end: without columns, nothing else would end an iteration
        return {name: column[at] for name, column in self.columns.items()}


def _whole(parts: Sequence[Batch] | Sequence[Releases]) -> list[bool] | None:
    if all(part.whole is None for part in parts):
        return None
    return _chained([[False] * len(part) if part.whole is None else part.whole for part in parts])


def _kept(parts: Sequence[Sequence[Mapping[str, Scalar]]]) -> Sequence[Mapping[str, Scalar]]:
    columns = [part for part in parts if isinstance(part, Kept)]
    if len(columns) < len(parts) or len({tuple(part.columns) for part in columns}) > 1:
        return _chained(parts)
    found = {name: _chained([part.columns[name] for part in columns]) for name in columns[0].columns}
    return Kept(found, sum(map(len, columns)))


def _chained(parts: Sequence[Sequence[Item]]) -> list[Item]:
    return list(itertools.chain.from_iterable(parts))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Releases(Sequence[Release[str]]):
    """Releases as columns of equal length; see `Batch.released`. Files hold the ids that `whole` marks as numbers."""

    ids: Sequence[str]
    outputs: Sequence[str]
    labels: Names | None
    kept: Sequence[Mapping[str, Scalar]]
    vectors: Floats | None
    whole: Sequence[bool] | None = None

    @staticmethod
    def of(releases: Sequence[Release[str]]) -> Releases | None:
        """Return the releases as columns. None if vectors differ in length, or only some releases have a vector."""
        if isinstance(releases, Releases):
            return releases
        labels, vectors = [each.label for each in releases], [each.vector for each in releases]
        if len({None if each is None else len(each) for each in vectors}) > 1:
            return None
        return Releases(
            [each.id for each in releases],
            [each.output for each in releases],
            None if set(labels) <= {None} else labels,
            Kept.of([each.kept for each in releases]),
            None if vectors[:1] in ([], [None]) else np.array(vectors),
        )

    def carrying(self, columns: Mapping[str, Sequence[Scalar]]) -> Releases:
        """Return the releases with these public columns behind their kept fields.

        ConfigError: they keep a field of such a name.
        """
        if not columns:
            return self
        kept = self.kept if isinstance(self.kept, Kept) else Kept.of(self.kept)
        own: Mapping[str, Sequence[Scalar]] = kept.columns if isinstance(kept, Kept) else {}
        if own.keys() & columns.keys() or (len(self) and not isinstance(kept, Kept)):
            raise ConfigError(f"Expected records that all keep the same fields, and none of {', '.join(columns)}.")
        return replace(self, kept=Kept({**own, **columns}, len(self)))

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Release[str]: ...

    @overload
    def __getitem__(self, at: slice) -> Releases: ...

    def __getitem__(self, at: int | slice) -> Release[str] | Releases:
        labels, vectors = self.labels, self.vectors
        if isinstance(at, slice):
            own = (None if labels is None else labels[at], self.kept[at], None if vectors is None else vectors[at])
            whole = None if self.whole is None else self.whole[at]
            return Releases(self.ids[at], self.outputs[at], *own, whole)
        label, vector = None if labels is None else labels[at], None if vectors is None else tuple(vectors[at].tolist())
        return Release(self.ids[at], self.outputs[at], label, self.kept[at], vector=vector)

    def __iter__(self) -> Iterator[Release[str]]:
        n = len(self)
        labels = self.labels if self.labels is not None else [None] * n
        vectors = [None] * n if self.vectors is None else map(tuple, np.asarray(self.vectors).tolist())
        for id_, output, label, kept, vector in zip(self.ids, self.outputs, labels, self.kept, vectors, strict=True):
            yield Release(id_, output, label, kept, vector=vector)

    @staticmethod
    def joined(parts: Sequence[Releases]) -> Releases:
        """Return the releases of all `parts`, in order. At least one part is needed. All must have one `shape`."""
        if len(parts) == 1:
            return parts[0]
        labels = [part.labels for part in parts if part.labels is not None]
        vectors = [part.vectors for part in parts if part.vectors is not None]
        return Releases(
            _chained([part.ids for part in parts]),
            _chained([part.outputs for part in parts]),
            _chained(labels) if labels else None,
            _kept([part.kept for part in parts]),
            np.concatenate(vectors) if vectors else None,
            _whole(parts),
        )

    @property
    def shape(self) -> tuple[bool, int | None]:
        """True if there are labels, and the length of the vectors or None. Releases of one shape can be joined."""
        return self.labels is not None, None if self.vectors is None else self.vectors.shape[-1]

    def telling(self) -> list[Release[str]]:
        """Return the first release, the first with a text and the first with a label, in order, each once.

        A check of which parts the releases have needs these releases alone.
        """
        first = {0} if len(self) else set()
        for column, nothing in ((self.outputs, ""), (self.labels or (), None)):
            first |= set(itertools.islice((place for place, value in enumerate(column) if value != nothing), 1))
        return [self[place] for place in sorted(first)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Releases | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # not hashable, like a list

    def __repr__(self) -> str:
        return f"Releases({plural(len(self), 'release')})"


def groups(
    parts: Iterable[Part],
    lengths: Callable[[Part], Sequence[int]],
    joined: Callable[[Sequence[Part]], Part],
    *,
    size: int,
    characters: int,
) -> Iterator[Part]:
    """Yield groups of at most `size` items. The item that brings a group to `characters` characters ends the group.

    The ends of groups depend on the items and their lengths alone, not on how `parts` divide the items. Each part has
    at least one item.
    """
    open_group: list[Part] = []
    items = total = 0
    for part in parts:
        sizes = lengths(part)
        start = 0
        while start < len(sizes):
            stop, full, total = _end(sizes, start, size - items, characters, total)
            open_group.append(part[start:stop] if stop - start < len(sizes) else part)  # type: ignore[arg-type]  # a slice
            items += stop - start
            start = stop
            if full:
                yield joined(open_group)
                open_group, items, total = [], 0, 0
    if open_group:
        yield joined(open_group)


def _end(sizes: Sequence[int], start: int, room: int, characters: int, total: int) -> tuple[int, bool, int]:
    """Return where the items that fit into the group end, whether the group is then full, and its characters."""
    taken = sizes[start : start + room]
    together = total + sum(taken)
    if together < characters:
        return start + len(taken), len(taken) == room, together
    for place, reached in enumerate(itertools.accumulate(taken, initial=total)):
        if place and reached >= characters:
            return start + place, True, reached
    raise AssertionError("the sum reaches what its parts do")
