"""The command line. The table names every command: where it is, and its help. `lazy` imports the one that runs."""

from typing import Final

#: By name: MODULE:FUNCTION in this package, or the package of a group; and the help.
COMMANDS: Final = {
    "mechanisms": ("mechanisms:mechanisms", "List the mechanisms, their settings and what they can guarantee."),
    "explain": (
        "explain:explain",
        "Say in plain words what a certificate, a model, or a mechanism with these settings guarantees.",
    ),
    "fit": (
        "fit:fit",
        "Make a model for `privatize --model`, from public records or, where a mechanism says so, from private ones.",
    ),
    "privatize": ("privatize:privatize", "Privatize the records of IN into OUT, with a certificate beside it."),
    "compare": (
        "compare:compare",
        "Run a grid of mechanisms over corpora into one table. Exit code 1: a claim was refuted; 5: cells failed.",
    ),
    "recommend": (
        "recommend:recommend",
        'Name the mechanism that measured best under a guarantee, with the rows behind it; or say "none".',
    ),
    "report": (
        "report:report",
        "Write what `dptext compare` measured as one HTML page, which needs no network and no JavaScript.",
    ),
    "demo": (
        "demo:demo",
        "Fit ADePT on built-in sample texts, privatize others, and show what was guaranteed, kept and leaked.",
    ),
    "audit": (
        "audit",
        "Attack a claim: exit code 1 when it is refuted. An audit can refute a guarantee, never prove one.",
    ),
    "budget": ("budget", "Budgets that outlive the run: accounts with a limit, and charges that nothing takes back."),
    "utility": (
        "utility",
        "What released texts are still good for, beside rows that keep nothing. The numbers are not private.",
    ),
}
