"""What ranks public candidates by their likeness to whole texts: words, sentence embeddings (also distilled ones),
latents of ADePT.

A cosine is a whole number of steps of 2^-12: no float decides a rank. All that ranks is made from public text.

    >>> ranker = words_ranker(["book a flight to Rome", "play some jazz"])
    >>> ranker.cosines(ranker.read(["some quiet jazz", "zqxv"])).tolist()
    [[0, 3343], [0, 0]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy import sparse

from dptext.embeddings.distilled import common_words, distil_with_words, load_distilled
from dptext.embeddings.embedder import HIDDEN
from dptext.embeddings.encoders import Encoder, load_encoder
from dptext.embeddings.likeness import GRID, STEPS, mean_by_document, on_grid
from dptext.errors import ConfigError, needing
from dptext.mechanisms.candidates.tfidf import TfIdf
from dptext.text.records import Record
from dptext.text.saved import SAVE_AGAIN
from dptext.text.tokens import sentences
from dptext.types import Floats, Int16s, Singles

#: Unit vectors in whole steps of 2^-11, one a row; a row of zeros where nothing in a text is known.
Rows: TypeAlias = "Singles | sparse.csr_array"
#: The candidates' vectors and what was taken off them, as they were saved.
Saved: TypeAlias = tuple[Singles, Floats]

PUBLIC_AUTOENCODER = (
    "the auto-encoder that ranks was trained on public text only, and reads a text as if it were alone in its batch: "
    f"{HIDDEN}"
)
_DOCUMENTS_AT_ONCE = 256


def _saves_nothing(folder: Path) -> None:
    """For rankers that need no file of their own."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranker:
    """What compares private texts with the candidates.

    Attributes:
        read: texts as `Rows`.
        points: the candidates, as `read` gives them.
        digests: sha256 of what was trained.
        centre: what is taken off vectors before they are compared; none of words.
        save: writes what `read` needs, besides candidates and centre, into an existing folder.
    """

    read: Callable[[Sequence[str]], Rows]
    points: Rows
    digests: Mapping[str, str]
    centre: Floats
    save: Callable[[Path], None] = _saves_nothing

    def cosines(self, rows: Rows) -> Int16s:
        """The cosine of each row with each candidate `(n, m)`, in whole steps of 2^-12."""
        found = rows @ self.points.T  # exact: whole numbers below 2^24
        dense = found if isinstance(found, np.ndarray) else found.toarray()
        return np.asarray(np.rint(dense * np.float32(STEPS / GRID**2)).astype(np.int16))


def words_ranker(texts: Sequence[str]) -> Ranker:
    """TF-IDF of lower-cased words. A word that no candidate has counts nothing."""
    weighing = TfIdf.of(texts)

    def read(found: Sequence[str]) -> sparse.csr_array:
        rows = weighing.rows(found)
        return sparse.csr_array((np.rint(rows.data * GRID).astype(np.int32), rows.indices, rows.indptr), rows.shape)

    return Ranker(read, read(texts), {}, np.empty(0))


def sentences_ranker(
    texts: Sequence[str], *, max_sentences: int, device: str = "cpu", saved: Saved | None = None
) -> Ranker:
    """Means of the embeddings of the first sentences, the candidates' mean taken off.

    Args:
        texts: the candidates.
        max_sentences: sentences of a text that are read at most.
        device: where the sentence encoder computes.
        saved: points and centre of these candidates, where they were computed before.

    Raises:
        ConfigError: what was saved is of another encoder.
        MissingExtraError: the sentence encoder is not installed.
    """
    encoder = load_encoder("sentence", device=device)

    def means(found: Sequence[str]) -> Floats:
        return _means(encoder, found, max_sentences)

    own = means(texts) if saved is None else None
    read, points, centre = _centred(means, own, saved, dim=encoder.dim, name=encoder.name)
    return Ranker(read, points, {"encoder": encoder.digest}, centre)


