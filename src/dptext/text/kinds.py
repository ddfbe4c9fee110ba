"""Recognize by its first bytes a file whose name says another kind.

Programs write these bytes into every file of the kind, so they are public and reveal nothing of a record.
"""

from pathlib import Path
from typing import Final

from dptext.text.formats import Format, is_compressed, is_zstd

BEGINNING: Final = 32  #: Number of first bytes that are compared
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = (b"\x28\xb5\x2f\xfd", *(bytes([each]) + b"\x2a\x4d\x18" for each in range(0x50, 0x60)))  # or skippable
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PARQUET: Final = (b"PAR1", b"PARE")
_OLD: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NAMED: Final = (
    ((_GZIP,), "is packed with gzip: let its name end in .gz, or unpack it"),
    (_ZSTD, "is packed with zstd: let its name end in .zst, or unpack it"),
    (tuple(b"BZh%d" % each for each in range(1, 10)), "is packed with bzip2: unpack it (bunzip2)"),
    ((b"\xfd7zXZ\0",), "is packed with xz: unpack it (unxz)"),
    ((b"7z\xbc\xaf\x27\x1c",), "is a 7-Zip archive: unpack it"),
    (_ZIP, "is a ZIP archive or an XLSX workbook: let its name end in .xlsx (or say --format xlsx), or unpack it"),
    (_PARQUET, "is Parquet: let its name end in .parquet, or say --format parquet"),
    ((b"ARROW1", b"FEA1"), "is Arrow (Feather): write it as Parquet or CSV"),
    ((b"\xff\xff\xff\xff",), "is a stream of Arrow: write it as Parquet or CSV"),
    ((_OLD,), "is an old workbook (.xls), or one with a password: save it as .xlsx without one"),
    ((b"%PDF-",), "is PDF: take its text out, into a file of plain text"),
    ((b"SQLite format 3\0",), "is an SQLite database: write its table as CSV"),
)
_OWN: Final = {Format.PARQUET: _PARQUET, Format.XLSX: _ZIP}
_LETTERS: Final = frozenset((b"PAR1", b"PARE", b"ARROW1", b"FEA1", *(b"BZh%d" % each for each in range(1, 10))))
_TEXT: Final = frozenset({*range(0x20, 0x7F), 9, 10, 13})  # bytes of ASCII text


def other_kind(path: Path, kind: Format, first: bytes) -> str | None:
    """Return "is ..." and what to do if a file is of another kind than its name and format say. None if it may fit.

    `first` holds some of its first bytes. An empty file has none.
    """
    if not first:
        return None
    if is_compressed(path):
        program, own = ("zstd", _ZSTD) if is_zstd(path) else ("gzip", (_GZIP,))
        if first.startswith(own) or any(each.startswith(first) for each in own):
            return None
        return f"is not packed with {program}, as its name says: let it end in {_unpacked(path)}"
    if first.startswith(_OWN.get(kind, ())):
        return None
    for begins, said in _NAMED:
        if first.startswith(begins) and not (first.startswith(tuple(_LETTERS)) and _TEXT.issuperset(first)):
            return said
    return None


def _unpacked(path: Path) -> str:
    return path.with_suffix("").suffix or "what it holds"
