"""Every random bit and every private choice: the source of randomness, noise on vectors, selection."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, ["noise", "privunit", "published", "randomness", "selection"]
)
