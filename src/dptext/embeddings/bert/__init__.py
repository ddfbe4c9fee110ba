"""A BERT that computes each text by itself: packed rows, loops compiled for this processor, no padding."""
