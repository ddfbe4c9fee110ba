"""The auto-encoder of ADePT: network, training, codebook. The names that mechanisms use are imported here."""

from dptext.neural.adept.codebook import TextCodebook as TextCodebook
from dptext.neural.adept.codebook import best_choice as best_choice
from dptext.neural.adept.codebook import scores as scores
from dptext.neural.adept.codebook import write_codebook as write_codebook
from dptext.neural.adept.decoding import Decoding as Decoding
from dptext.neural.adept.fitting import NetworkSettings as NetworkSettings
from dptext.neural.adept.fitting import fit_model as fit_model
from dptext.neural.adept.fitting import load_autoencoder as load_autoencoder
from dptext.neural.adept.fitting import load_fitted as load_fitted
from dptext.neural.adept.model import AnnotatedModel as AnnotatedModel
from dptext.neural.adept.training import EpochProgress as EpochProgress
from dptext.neural.adept.training import Schedule as Schedule
