"""Reconstruction: which of several known inputs led to a release?"""
