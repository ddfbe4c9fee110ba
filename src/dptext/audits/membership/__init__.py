"""Membership inference: who was in the training set of a model?"""
