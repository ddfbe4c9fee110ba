"""Saved models read back: whatever is wrong with a file becomes one error, which says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dptext.errors import ConfigError, DPTextError

#: What errors advise where a saved model cannot be used.
SAVE_AGAIN: Final = "Fit and save the model again."
#: What JSON, arrays, weights and the checks of what they hold raise where a file was damaged.
_DAMAGED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, RuntimeError)


@contextmanager
def reading_saved(what: str) -> Iterator[None]:
    """Around reading `what` was saved, such as "the weights in model/". Any fault becomes a ConfigError.

    The block raises ValueError where it finds a fault of its own.
    """
    try:
        yield
    except DPTextError:  # it says more than these messages
        raise
    except OSError as error:
        raise ConfigError(f"Cannot read {what}: {error.strerror or 'cut short'}. {SAVE_AGAIN}") from error
    except _DAMAGED as error:
        raise ConfigError(
            f"Expected {what} as saved: a file was cut short or edited, or is of other settings. {SAVE_AGAIN}"
        ) from error
