"""The divergence of two sets of texts in one embedding."""
