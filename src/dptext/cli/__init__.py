"""The command line. Tables list every command with its module and help. `app` imports only the command that runs."""

from typing import Final

#: Commands by name: MODULE:FUNCTION in this package (empty for a group), the help, and an example.
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
        "mechanisms:fit",
        "Make a model for `privatize --model` from public records. Some mechanisms learn from private ones.",
        "dptext fit --mechanism candidates --set epsilon=10 --public public.csv --out reviews.model",
    ),
    "check": (
        "check:check",
        "Describe a file, without showing its texts, and how to read it.",
        "dptext check reviews.csv",
    ),
    "privatize": (
        "privatize:privatize",
        "Privatize IN into OUT, with a certificate beside it.",
        "dptext privatize reviews.csv reviews.private.csv --model reviews.model",
    ),
    "synthesize": (
        "synthesize:synthesize",
        "Write public texts that say what a private corpus says. One epsilon covers the whole corpus.",
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
        "compare:report",
        "Write what `compare` measured as one HTML page. It needs no network and no JavaScript.",
        "dptext report results --out report.html",
    ),
    "papers": (
        "papers:papers",
        "Try five papers, each as published and made sound. Originals and public text stand beside.",
        "dptext papers adept",
    ),
    "serve": (
        "gateway:serve",
        "Serve models over HTTP, with a web page. Keys give access, and accounts pay.",
        "dptext serve --models models --ledger books.db",
    ),
    "keys": ("", "Create, list, revoke and rotate the keys of a gateway."),
    "demo": ("demo:demo", "Try ADePT on built-in texts: what it guarantees and keeps.", "dptext demo"),
    "audit": ("", "Attack a claim: exit code 1 when it is refuted. An audit can refute a guarantee, never prove one."),
    "budget": ("", "Open accounts with a limit, and see what is spent. No charge is ever taken back."),
    "utility": (
        "",
        "Say what released texts are still good for. Baselines are shown, too. The numbers are not private.",
    ),
}

_AUDIT: Final = {
    "distinguish": (
        "audit.trials:distinguish",
        "Tell two neighbouring inputs apart by outputs alone.",
        "dptext audit distinguish --model reviews.model",
    ),
    "whitebox": (
        "audit.trials:whitebox",
        "Read the privacy loss off the declared density. The sampler is tested against the density.",
        "dptext audit whitebox --noise gaussian --epsilon 1 --delta 1e-5",
    ),
    "exact": (
        "audit.trials:exact",
        "Sum over all outputs, if they can be listed. The sampler is tested against the sums.",
        "dptext audit exact --model reviews.model --first 'it was good' --second 'it was bad'",
    ),
    "sensitivity": (
        "audit.sensitivity:sensitivity",
        "Count pairs of clipped vectors that violate a sensitivity. This refuted ADePT as published.",
        "dptext audit sensitivity --figure violations.svg",
    ),
    "reconstruction": (
        "audit.trials:reconstruction",
        "Guess the input among candidates from one release. Success is compared with the bound of the guarantee.",
        "dptext audit reconstruction --model reviews.model --pool public.csv",
    ),
    "membership": (
        "audit.membership:membership",
        "Guess whether a record was in a classifier's training data. It refutes no claim: the exit code is 0.",
        "dptext audit membership reviews.csv --label-field stars --model reviews.model",
    ),
    "authorship": (
        "audit.inference:authorship",
        "Guess who of the known authors wrote a privatized text. How much of the text is left is measured, too.",
        "dptext audit authorship reviews.csv --author-field user --model reviews.model",
    ),
    "trait": (
        "audit.inference:trait",
        "Guess from which of two sets a redacted text comes. It measures, and guarantees nothing.",
        "dptext audit trait sensitive.csv safe.csv --mechanism random_redaction --set level=0.7",
    ),
    "divergence": (
        "audit.divergence:divergence",
        "Measure how far apart two sets of texts are in an embedding. The measure is no upper bound and no guarantee.",
        "dptext audit divergence sensitive.csv safe.csv --public others.csv --out divergence",
    ),
}

_BUDGET: Final = {
    "open": (
        "budget:open_account",
        "Open an account, and make the ledger if there is none. A limit never changes.",
        "dptext budget open reviews --epsilon 20 --unit author --ledger books.db",
    ),
    "show": (
        "budget:show",
        "Show what is spent, rounded up, and what is left, rounded down.",
        "dptext budget show reviews --ledger books.db",
    ),
    "log": (
        "budget:log",
        "List the charges of an account, oldest first.",
        "dptext budget log reviews --ledger books.db",
    ),
    "verify": (
        "budget:verify",
        "Recompute balances from the charges. Exit code 4: they do not add up.",
        "dptext budget verify --ledger books.db",
    ),
    "upgrade": (
        "budget:upgrade",
        "Bring a ledger of an older dptext to the newest schema.",
        "dptext budget upgrade --ledger books.db",
    ),
}

_KEYS: Final = {
    "create": (
        "gateway:create",
        "Make an API key, and print it once.",
        "dptext keys create reviews-team --account reviews --scope privatize --ledger books.db",
    ),
    "list": ("gateway:listed", "List the keys, without their secrets.", "dptext keys list --ledger books.db"),
    "revoke": ("gateway:revoke", "End a key now.", "dptext keys revoke 0123456789ab --ledger books.db"),
    "rotate": (
        "gateway:rotate",
        "Make a new key with the rights of an old one. The old key ends after some days.",
        "dptext keys rotate 0123456789ab --days 7 --ledger books.db",
    ),
}

_UTILITY: Final = {
    "fidelity": (
        "utility:fidelity",
        "Measure what releases kept: label, meaning, words. All baselines are shown, too.",
        "dptext utility fidelity reviews.csv reviews.private.csv --public public.csv",
    ),
    "classification": (
        "utility:classification",
        "Measure a classifier that is trained on the releases. Fidelity and baselines are shown, too.",
        "dptext utility classification in.csv out.csv --public public.csv --test test.csv --label-field stars",
    ),
    "balance": (
        "utility:balance",
        "Measure how well releases give the balance of the classes. --model corrects the balance by public texts.",
        "dptext utility balance reviews.csv reviews.private.csv --public public.csv --label-field stars",
    ),
    "corpus": (
        "corpus:corpus",
        "Measure how near a synthetic corpus is to the private one. Topics, labels and embeddings are compared.",
        "dptext utility corpus reviews.csv reviews.synthetic.jsonl --public public.csv --label-field stars",
    ),
}

GROUPS: Final = {"audit": _AUDIT, "budget": _BUDGET, "keys": _KEYS, "utility": _UTILITY}  #: The commands of each group

#: The sections of the program's help.
SECTIONS: Final = {
    "Release": ("check", "init", "fit", "privatize", "synthesize", "explain"),
    "Choose": ("mechanisms", "recommend", "demo"),
    "Measure": ("utility", "audit", "compare", "report", "papers"),
    "Account": ("budget",),
    "Serve": ("serve", "keys"),
}
