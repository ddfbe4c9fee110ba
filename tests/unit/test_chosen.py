"""A mechanism of somebody else whose `fit` does not take what its traits say."""

from dataclasses import dataclass

import pytest

from dptext.cli.chosen import fitted_on
from dptext.errors import ConfigError
from dptext.mechanism import Traits


@dataclass(frozen=True)
class Silent:
    kind = "silent"
    traits = Traits(trains=True)

    def fit(self, *, public: object = (), seed: int | None = None) -> None:
        raise AssertionError("nobody gets here")


@dataclass(frozen=True)
class Broken(Silent):
    def fit(self, *, public: object = (), seed: int | None = None, on_progress: object = None) -> None:
        raise TypeError("of its own")


def test_an_argument_that_the_traits_promise_and_the_fit_lacks_is_a_named_error() -> None:
    with pytest.raises(ConfigError, match="fit of silent to take public, seed, on_progress, as its traits say"):
        fitted_on(Silent())


def test_an_error_within_the_fit_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="of its own"):
        fitted_on(Broken())
