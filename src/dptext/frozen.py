"""Objects that cannot be changed once they are made: fitted mechanisms, and the public models inside them.

>>> class Fitted(Frozen):
...     __slots__ = ("spec",)
...
...     def __init__(self, spec: str) -> None:
...         self.spec = spec
>>> Fitted("epsilon=1").spec = "epsilon=0.01"
Traceback (most recent call last):
...
dataclasses.FrozenInstanceError: cannot assign to 'spec': a Fitted is frozen, its slots are filled once
"""

from dataclasses import FrozenInstanceError
from types import MemberDescriptorType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Dtype = TypeVar("Dtype", bound=np.generic)


class Frozen:
    """Base class whose subclasses name their attributes in `__slots__` and set each once, in `__init__`.

    Frozen dataclasses suit objects that hold their arguments alone. In both, `object.__setattr__` still works: freezing
    guards against mistakes, not against a determined caller.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        """Fill an empty slot. FrozenInstanceError: the slot is filled, or does not exist."""
        kinds = (vars(kind).get(name) for kind in type(self).__mro__)
        if not any(isinstance(kind, MemberDescriptorType) for kind in kinds) or hasattr(self, name):
            kind_name = type(self).__name__
            raise FrozenInstanceError(f"cannot assign to {name!r}: a {kind_name} is frozen, its slots are filled once")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Raise FrozenInstanceError: attributes cannot be deleted."""
        raise FrozenInstanceError(f"cannot delete {name!r}: a {type(self).__name__} is frozen")


def fill(made: object, **fields: object) -> None:
    """Set fields of a frozen dataclass from its `__post_init__`."""
    for name, value in fields.items():
        object.__setattr__(made, name, value)


def read_only(array: NDArray[Dtype]) -> NDArray[Dtype]:
    """Return a read-only copy of the array."""
    found = array.copy()
    found.flags.writeable = False
    return found
