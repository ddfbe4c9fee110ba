"""ADePT: an utterance rewritten through a noisy latent. Sound, trained with DP-SGD, and as published."""
