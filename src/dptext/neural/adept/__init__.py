"""The auto-encoder of ADePT: network, training, codebook. What mechanisms use of it is imported here."""

from dptext.neural.adept.codebook import TextCodebook, best_k, scores, write_codebook
from dptext.neural.adept.decoding import Decoding
from dptext.neural.adept.fitting import fit_model
from dptext.neural.adept.loading import load_autoencoder, load_fitted
from dptext.neural.adept.model import AnnotatedModel
from dptext.neural.adept.settings import NetworkSettings
from dptext.neural.adept.training import EpochProgress, Schedule

__all__ = [
    "AnnotatedModel",
    "Decoding",
    "EpochProgress",
    "NetworkSettings",
    "Schedule",
    "TextCodebook",
    "best_k",
    "fit_model",
    "load_autoencoder",
    "load_fitted",
    "scores",
    "write_codebook",
]
