"""Reconstruction: which of several known inputs is behind a release?"""
