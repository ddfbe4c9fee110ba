"""What networks are made of, compiled for this processor. Each row is computed alone."""
