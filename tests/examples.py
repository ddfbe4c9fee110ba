"""How many examples Hypothesis tries: few in `make test`, DPTEXT_EXAMPLES in `make test-all`."""

import os

from hypothesis import settings

EXAMPLES = int(os.environ.get("DPTEXT_EXAMPLES", "20"))
#: For a test whose examples take tenths of a second each.
few_examples = settings(deadline=None, max_examples=EXAMPLES * 2 // 5, derandomize=True)
#: For a test whose examples take a fifth of a second each.
fewest_examples = settings(deadline=None, max_examples=EXAMPLES // 5, derandomize=True)
