"""Trials of sensitivity claims."""
