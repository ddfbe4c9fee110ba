"""What happened and what it means: events, guarantees, and the accounting between them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["accounting", "curves"])
