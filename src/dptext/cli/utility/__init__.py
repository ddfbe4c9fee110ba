"""`dptext utility`: what releases kept of their originals, beside rows that nothing may be shown without."""
