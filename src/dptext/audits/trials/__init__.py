"""Trials of a guarantee: two neighbouring inputs are told apart by outputs, densities or enumeration."""
