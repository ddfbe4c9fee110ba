"""Vectors of texts and words, and searches for near ones. All models here are made from public text."""
