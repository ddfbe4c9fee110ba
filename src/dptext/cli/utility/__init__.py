"""`dptext utility`: what releases kept of their originals, beside rows that nothing may be shown without."""

from typing import Final

#: By name: MODULE:FUNCTION in this package, and the help.
COMMANDS: Final = {
    "fidelity": ("table:fidelity", "How much of each record came through: label, meaning, words; with all baselines."),
    "classification": (
        "table:classification",
        "Accuracy of a classifier that is trained on the releases, never without fidelity and baselines.",
    ),
    "balance": (
        "balance:balance",
        "Error of the class balance recovered from the releases; --model corrects it by what it does to public texts.",
    ),
}
