"""Networks in torch: auto-encoders, their training, and classifiers. They are loaded at first use."""
