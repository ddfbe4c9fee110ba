"""The command line. The table names every command: where it is, and its help. `lazy` imports the one that runs."""

from typing import Final

#: By name: MODULE:FUNCTION in this package, or the package of a group; the help; and an example.
COMMANDS: Final = {
    "init": (
        "init:init",
        "Answer a few questions, and get a mechanism and a dptext.toml. `fit` and `privatize` read the file.",
        "dptext init reviews.csv --text-field review --public public.csv --epsilon 10",
    ),
    "mechanisms": (
        "mechanisms:mechanisms",
        "List the mechanisms, or explain one with its settings.",
        "dptext mechanisms candidates",
    ),
    "explain": (
        "explain:explain",
        "Say in words what a release, model or mechanism guarantees.",
        "dptext explain reviews.private.csv",
    ),
    "fit": (
        "fit:fit",
        "Make a model for `privatize --model` from public records. Some mechanisms learn from private ones.",
        "dptext fit --mechanism candidates --set epsilon=10 --public public.csv --out reviews.model",
    ),
    "check": (
        "check:check",
        "Say what a file holds, without a text of it, and how to read it.",
        "dptext check reviews.csv",
    ),
    "privatize": (
        "privatize:privatize",
        "Privatize IN into OUT, with a certificate beside it.",
        "dptext privatize reviews.csv reviews.private.csv --model reviews.model",
    ),
    "synthesize": (
        "synthesize:synthesize",
        "Write public texts that say what a private corpus says. One epsilon pays for all.",
        "dptext synthesize reviews.csv reviews.synthetic.jsonl --public public.csv --mechanism votes",
    ),
    "compare": (
        "compare:compare",
        "Run a grid of mechanisms over corpora into one table. Exit code 1: a claim was refuted; 5: cells failed.",
        "dptext compare experiment.toml --out results",
    ),
    "recommend": (
        "recommend:recommend",
        "Name the mechanism that measured best under a guarantee.",
        "dptext recommend --unit document --epsilon 10 --task classification",
    ),
    "report": (
        "report:report",
        "Write what `compare` measured as one HTML page. It needs no network and no JavaScript.",
        "dptext report results --out report.html",
    ),
    "serve": (
        "serve:serve",
        "Serve models over HTTP, with a page. Keys say who may; accounts pay.",
        "dptext serve --models models --ledger books.db",
    ),
    "keys": (
        "keys",
        "Who may use a gateway: create, list, revoke, rotate.",
    ),
    "demo": ("demo:demo", "Try ADePT on built-in texts: what it guarantees and keeps.", "dptext demo"),
    "audit": (
        "audit",
        "Attack a claim: exit code 1 when it is refuted. An audit can refute a guarantee, never prove one.",
    ),
    "budget": ("budget", "Accounts with a limit, and charges that nothing takes back. They outlive the run."),
    "utility": (
        "utility",
        "Say what released texts are still good for. Rows that keep nothing stand beside. The numbers are not private.",
    ),
}

#: How the help lists them.
SECTIONS: Final = {
    "Release": ("check", "init", "fit", "privatize", "synthesize", "explain"),
    "Choose": ("mechanisms", "recommend", "demo"),
    "Measure": ("utility", "audit", "compare", "report"),
    "Account": ("budget",),
    "Serve": ("serve", "keys"),
}
