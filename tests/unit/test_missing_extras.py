"""One line of pip installs what a piece of work needs."""

import pickle

import pytest

from dptext.errors import MissingExtraError, needing


def test_the_package_and_the_line_are_named() -> None:
    line = r"GloVe needs the package x\. `make wheels` in a checkout fills dist\. Run: pip .* 'dptext\[glove\]'$"
    with pytest.raises(MissingExtraError, match=line) as found, needing("GloVe", "dptext[glove]"):
        raise ImportError(name="x")
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)  # noqa: S301


def test_a_line_of_its_own_stays() -> None:
    own = MissingExtraError("It needs weights. Run: pip install weights")
    with pytest.raises(MissingExtraError) as found, needing("Writing", "dptext[torch]"):
        raise own
    assert found.value is own
