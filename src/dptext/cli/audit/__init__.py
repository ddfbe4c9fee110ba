"""`dptext audit`: attacks on a claim."""

from typing import Final

from dptext.errors import ConfigError

#: The exit code of an audit that refutes a claim.
EXIT_REFUTED: Final = 1


def refuse_ignored(mode: str, **options: object) -> None:
    """Raise ConfigError if one of the options, which have no effect with `mode`, is given."""
    if given := [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]:
        named = ", ".join(given)
        raise ConfigError(f"Expected {mode} without {named}, which would change nothing: leave {named} out.")
