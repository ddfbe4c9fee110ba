"""Mechanisms that exchange words."""
