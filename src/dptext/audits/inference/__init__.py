"""Attribute inference: the author of a release, and which of two sets a release comes from."""
