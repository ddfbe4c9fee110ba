"""Text under differential privacy: rewrite, synthesize and embed it, and say exactly what was guaranteed.

    >>> import dptext as dp
    >>> spec = dp.WordMetric(epsilon=10.0)
    >>> spec.guarantee().epsilon, spec.guarantee().metric
    (10.0, 'Euclidean distance of word vectors (glove, first 50000 words)')

`__init__.pyi` lists the public names. Each is loaded at its first use, so that `import dptext` loads no heavy library.
The list itself is read at the first use of any name.
"""


def __getattr__(name: str) -> object:
    """Read the public names from the stub. Afterwards `lazy_loader` resolves them.

    A name in capitals that is not in the stub is looked for in the registries: it is the class of settings of a
    mechanism or a synthesis that an installed package brings. AttributeError: no package brings it.
    """
    import lazy_loader  # noqa: PLC0415 (with the stub, it would double the time that `dptext --help` needs)

    resolve, names, public = lazy_loader.attach_stub(__name__, __file__)

    def found(name: str) -> object:
        if name in public or name.startswith("__"):
            return resolve(name)
        if not name[:1].isupper():
            from dptext.doors import MOVED  # noqa: PLC0415 (`import dptext` loads no other module)

            raise AttributeError(f"module 'dptext' has no attribute {name!r}.{MOVED}")
        from dptext.registry import settings_named  # noqa: PLC0415 (loads numpy)

        return settings_named(name)

    globals().update(__getattr__=found, __dir__=names, __all__=public)
    return globals()[name] if name in ("__dir__", "__all__") else found(name)


def __dir__() -> list[str]:
    names: list[str] = list(__getattr__("__all__"))  # type: ignore[call-overload]
    return names
