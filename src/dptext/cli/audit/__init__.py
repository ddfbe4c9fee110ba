"""`dptext audit`: attacks on a claim."""

from typing import Final

#: The exit code of an audit that refutes a claim.
EXIT_REFUTED: Final = 1

#: By name: MODULE:FUNCTION in this package, the help, and an example.
COMMANDS: Final = {
    "distinguish": (
        "trials:distinguish",
        "Tell two neighbouring inputs apart by outputs alone.",
        "dptext audit distinguish --model reviews.model",
    ),
    "whitebox": (
        "trials:whitebox",
        "Read the privacy loss off the declared density. It is also tested that the sampler keeps to it.",
        "dptext audit whitebox --noise gaussian --epsilon 1 --delta 1e-5",
    ),
    "exact": (
        "trials:exact",
        "Sum over all outputs where they can be listed. It is also tested that the sampler keeps to them.",
        "dptext audit exact --model reviews.model --first 'it was good' --second 'it was bad'",
    ),
    "sensitivity": (
        "sensitivity:sensitivity",
        "Count pairs of clipped vectors that violate a sensitivity. So ADePT as published was refuted.",
        "dptext audit sensitivity --figure violations.svg",
    ),
    "reconstruction": (
        "reconstruction:reconstruction",
        "Guess the input among candidates from one release. It stands against the best that the guarantee allows.",
        "dptext audit reconstruction --model reviews.model --pool public.csv",
    ),
    "membership": (
        "membership:membership",
        "Guess whether a record was in a classifier's training data. A downstream proxy: it measures, and ends with 0.",
        "dptext audit membership reviews.csv --label-field stars --model reviews.model",
    ),
    "authorship": (
        "authorship:authorship",
        "Guess who of the known authors wrote a privatized text. How much of it is left stands beside.",
        "dptext audit authorship reviews.csv --author-field user --model reviews.model",
    ),
    "trait": (
        "trait:trait",
        "Guess from which of two sets a redacted text comes. It measures, and guarantees nothing.",
        "dptext audit trait sensitive.csv safe.csv --mechanism random_redaction --set level=0.7",
    ),
    "divergence": (
        "divergence:divergence",
        "Measure how far apart two sets of texts are in an embedding. This is no upper bound, and not privacy.",
        "dptext audit divergence sensitive.csv safe.csv --public others.csv --out divergence",
    ),
}
