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

WEIGHTS_FILE, SIZES_FILE = "weights.safetensors", "autoencoder.json"
FORMAT = "dptext annotated auto-encoder"
VERSION = 2
SAVE_AGAIN = "Fit and save the model again."


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
    try:
        described = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"Cannot read the model {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a JSON file: it was cut short or edited. {SAVE_AGAIN}") from error
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise ConfigError(f"{path} is not the file of an auto-encoder. {SAVE_AGAIN}")
    if described.get("version") != VERSION:
        raise ConfigError(f"Expected version {VERSION} of {path}, found {described.get('version')!r}. {SAVE_AGAIN}")
    try:
        weights = (folder / WEIGHTS_FILE).read_bytes()
    except OSError as error:
        raise ConfigError(f"Cannot read the weights {folder / WEIGHTS_FILE}: {error.strerror}. {SAVE_AGAIN}") from error
    if described.pop("checksum", None) != checksum(described, weights):
        raise ConfigError(f"{path} or {WEIGHTS_FILE} beside it was cut short or edited. {SAVE_AGAIN}")
    return described, weights


def checksum(described: Mapping[str, Any], weights: bytes) -> str:
    """sha256 of the JSON without the checksum, its keys sorted, and of the weights."""
    found = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    found.update(hashlib.sha256(weights).digest())
    return found.hexdigest()
