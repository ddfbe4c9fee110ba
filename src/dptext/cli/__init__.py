"""The command line. A table lists every command with its place and help. `app` imports only the command that runs."""

from collections.abc import Mapping
from typing import Final

from dptext.doors import Command

#: Commands of the library by name, "GROUP NAME" in a group. Packages bring such tables.
COMMANDS: Final[Mapping[str, Command]] = {
    "check": Command(
        "dptext.cli.check:check",
        "Describe a file, without showing its texts, and how to read it.",
        "Begin",
        "dptext check tickets.csv",
    ),
    "init": Command(
        "dptext.cli.init:init",
        "Say what readers need, and get the commands to type. They read dptext.toml.",
        "Begin",
        "dptext init tickets.csv --text-field body --public public.csv",
    ),
    "demo": Command(
        "dptext.cli.demo:demo",
        "Measure built-in texts, write a corpus, and judge it.",
        "Begin",
        "dptext demo",
    ),
    "doctor": Command(
        "dptext.cli.doctor:doctor",
        "Say what is installed, and what to install for what.",
        "Begin",
        "dptext doctor",
    ),
    "summarize": Command(
        "dptext.cli.summarize:summarize",
        "Measure a private corpus once, under one epsilon. Corpora are then written from the summary, for free.",
        "A corpus under one epsilon",
        "dptext summarize tickets.csv tickets.summary --public public.csv --label-field topic --labels bill,parcel",
    ),
    "summary": Command(
        "", "Print a summary, and add summaries of several owners or months.", "A corpus under one epsilon"
    ),
    "write": Command(
        "dptext.cli.write:write",
        "Write a corpus from a summary, as often as you like. It reads no private text and costs nothing.",
        "A corpus under one epsilon",
        "dptext write tickets.summary tickets.csv --size 2000",
    ),
    "synthesize": Command(
        "dptext.cli.synthesize:synthesize",
        "Write a corpus that says what a private one says, or a report. One epsilon covers all that leaves.",
        "A corpus under one epsilon",
        "dptext synthesize tickets.csv tickets.synthetic.jsonl --public public.csv --mechanism votes",
    ),
    "fit": Command(
        "dptext.cli.mechanisms:fit",
        "Make a model for `privatize --model` from public records. Some mechanisms learn from private ones.",
        "Each text under an epsilon of its own",
        "dptext fit --mechanism candidates --epsilon 10 --public public.csv --out reviews.model",
    ),
    "privatize": Command(
        "dptext.cli.privatize:privatize",
        "Privatize IN into OUT, with a certificate beside it.",
        "Each text under an epsilon of its own",
        "dptext privatize reviews.csv reviews.released.csv --model reviews.model",
    ),
    "explain": Command(
        "dptext.cli.explain:explain",
        "Say in words what a release, model or mechanism guarantees.",
        "Choose and understand",
        "dptext explain tickets.synthetic.jsonl",
    ),
    "recommend": Command(
        "dptext.cli.recommend:recommend",
        "Name what measured best, or say that public texts do as well.",
        "Choose and understand",
        "dptext recommend --of corpus --epsilon 1",
    ),
    "mechanisms": Command(
        "dptext.cli.mechanisms:mechanisms",
        "List the mechanisms, or explain one with its settings.",
        "Choose and understand",
        "dptext mechanisms candidates",
    ),
    "utility": Command(
        "",
        "Say what released texts are still good for. Baselines are shown, too. The numbers are not private.",
        "Measure",
    ),
    "audit": Command(
        "",
        "Attack a claim: exit code 1 when it is refuted. An audit can refute a guarantee, never prove one.",
        "Measure",
    ),
    "budget": Command(
        "", "Open accounts with a limit, and see what is spent. No charge is ever taken back.", "Account"
    ),
    "summary show": Command(
        "dptext.cli.summary:show",
        "Print labels and topics with intervals, and words by label.",
        example="dptext summary show tickets.summary",
    ),
    "summary add": Command(
        "dptext.cli.summary:add",
        "Add summaries that measure the same, as with --like.",
        example="dptext summary add may.summary june.summary both.summary",
    ),
    "audit distinguish": Command(
        "dptext.cli.audit.trials:distinguish",
        "Tell two neighbouring inputs apart by outputs alone.",
        example="dptext audit distinguish --model reviews.model",
    ),
    "audit whitebox": Command(
        "dptext.cli.audit.trials:whitebox",
        "Read the privacy loss off the declared density. The sampler is tested against the density.",
        example="dptext audit whitebox --noise gaussian --epsilon 1 --delta 1e-5",
    ),
    "audit exact": Command(
        "dptext.cli.audit.trials:exact",
        "Sum over all outputs, if they can be listed. The sampler is tested against the sums.",
        example="dptext audit exact --model reviews.model --first 'it was good' --second 'it was bad'",
    ),
    "audit membership": Command(
        "dptext.cli.audit.membership:membership",
        "Guess whether a record was in a classifier's training data. It refutes no claim: the exit code is 0.",
        example="dptext audit membership reviews.csv --label-field stars --model reviews.model",
    ),
    "audit authorship": Command(
        "dptext.cli.audit.inference:authorship",
        "Guess who of the known authors wrote a privatized text. How much of the text is left is measured, too.",
        example="dptext audit authorship reviews.csv --author-field user --model reviews.model",
    ),
    "budget open": Command(
        "dptext.cli.budget:open_account",
        "Open an account, and make the ledger if there is none. A limit never changes.",
        example="dptext budget open reviews --epsilon 20 --unit author --ledger books.db",
    ),
    "budget show": Command(
        "dptext.cli.budget:show",
        "Show what is spent, rounded up, and what is left, rounded down.",
        example="dptext budget show reviews --ledger books.db",
    ),
    "budget log": Command(
        "dptext.cli.budget:log",
        "List the charges of an account, oldest first.",
        example="dptext budget log reviews --ledger books.db",
    ),
    "budget verify": Command(
        "dptext.cli.budget:verify",
        "Recompute balances from the charges. Exit code 4: they do not add up.",
        example="dptext budget verify --ledger books.db",
    ),
    "budget upgrade": Command(
        "dptext.cli.budget:upgrade",
        "Bring a ledger of an older dptext to the newest schema.",
        example="dptext budget upgrade --ledger books.db",
    ),
    "utility fidelity": Command(
        "dptext.cli.utility:fidelity",
        "Measure what releases kept: label, meaning, words. All baselines are shown, too.",
        example="dptext utility fidelity reviews.csv reviews.released.csv --public public.csv",
    ),
    "utility classification": Command(
        "dptext.cli.utility:classification",
        "Measure a classifier that is trained on the releases. Fidelity and baselines are shown, too.",
        example="dptext utility classification in.csv out.csv --public public.csv --test test.csv --label-field stars",
    ),
    "utility balance": Command(
        "dptext.cli.utility:balance",
        "Measure how well releases give the balance of the classes. --model corrects the balance by public texts.",
        example="dptext utility balance reviews.csv reviews.released.csv --public public.csv --label-field stars",
    ),
    "utility corpus": Command(
        "dptext.cli.corpus:corpus",
        "Measure how near a synthetic corpus is to the private one. Topics, labels and embeddings are compared.",
        example="dptext utility corpus reviews.csv reviews.synthetic.jsonl --public public.csv --label-field stars",
    ),
}

#: The sections of the program's help, in their order.
SECTIONS: Final = (
    *("Begin", "A corpus under one epsilon", "Each text under an epsilon of its own", "Choose and understand"),
    *("Measure", "Account", "Serve"),
)
