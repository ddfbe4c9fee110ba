"""The auto-encoder of ADePT: network, training, codebook."""
