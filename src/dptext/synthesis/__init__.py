"""A private corpus in, a synthetic corpus out, and one epsilon for all of it.

A mechanism of `dptext.mechanisms` answers each record. What stands here answers a corpus: one trusted party sums it up,
noise is added once, and everything after that reads the noisy sums and public text alone.
"""
