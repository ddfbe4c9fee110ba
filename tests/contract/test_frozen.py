"""What a fitted mechanism says cannot be changed after the fit, for every mechanism of the library."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from dptext.frozen import Frozen
from dptext.mechanism import settings
from dptext.registry import MECHANISMS
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from fitted import fitted


def stated(mechanism) -> tuple[object, ...]:
    spec = mechanism.spec
    return settings(spec), dict(mechanism.digests), [(spec.events(u), spec.guarantee(u)) for u in spec.units]


@pytest.mark.slow_cases("adept", "adept_dpsgd", why="the other mechanisms stay; these two are trained for seconds")
@pytest.mark.parametrize("kind", MECHANISMS)
def test_no_attribute_of_a_fitted_mechanism_can_be_assigned(kind: str) -> None:
    mechanism = fitted(kind)
    before, spec = stated(mechanism), mechanism.spec
    with pytest.raises(FrozenInstanceError):
        mechanism.spec = replace(spec, epsilon=0.01) if hasattr(spec, "epsilon") else replace(spec)
    names = {name for name in dir(mechanism) if not name.startswith("__")} | {"spec", "digests", "__class__", "another"}
    for name in names:
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(mechanism, name, getattr(mechanism, name, None))
        with pytest.raises(FrozenInstanceError, match=name):
            delattr(mechanism, name)
    with pytest.raises(FrozenInstanceError):
        mechanism.__init__(*(None,) * (type(mechanism).__init__.__code__.co_argcount - 1))
    mechanism.digests["planted"] = "0" * 64
    assert stated(mechanism) == before
    assert not hasattr(mechanism, "__dict__")


@pytest.mark.parametrize(
    ("kind", "name"), [("adept", "training"), ("published_adept", "training"), ("erae", "_trained_on")]
)
def test_nor_can_what_its_model_says(kind: str, name: str) -> None:
    mechanism = fitted(kind)
    before = stated(mechanism)
    with pytest.raises(FrozenInstanceError):
        setattr(mechanism.model, name, "private text, without protection")
    with pytest.raises(FrozenInstanceError):
        mechanism.model.digest = "0" * 64
    assert stated(mechanism) == before


def test_public_arrays_of_a_fit_cannot_be_written() -> None:
    box, codebook = fitted("truncation").box, fitted("adept").codebook
    for array in (box.low, box.high, codebook.points):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0.0


def pickled(found):
    return pickle.loads(pickle.dumps(found))  # noqa: S301 (our own bytes)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("kind", ["word_metric", "label_only", "smart_redaction", "truncation", "candidates"])
def test_a_copy_is_another_object_and_frozen(kind: str, again) -> None:
    mechanism = fitted(kind)
    found = again(mechanism)
    assert found is not mechanism
    assert stated(found) == stated(mechanism)
    record = [Record("0", "a good day in paris", label="travel")]
    assert found.privatize(record, seeded(1)) == mechanism.privatize(record, seeded(1))
    with pytest.raises(FrozenInstanceError):
        found.spec = replace(found.spec)


def test_a_slot_is_filled_once_and_nothing_but_slots() -> None:
    class Loose(Frozen):
        """Without slots of its own, so with a `__dict__`."""

        def __init__(self) -> None:
            self.spec = 1

    with pytest.raises(FrozenInstanceError, match="'spec'"):
        Loose()

    class Slotted(Frozen):
        __slots__ = ("array", "later")

        def __init__(self) -> None:
            self.array = np.zeros(2)

    found = Slotted()
    found.later = 1
    with pytest.raises(FrozenInstanceError, match="cannot assign to 'later': a Slotted is frozen"):
        found.later = 2
