"""The manifest of a released data set: which files are its parts, in order, and the sha256 of each.

A part counts because the manifest names it. The certificate of the data set speaks of the manifest.
"""

import json
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Final

from dptext._wording import plural
from dptext.errors import DataError
from dptext.runs.certificate import certificate_path
from dptext.text.files import sha256_of
from dptext.text.inputs import parse_json, read_whole

MANIFEST: Final = "manifest.json"
_HEX: Final = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a data set: its name, how many records it holds, and its sha256."""

    name: str
    records: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The parts of a data set, in the order of the records."""

    parts: tuple[Part, ...]

    @property
    def records(self) -> int:
        """How many records all parts hold."""
        return sum(part.records for part in self.parts)

    def to_json(self) -> str:
        """The manifest as JSON text, a line a part."""
        lines = ",\n".join(f"  {json.dumps(asdict(part), ensure_ascii=False)}" for part in self.parts)
        return '{"schema": 1, "parts": [\n' + lines + "\n]}\n"

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """The manifest at the path; DataError where none is that dptext wrote."""
        try:
            data = parse_json(read_whole(path))
            parts = tuple(Part(**part) for part in data["parts"])
            names = {part.name for part in parts}
            good = data["schema"] == 1 and all(map(_is_part, parts)) and len(names) == len(parts)
        except (ValueError, TypeError, KeyError):
            good = False
        if not good:
            raise DataError(f"{path} is no manifest of a data set that dptext wrote.")
        return cls(parts)

    def check(self, folder: Path) -> None:
        """Raise DataError unless the folder holds these parts, byte for byte, and no other file."""
        known = {part.name for part in self.parts} | {MANIFEST, certificate_path(Path(MANIFEST)).name}
        for path in sorted(folder.rglob("*")):
            if not path.is_dir() and path.relative_to(folder).as_posix() not in known:
                raise DataError(f"{path} is no part of this data set: whoever reads the folder reads it, too.")
        for part in self.parts:
            path = folder / part.name
            if not path.is_file():
                raise DataError(f"Expected {path}, a part with {plural(part.records, 'record')}: it is missing.")
            if sha256_of(path) != part.sha256:
                raise DataError(f"{path} is not the part that was certified: its sha256 differs.")


def _is_part(part: Part) -> bool:
    if list(map(type, astuple(part))) != [str, int, str] or part.records < 0 or len(part.sha256) != _HEX:
        return False
    stays = not Path(part.name).is_absolute() and ".." not in Path(part.name).parts  # inside the folder
    return stays and part.name not in ("", MANIFEST) and "\0" not in part.name
