"""Sensitivity claims put to trial."""
