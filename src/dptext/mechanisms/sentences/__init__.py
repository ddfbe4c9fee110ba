"""Mechanisms that release an embedding of a document and protect each of its sentences."""
