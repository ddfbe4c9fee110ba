"""Runs over many files, by many workers: each record is released once, and the run is charged once."""
