"""ER-AE: the network, and the model that the mechanism uses. The mechanism's imports from it are listed here."""

from dptext_lab.erae.net.model import ErAeModel, ErAeSettings, fit_erae, load_erae
