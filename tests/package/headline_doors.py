"""The commands of the package. The table imports nothing heavy: `dptext --help` reads it."""

from dptext.doors import Command

COMMANDS = {
    "headlines": Command(
        "headline_parts:headlines",
        "Say how many different headlines a file holds.",
        "Choose and understand",
        "dptext headlines headlines.txt",
    ),
    "audit repeats": Command(
        "headline_parts:repeats",
        "Refuse a file that holds one headline twice.",
        example="dptext audit repeats headlines.txt",
    ),
}
