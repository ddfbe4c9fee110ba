"""Every random bit and every private choice: the source of randomness, noise on vectors, choices among options."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["privunit", "randomness"])
