"""ER-AE: the network, and the model that the mechanism uses. The mechanism's imports from it are listed here."""

from dptext_lab.erae.net.model import ErAeModel as ErAeModel
from dptext_lab.erae.net.model import ErAeSettings as ErAeSettings
from dptext_lab.erae.net.model import fit_erae as fit_erae
from dptext_lab.erae.net.model import load_erae as load_erae
