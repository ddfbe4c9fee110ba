"""`dptext budget`: accounts, balances and charges as tables or JSON."""

from typing import Final

#: By name: MODULE:FUNCTION in this package, the help, and an example.
COMMANDS: Final = {
    "open": (
        "accounts:open_account",
        "Open an account, and the ledger where there is none yet. A limit never changes.",
        "dptext budget open reviews --epsilon 20 --unit author --ledger books.db",
    ),
    "show": (
        "accounts:show",
        "What is spent and what is left: spent is rounded up, left down.",
        "dptext budget show reviews --ledger books.db",
    ),
    "log": ("charges:log", "The charges of an account, oldest first.", "dptext budget log reviews --ledger books.db"),
    "verify": (
        "books:verify",
        "Recompute balances from the charges. Exit code 4: they do not add up.",
        "dptext budget verify --ledger books.db",
    ),
    "upgrade": (
        "books:upgrade",
        "Bring a ledger of an older dptext to the newest schema.",
        "dptext budget upgrade --ledger books.db",
    ),
}
