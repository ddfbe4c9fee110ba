"""The mechanisms: each module has a spec (public settings) and a fitted class."""
