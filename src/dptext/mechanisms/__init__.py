"""The mechanisms, one module each: a spec (public settings) and the fitted class."""
