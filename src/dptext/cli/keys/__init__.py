"""`dptext keys`: who may use a gateway."""

from typing import Final

#: By name: MODULE:FUNCTION in this package, the help, and an example.
COMMANDS: Final = {
    "create": (
        "commands:create",
        "Make an API key, and print it once.",
        "dptext keys create reviews-team --account reviews --scope privatize --ledger books.db",
    ),
    "list": ("commands:listed", "The keys, without their secrets.", "dptext keys list --ledger books.db"),
    "revoke": ("commands:revoke", "End a key now.", "dptext keys revoke 0123456789ab --ledger books.db"),
    "rotate": (
        "commands:rotate",
        "Make a key that may the same; the old one ends after some days.",
        "dptext keys rotate 0123456789ab --days 7 --ledger books.db",
    ),
}
