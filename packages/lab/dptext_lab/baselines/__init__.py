"""Texts paraphrased by a language model, token by token."""
