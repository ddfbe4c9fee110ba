"""The list of the ways of synthesis."""

from __future__ import annotations

from typing import Final

from dptext.synthesis.prediction import Prediction
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.spec import SynthesisSpec
from dptext.synthesis.steering import Steering
from dptext.synthesis.votes import TopicReport, Votes

SYNTHESES: Final[dict[str, type[SynthesisSpec]]] = {
    "prototypes": Prototypes,
    "prediction": Prediction,
    "steering": Steering,
    "votes": Votes,
    "topics": TopicReport,
}
