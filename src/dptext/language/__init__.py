"""Causal language models behind one interface, and writing with them by dptext's exact choices."""
