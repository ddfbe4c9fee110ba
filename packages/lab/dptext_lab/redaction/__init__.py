"""Mechanisms that mask words. They protect nothing in the sense of differential privacy."""
