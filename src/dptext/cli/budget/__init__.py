"""`dptext budget`: accounts, balances and charges as tables or JSON."""

from typing import Final

#: By name: MODULE:FUNCTION in this package, and the help.
COMMANDS: Final = {
    "open": (
        "accounts:open_account",
        "Open an account, and the ledger where there is none yet. A limit never changes.",
    ),
    "show": ("accounts:show", "What is spent and what is left: spent is rounded up, left down."),
    "log": ("charges:log", "The charges of an account, oldest first."),
    "verify": ("books:verify", "Recompute balances from the charges; exit code 4 where they do not add up."),
    "upgrade": ("books:upgrade", "Bring a ledger that an older dptext wrote to the newest schema."),
}
