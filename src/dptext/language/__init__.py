"""Causal language models behind one seam, and writing with them by our own exact choices."""
