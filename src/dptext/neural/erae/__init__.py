"""ER-AE: the network, and the model that the mechanism uses. The mechanism's imports from it are listed here."""

from dptext.neural.erae.model import ErAeModel as ErAeModel
from dptext.neural.erae.model import ErAeSettings as ErAeSettings
from dptext.neural.erae.model import fit_erae as fit_erae
from dptext.neural.erae.model import load_erae as load_erae
