"""Texts rewritten by a language model that reads them, token by token."""
