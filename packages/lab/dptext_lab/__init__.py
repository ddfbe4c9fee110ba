"""The laboratory of dptext: five papers on private text, studied, attacked, and made sound where they can be.

`__init__.pyi` lists the public names. Each is loaded at its first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
