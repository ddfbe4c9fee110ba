"""Privacy accounting: events (facts about releases), guarantees, and the rules that derive guarantees from events."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["accounting", "curves"])
