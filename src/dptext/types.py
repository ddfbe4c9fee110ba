"""Names of types that many modules use: arrays by what they hold, and what JSON can say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Positions = NDArray[np.intp]
Int32s = NDArray[np.int32]
Int16s = NDArray[np.int16]
UInt16s = NDArray[np.uint16]
UInt64s = NDArray[np.uint64]
Booleans = NDArray[np.bool_]

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
