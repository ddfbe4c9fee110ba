"""The commands of the laboratory, which come by an entry point of `dptext.commands`. Nothing heavy is imported here."""

from collections.abc import Mapping
from typing import Final

from dptext.doors import Command

COMMANDS: Final[Mapping[str, Command]] = {
    "compare": Command(
        "dptext_lab.cli.compare:compare",
        "Run a grid of mechanisms over corpora into one table. Exit code 1: a claim was refuted; 5: cells failed.",
        "Measure",
        "dptext compare experiment.toml --out results",
    ),
    "report": Command(
        "dptext_lab.cli.compare:report",
        "Write what `compare` measured as one HTML page. It needs no network and no JavaScript.",
        "Measure",
        "dptext report results --out report.html",
    ),
    "demo-adept": Command(
        "dptext_lab.cli.demo:demo",
        "Try ADePT on built-in texts: what it guarantees and keeps.",
        "Begin",
        "dptext demo-adept",
    ),
    "papers": Command(
        "dptext_lab.cli.papers:papers",
        "Try five papers, as published and, where possible, made sound. "
        "Each table also has the originals, public text and random words.",
        "Measure",
        "dptext papers adept",
    ),
    "audit sensitivity": Command(
        "dptext_lab.cli.sensitivity:sensitivity",
        "Count pairs of clipped vectors that violate a sensitivity. This refuted ADePT as published.",
        example="dptext audit sensitivity --figure violations.svg",
    ),
    "audit reconstruction": Command(
        "dptext_lab.cli.reconstruction:reconstruction",
        "Guess the input among candidates from one release. Success is compared with the bound of the guarantee.",
        example="dptext audit reconstruction --model reviews.model --pool public.csv",
    ),
    "audit trait": Command(
        "dptext_lab.cli.trait:trait",
        "Guess from which of two sets a redacted text comes. It measures, and guarantees nothing.",
        example="dptext audit trait sensitive.csv safe.csv --mechanism random_redaction --set level=0.7",
    ),
    "audit divergence": Command(
        "dptext_lab.cli.divergence:divergence",
        "Measure how far apart two sets of texts are in an embedding. The measure is no upper bound and no guarantee.",
        example="dptext audit divergence sensitive.csv safe.csv --public others.csv --out divergence",
    ),
}
