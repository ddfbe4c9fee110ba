"""Texts and words as vectors, and what is near to what. Nothing here is computed from private text."""