def distilled_ranker(
    texts: Sequence[str], folder: Path, *, max_sentences: int, device: str = "cpu", saved: Saved | None = None
) -> Ranker:
    """Means of sentence embeddings as a pupil of the sentence encoder guesses them; the candidates' are the encoder's.

    The pupil is fitted on the candidates, and reads a text from its own words alone. It guesses what the encoder would
    say, and this is compared with what the encoder said of each candidate: that keeps more than comparing guesses with
    guesses. A text without a known word is read as the intercept says.

    Args:
        texts: the candidates.
        folder: where the pupil was saved, if it was.
        max_sentences: sentences of a candidate that the encoder reads at most.
        device: where the encoder computes.
        saved: points and centre of these candidates, where they were computed before.

    Raises:
        ConfigError: what was saved is cut short, edited, or of another pupil.
        MissingExtraError: the sentence encoder is not installed; only fitting needs it.
    """
    own = None
    if saved is None:
        encoder = load_encoder("sentence", device=device)
        own = _means(encoder, texts, max_sentences)
        own /= np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12)
        pupil = distil_with_words(encoder, texts, own, common=common_words())
    else:
        pupil = load_distilled(folder)
    read, points, centre = _centred(pupil.embed, own, saved, dim=pupil.dim, name=pupil.name)
    return Ranker(read, points, {"encoder": pupil.digest}, centre, pupil.save)


def latents_ranker(texts: Sequence[str], folder: Path, *, device: str = "cpu", saved: Saved | None = None) -> Ranker:
    """Clipped latents of an auto-encoder of ADePT, the candidates' mean taken off. Its decoder is not used.

    A text is read without a label, also where the auto-encoder was trained with labels. So a latent tells nothing of
    the label, and `label_weight` alone says what a label counts.

    Args:
        texts: the candidates.
        folder: where `dptext fit --mechanism adept` saved a model.
        device: where the network computes.
        saved: points and centre of these candidates, where they were computed before.

    Raises:
        ConfigError: the folder holds no auto-encoder of public text, or what was saved is of another one.
        MissingExtraError: torch or the sentence encoder is not installed.
    """
    with needing("ranker='adept'", "neural", "sbert"):
        from dptext.neural.adept import load_autoencoder  # noqa: PLC0415 (an extra, slow to load)
    model = load_autoencoder(folder, device=device)

    def latents(found: Sequence[str]) -> Floats:
        vectors: Floats = model.latents([Record("", text) for text in found])
        return vectors

    own = latents(texts) if saved is None else None
    read, points, centre = _centred(latents, own, saved, dim=model.dim, name="of ADePT")
    digests = {f"auto-encoder: {name}": digest for name, digest in model.digests.items()}
    return Ranker(read, points, digests, centre, model.save)


def _means(encoder: Encoder, texts: Sequence[str], max_sentences: int) -> Floats:
    """Means of the embeddings of each text's first sentences `(n_texts, dim)`."""
    vectors = np.zeros((len(texts), encoder.dim))
    for start in range(0, len(texts), _DOCUMENTS_AT_ONCE):  # bounds the memory of the sentences
        parts = [sentences(text)[:max_sentences] for text in texts[start : start + _DOCUMENTS_AT_ONCE]]
        embeddings = encoder.embed([part for document in parts for part in document])
        vectors[start : start + len(parts)] = mean_by_document(embeddings, [len(document) for document in parts])
    return vectors


def _centred(
    embed: Callable[[Sequence[str]], Floats], own: Floats | None, saved: Saved | None, *, dim: int, name: str
) -> tuple[Callable[[Sequence[str]], Singles], Singles, Floats]:
    """What reads texts as directions from the candidates' mean, the candidates' directions, and that mean.

    Either the candidates' `own` vectors are given, or their points and centre as they were `saved`.
    """
    own = np.empty((0, dim)) if own is None else own
    centre = own.mean(axis=0) if saved is None else saved[1]
    if centre.shape != (dim,):
        raise ConfigError(f"Expected candidates of the encoder {name}. {SAVE_AGAIN}")

    def directions(vectors: Floats) -> Singles:
        return on_grid(np.where(vectors.any(axis=1, keepdims=True), vectors - centre, 0.0))

    return lambda found: directions(embed(found)), directions(own) if saved is None else saved[0], centre
