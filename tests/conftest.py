"""Shared settings: Hypothesis without deadlines, as the first example pays for imports."""

from hypothesis import settings

settings.register_profile("dptext", deadline=None, max_examples=100, derandomize=True)
settings.load_profile("dptext")
