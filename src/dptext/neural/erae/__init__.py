"""ER-AE: its network, and the model that the mechanism uses."""
