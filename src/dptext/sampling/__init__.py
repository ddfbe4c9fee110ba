"""Every random bit and every private choice: the source of randomness, noise on vectors, selection."""
