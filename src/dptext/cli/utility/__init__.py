"""`dptext utility`: what releases kept of their originals, beside rows that nothing may be shown without."""

from typing import Final

#: By name: MODULE:FUNCTION in this package, the help, and an example.
COMMANDS: Final = {
    "fidelity": (
        "table:fidelity",
        "How much of each record came through: label, meaning, words. All baselines stand beside.",
        "dptext utility fidelity reviews.csv reviews.private.csv --public public.csv",
    ),
    "classification": (
        "table:classification",
        "Accuracy of a classifier that is trained on the releases. Fidelity and baselines stand beside.",
        "dptext utility classification in.csv out.csv --public public.csv --test test.csv --label-field stars",
    ),
    "balance": (
        "balance:balance",
        "Error of the class balance recovered from the releases. --model corrects it by what it does to public texts.",
        "dptext utility balance reviews.csv reviews.private.csv --public public.csv --label-field stars",
    ),
    "corpus": (
        "corpus:corpus",
        "How near a synthetic corpus is to the private one. Clouds, topics and labels are compared, no single texts.",
        "dptext utility corpus reviews.csv reviews.synthetic.jsonl --public public.csv --label-field stars",
    ),
}
