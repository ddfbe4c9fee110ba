"""A private corpus in, a synthetic corpus out, and one epsilon for all of it.

A mechanism of `dptext.mechanisms` answers each record. A synthesis answers a corpus: one trusted party sums the corpus
up and adds noise once. Everything after that reads the noisy sums and public text alone.
"""
