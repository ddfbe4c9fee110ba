"""Recommendations: which mechanism measured best under a requested guarantee, and whether it is worth having at all.

`measured` describes a table of measurements, `tables` reads one, `pooled` pools its trials, and `recommendation` judges
its rows. The tables of the package were measured on public corpora.
"""
