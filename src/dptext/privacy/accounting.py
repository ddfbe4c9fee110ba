"""The only maker of epsilons: composing, lifting, calibrating and reading events as guarantees.

* `compose`, `repeat`, `epsilon`, `quick_epsilon`, `slack`: how events add up (`composition`).
* `guarantee`, `add`: events read as guarantees (`meaning`).
* `lift`, `for_author`, `bounded_metric`: a small unit read for a larger one (`lifting`).
* `calibrate`: noise set to cost a given epsilon (`calibration`).
"""

from dptext.privacy.calibration import calibrate
from dptext.privacy.composition import compose, epsilon, quick_epsilon, repeat, slack
from dptext.privacy.lifting import bounded_metric, for_author, lift
from dptext.privacy.meaning import Bound, add, guarantee

__all__ = [
    "Bound",
    "add",
    "bounded_metric",
    "calibrate",
    "compose",
    "epsilon",
    "for_author",
    "guarantee",
    "lift",
    "quick_epsilon",
    "repeat",
    "slack",
]
