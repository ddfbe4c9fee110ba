"""Text under differential privacy: rewrite, redact and embed it, and say exactly what was guaranteed.

    >>> import dptext as dp
    >>> spec = dp.WordMetric(epsilon=10.0)
    >>> spec.guarantee().epsilon, spec.guarantee().metric
    (10.0, 'Euclidean distance of word vectors (glove, first 50000 words)')

The public names stand in `__init__.pyi`. Each is loaded when it is first used, so that `import dptext` loads no heavy
library.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
