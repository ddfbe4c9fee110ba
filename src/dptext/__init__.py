"""Text under differential privacy: rewrite, redact and embed it, and say exactly what was guaranteed.

    >>> import dptext as dp
    >>> spec = dp.WordMetric(epsilon=10.0)
    >>> spec.guarantee().epsilon, spec.guarantee().metric
    (10.0, 'Euclidean distance of word vectors (glove, first 50000 words)')

The public names stand in `__init__.pyi`. Each is loaded when it is first used, so that `import dptext` loads no heavy
library. The list of names itself is read when the first of them is used.
"""


def __getattr__(name: str) -> object:
    """Read the names from the stub. From then on `lazy_loader` answers for them."""
    import lazy_loader  # noqa: PLC0415 (it and the stub take as long as all else that `dptext --help` needs of us)

    found = dict(zip(("__getattr__", "__dir__", "__all__"), lazy_loader.attach_stub(__name__, __file__), strict=True))
    globals().update(found)
    return found[name] if name in found else found["__getattr__"](name)


def __dir__() -> list[str]:
    names: list[str] = list(__getattr__("__all__"))  # type: ignore[call-overload]
    return names
