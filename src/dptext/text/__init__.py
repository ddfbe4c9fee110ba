"""Rows in, rows out: records, file formats, releases, tokens."""
