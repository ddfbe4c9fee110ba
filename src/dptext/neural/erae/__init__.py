"""ER-AE: its network, and the model that the mechanism uses."""

from dptext.neural.erae.model import ErAeModel, ErAeSettings, fit_erae, load_erae
from dptext.neural.erae.training import StepProgress

__all__ = ["ErAeModel", "ErAeSettings", "StepProgress", "fit_erae", "load_erae"]
