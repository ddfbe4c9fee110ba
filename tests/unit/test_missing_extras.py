"""One line of pip installs all that a piece of work needs."""

import pickle

import pytest

from dptext.errors import MissingExtraError, needing


def test_one_around_another_adds_its_extras() -> None:
    with (
        pytest.raises(
            MissingExtraError, match=r"Learning needs the package x\. Run: pip install 'dptext\[audit,glove\]'$"
        ),
        needing("A synthesis", "glove", "audit"),
        needing("Learning", "audit"),
    ):
        raise ImportError(name="x")
    with pytest.raises(MissingExtraError, match=r"Run: pip install torch==\S+ 'dptext\[audit,sbert\]'$"):  # noqa: SIM117
        with needing("A synthesis", "sbert"), needing("Learning", "audit"):
            raise ImportError(name="x")


def test_a_line_of_its_own_stays_and_so_does_the_message_in_another_process() -> None:
    own = MissingExtraError("It needs weights. Run: pip install weights")
    with pytest.raises(MissingExtraError) as found, needing("Writing", "language"):
        raise own
    assert found.value is own
    there = pickle.loads(pickle.dumps(MissingExtraError("It needs x", "audit")))  # noqa: S301
    assert str(there) == "It needs x. Run: pip install 'dptext[audit]'"
