"""A BERT that computes each text by itself: packed rows, no padding."""
