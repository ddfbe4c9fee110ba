"""The choice of any envelope: whole numbers, one total for all inputs, and no option raised beyond e^epsilon."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dptext.sampling.envelope import EnvelopeResponse


@st.composite
def responses(draw: st.DrawFn) -> EnvelopeResponse:
    """Least weights of any size, and a total that they and epsilon allow."""
    epsilon = draw(st.floats(1e-9, 200.0))
    size = draw(st.integers(1, 8))
    largest = (1 << 62) // size // size
    weights = st.one_of(st.integers(0, 9), st.integers(0, 1 << 30), st.integers(0, largest))
    least = np.array(draw(st.lists(weights, min_size=size, max_size=size).filter(any)))
    highest = EnvelopeResponse(epsilon, least, sum(least.tolist()))
    within = min(math.floor(sum(least.tolist()) * math.exp(min(epsilon, 40.0))), (1 << 62) // size)
    total = draw(st.integers(highest.total, max(within, highest.total)))
    room = sum(highest._most(least, epsilon, total).tolist())
    return EnvelopeResponse(epsilon, least, min(total, room))


@given(responses(), st.data())
def test_any_envelope_keeps_to_its_epsilon(response: EnvelopeResponse, data: st.DataObject) -> None:
    size = len(response.least)
    row = st.lists(st.integers(-3, 3), min_size=size, max_size=size)
    scores = np.array([data.draw(row), data.draw(row)], np.int16)
    order = np.argsort(-scores, axis=1, kind="stable")
    given_each = np.diff(response._raised(order), axis=1, prepend=0)
    rows = np.tile(response.least, (2, 1))
    np.put_along_axis(rows, order, np.take_along_axis(rows, order, axis=1) + given_each, axis=1)
    with localcontext() as context:
        context.prec = 60
        factor = Fraction(Decimal(response.epsilon).exp())
    for of_option, least in zip(rows.T.tolist(), response.least.tolist(), strict=True):
        assert min(of_option) >= least
        assert max(of_option) <= factor * least
    assert [sum(row) for row in rows.tolist()] == [response.total] * 2
    np.testing.assert_allclose(response.distribution(scores), rows / response.total, rtol=1e-14)
