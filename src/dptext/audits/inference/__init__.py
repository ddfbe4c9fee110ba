"""Attribute inference: who wrote a release, and from which of two sets does it come?"""
