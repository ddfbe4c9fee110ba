"""`dptext audit`: attacks on a claim."""

from typing import Final

#: The exit code of an audit that refutes a claim.
EXIT_REFUTED: Final = 1
