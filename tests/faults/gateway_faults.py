"""What is planted into the gateway: each gets what it replaces, and gives what is there instead."""

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from uvicorn.protocols.http.h11_impl import H11Protocol

from dptext.service import work
from dptext.service.store import ANSWERS


def nothing(_: object) -> Callable[..., None]:
    """It does nothing."""
    return lambda *_, **__: None


def never(_: object) -> Callable[..., bool]:
    """It is never so."""
    return lambda *_, **__: False


def always(_: object) -> Callable[..., bool]:
    """It is always so."""
    return lambda *_, **__: True


def nothing_later(_: object) -> Callable[..., Any]:
    """It does nothing, and is waited for."""

    async def done(*_: object, **__: object) -> None:
        pass

    return done


def the_same(_: object) -> Callable[[Any], Any]:
    """It gives what it gets."""
    return lambda given: given


def no_end(_: object) -> int:
    """A number that nobody reaches."""
    return 10**9


def clock(_: object) -> Callable[..., float]:
    """What the clock says now."""
    return lambda *_: time.time()


def every_lease(_: object) -> Callable[..., sa.ColumnElement[bool]]:
    """No lease holds."""
    return lambda *_: sa.true()


def leases_by_the_clock(_: object) -> Callable[[float, float], sa.ColumnElement[bool]]:
    """A lease holds until the clock says that it is over, however long that is."""
    return lambda now, _: ANSWERS.c.lease < now


def without_an_end(real: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A job that ends keeps the time that it had."""
    return lambda *given: {name: value for name, value in real(*given).items() if name != "expires"}


def read_anew(_: object) -> Callable[..., object]:
    """A model is what lies there now."""
    return lambda models, name: (work._read(models.path(name)), "")


def one_mark(_: object) -> Callable[..., str]:
    """All models are one."""
    return lambda *_: "the same"


def refused_in_the_middle(_: object) -> Callable[..., None]:
    """Bytes that are no request are answered, whatever is under way."""
    return H11Protocol.send_400_response
