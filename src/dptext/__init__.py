"""Text under differential privacy: rewrite, redact and embed it, and say exactly what was guaranteed.

    >>> import dptext as dp
    >>> spec = dp.WordMetric(epsilon=10.0)
    >>> spec.guarantee().epsilon, spec.guarantee().metric
    (10.0, 'Euclidean distance of word vectors (glove, first 50000 words)')

`__init__.pyi` lists the public names. Each is loaded at its first use, so that `import dptext` loads no heavy library.
The list itself is read at the first use of any name.
"""


def __getattr__(name: str) -> object:
    """Read the public names from the stub. Afterwards `lazy_loader` resolves them."""
    import lazy_loader  # noqa: PLC0415 (with the stub, it would double the time that `dptext --help` needs)

    found = dict(zip(("__getattr__", "__dir__", "__all__"), lazy_loader.attach_stub(__name__, __file__), strict=True))
    globals().update(found)
    return found[name] if name in found else found["__getattr__"](name)


def __dir__() -> list[str]:
    names: list[str] = list(__getattr__("__all__"))  # type: ignore[call-overload]
    return names
