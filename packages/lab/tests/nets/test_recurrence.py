"""What the networks of the papers are made of, against NumPy."""

from __future__ import annotations

import numpy as np

from dptext_lab.nets.recurrence import elu, tanh


def test_tanh_and_elu() -> None:
    x = np.linspace(-9, 9, 3 * 40, dtype=np.float32).reshape(3, 40)
    for function, exact in ((tanh, np.tanh(x)), (elu, np.where(x > 0, x, np.expm1(x)))):
        found = x.copy()
        function(found, 2)
        assert np.abs(found[:2] - exact[:2]).max() < 1e-6
        assert np.array_equal(found[2], x[2])  # beyond the rows
