"""The auto-encoder of ADePT: network, training, codebook. The names that mechanisms use are imported here."""

from dptext_lab.adept.net.codebook import TextCodebook, best_choice, scores, write_codebook
from dptext_lab.adept.net.decoding import Decoding
from dptext_lab.adept.net.fitting import NetworkSettings, fit_model, load_autoencoder, load_fitted
from dptext_lab.adept.net.model import AnnotatedModel
from dptext_lab.adept.net.training import EpochProgress, Schedule
