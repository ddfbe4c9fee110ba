"""The network of ER-AE."""
