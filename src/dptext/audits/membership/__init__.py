"""Membership inference: which records were in the training set of a model?"""
