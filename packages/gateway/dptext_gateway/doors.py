"""The commands of the gateway, which come by an entry point of `dptext.commands`. Nothing heavy is imported here."""

from collections.abc import Mapping
from typing import Final

from dptext.doors import Command

COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(
        "dptext_gateway.commands:serve",
        "Serve models over HTTP, with a web page. Keys give access, and accounts pay.",
        "Serve",
        "dptext serve --models models --ledger books.db",
    ),
    "keys": Command("", "Create, list, revoke and rotate the keys of a gateway.", "Serve"),
    "keys create": Command(
        "dptext_gateway.commands:create",
        "Make an API key, and print it once.",
        example="dptext keys create reviews-team --account reviews --scope privatize --ledger books.db",
    ),
    "keys list": Command(
        "dptext_gateway.commands:listed",
        "List the keys, without their secrets.",
        example="dptext keys list --ledger books.db",
    ),
    "keys revoke": Command(
        "dptext_gateway.commands:revoke", "End a key now.", example="dptext keys revoke 0123456789ab --ledger books.db"
    ),
    "keys rotate": Command(
        "dptext_gateway.commands:rotate",
        "Make a new key with the rights of an old one. The old key ends after some days.",
        example="dptext keys rotate 0123456789ab --days 7 --ledger books.db",
    ),
}
