"""The ranker `adept`, an entry point of `dptext.rankers`: clipped latents of an auto-encoder of ADePT.

It reads no label, and as many words as the auto-encoder does; an empty text has a latent, too.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dptext.embeddings.embedder import HIDDEN
from dptext.mechanisms.candidates.rankers import LoadedModel, ModelRanker
from dptext.text.records import Record
from dptext.types import Floats

if TYPE_CHECKING:  # torch is slow to load
    from dptext_lab.adept.net import AnnotatedModel


#: The assumptions about an auto-encoder that ranks: any, and one that reads private text in batches.
PUBLIC_AUTOENCODER: Final = "the auto-encoder that ranks was trained on public text only"
RANKED_IN_BATCHES: Final = f"{PUBLIC_AUTOENCODER}, and reads a text as if it were alone in its batch: {HIDDEN}"


def _load(folder: Path, device: str) -> LoadedModel:
    from dptext_lab.adept.net import load_autoencoder  # noqa: PLC0415 (slow to load)

    model = load_autoencoder(folder, device=device)
    digests = {f"auto-encoder: {part}": digest for part, digest in model.digests.items()}
    return LoadedModel(partial(_latents, model), model.save, model.dim, "of ADePT", digests)


def _latents(model: "AnnotatedModel", texts: Sequence[str]) -> Floats:
    return model.latents([Record("", text) for text in texts])


def _assumptions(device: str) -> tuple[str, ...]:
    # The settings do not name the encoder of that model; on a CPU every encoder reads each text by itself.
    return (PUBLIC_AUTOENCODER if device == "cpu" else RANKED_IN_BATCHES,)


ADEPT: Final = ModelRanker(
    _load, _assumptions, "an auto-encoder, which `dptext fit --mechanism adept` makes of public text"
)
