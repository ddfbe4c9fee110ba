"""Building blocks of networks, compiled for this processor. Each row is computed on its own."""
