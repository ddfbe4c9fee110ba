"""`dptext audit`: attacks on a claim."""

from typing import Final

#: The exit code of an audit that refutes a claim.
EXIT_REFUTED: Final = 1

#: By name: MODULE:FUNCTION in this package, and the help.
COMMANDS: Final = {
    "distinguish": ("trials:distinguish", "Black box: tell two neighbouring inputs apart by outputs alone."),
    "whitebox": (
        "trials:whitebox",
        "Read the privacy loss off the declared density, and test that the sampler keeps to it.",
    ),
    "exact": (
        "trials:exact",
        "Sum over all outputs where they can be listed, and test that the sampler keeps to them.",
    ),
    "sensitivity": (
        "sensitivity:sensitivity",
        "Count pairs of clipped vectors that violate a claimed sensitivity, as published against ADePT.",
    ),
    "reconstruction": (
        "reconstruction:reconstruction",
        "Guess the input among known candidates from one release, against the best that the guarantee allows.",
    ),
    "membership": (
        "membership:membership",
        "Was a record in the training data of a classifier? A downstream proxy: it measures, and ends with 0.",
    ),
    "authorship": (
        "authorship:authorship",
        "Who of the known authors wrote a privatized text? Always beside how much of the text is left.",
    ),
    "trait": (
        "trait:trait",
        "From which of two sets does a redacted text come? It measures, and guarantees nothing.",
    ),
    "divergence": (
        "divergence:divergence",
        "How far apart are two sets of texts in one embedding? A measurement: no upper bound, not privacy.",
    ),
}
