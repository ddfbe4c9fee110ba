"""Encoders of texts, loaded by name."""

from typing import TypeAlias

from dptext.embeddings import sentence_encoder
from dptext.embeddings.encoder_files import MINILM
from dptext.embeddings.public_vectors import learning
from dptext.embeddings.sentence_encoder import Precision, SentenceEncoder
from dptext.embeddings.vector_files import load_glove
from dptext.embeddings.word_mean import WordMean

Encoder: TypeAlias = SentenceEncoder | WordMean


def load_encoder(name: str = MINILM, *, device: str = "cpu", precision: Precision = "auto") -> Encoder:
    """The encoder of this name, loaded anew unless `PublicVectors.learning` is open.

    It is "glove" for the mean of 50,000 GloVe vectors; "sentence" for all-MiniLM-L6-v2; or what `load_sentence_encoder`
    takes, with its errors. Device and precision are of a sentence encoder.
    """
    if name == "glove":
        return WordMean(load_glove())
    known = MINILM if name == "sentence" else name

    def loaded() -> SentenceEncoder:
        # Looked up in its module at each call, so that another encoder can be put there.
        return sentence_encoder.load_sentence_encoder(known, device=device, precision=precision)

    memory = learning()
    return loaded() if memory is None else memory.encoder(loaded, name=known, device=device, precision=precision)
