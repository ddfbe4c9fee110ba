"""The refutation of ADePT (Habernal 2021): claims of sensitivity, pairs that violate them, and reconstruction."""
