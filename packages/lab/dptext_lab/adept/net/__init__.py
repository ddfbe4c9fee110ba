"""The auto-encoder of ADePT: network, training, codebook. The names that mechanisms use are imported here."""

from dptext_lab.adept.net.codebook import TextCodebook as TextCodebook
from dptext_lab.adept.net.codebook import best_choice as best_choice
from dptext_lab.adept.net.codebook import scores as scores
from dptext_lab.adept.net.codebook import write_codebook as write_codebook
from dptext_lab.adept.net.decoding import Decoding as Decoding
from dptext_lab.adept.net.fitting import NetworkSettings as NetworkSettings
from dptext_lab.adept.net.fitting import fit_model as fit_model
from dptext_lab.adept.net.fitting import load_autoencoder as load_autoencoder
from dptext_lab.adept.net.fitting import load_fitted as load_fitted
from dptext_lab.adept.net.model import AnnotatedModel as AnnotatedModel
from dptext_lab.adept.net.training import EpochProgress as EpochProgress
from dptext_lab.adept.net.training import Schedule as Schedule
