"""ER-AE: the network, and the model that the mechanism uses."""
