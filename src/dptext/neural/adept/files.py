"""The two files of a saved auto-encoder: weights (safetensors), and sizes and vocabulary (JSON). Neither holds code.

The JSON has a checksum of both files. `Candidates(ranker="adept")` reads the files outside the seal of a saved model,
and its guarantee rests on what they say of the training text. So an edit by mistake must not go unnoticed here. It is a
checksum and no signature: whoever writes both files can write one that fits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dptext.errors import ConfigError
from dptext.text.files import create_private
from dptext.text.saved import SAVE_AGAIN, reading_saved

WEIGHTS_FILE, SIZES_FILE = "weights.safetensors", "autoencoder.json"
FORMAT = "dptext annotated auto-encoder"
VERSION = 2


def write_files(folder: Path, described: Mapping[str, Any], weights: bytes) -> None:
    """Write both files into an existing folder; only their owner can read them.

    Raises:
        ConfigError: a file is there already, or cannot be written.
    """
    described = {"format": FORMAT, "version": VERSION, **described}
    described["checksum"] = checksum(described, weights)
    with create_private(folder / WEIGHTS_FILE) as file:
        file.write(weights)
    with create_private(folder / SIZES_FILE) as file:
        file.write(json.dumps(described).encode())


def read_files(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The JSON without its checksum, and the bytes of the weights.

    Raises:
        ConfigError: a file is absent, cut short, edited, of another version, or no such file.
    """
    path = folder / SIZES_FILE
    with reading_saved(f"the auto-encoder {path}"):
        described = json.loads(path.read_bytes())
        if described["format"] != FORMAT:
            raise ValueError
        version = described.get("version")
        if version != VERSION:
            raise ConfigError(f"Expected version {VERSION} of {path}, found {version!r}. {SAVE_AGAIN}")
    with reading_saved(f"the weights {folder / WEIGHTS_FILE} and {SIZES_FILE}"):
        weights = (folder / WEIGHTS_FILE).read_bytes()
        if described.pop("checksum") != checksum(described, weights):
            raise ValueError
    return described, weights


def checksum(described: Mapping[str, Any], weights: bytes) -> str:
    """sha256 of the JSON without the checksum, its keys sorted, and of the weights."""
    found = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    found.update(hashlib.sha256(weights).digest())
    return found.hexdigest()
