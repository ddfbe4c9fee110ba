"""Differentially private text."""
