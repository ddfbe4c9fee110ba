"""How many examples Hypothesis tries: few in `make test`, more where DPTEXT_EXAMPLES says so, as `make test-all` does."""

import os

from hypothesis import settings

EXAMPLES = int(os.environ.get("DPTEXT_EXAMPLES", "25"))
#: For a test whose examples take tenths of a second each.
few_examples = settings(max_examples=EXAMPLES * 2 // 5)
