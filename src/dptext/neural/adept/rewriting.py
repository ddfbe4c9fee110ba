"""What a mechanism that rewrites through an auto-encoder needs of this room, in one import."""

from dptext.neural.adept.codebook import Codebook, best_k, scores, write_codebook
from dptext.neural.adept.model import AnnotatedModel, Settings, fit_model, load_fitted
from dptext.neural.adept.network import Decoding
from dptext.neural.adept.training import Progress, Schedule

__all__ = [
    "AnnotatedModel",
    "Codebook",
    "Decoding",
    "Progress",
    "Schedule",
    "Settings",
    "best_k",
    "fit_model",
    "load_fitted",
    "scores",
    "write_codebook",
]
