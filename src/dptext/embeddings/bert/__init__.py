"""A BERT that computes each text on its own: packed rows, no padding."""
