"""ADePT: utterances rewritten through a noisy latent, in three mechanisms: sound, trained with DP-SGD, as published."""
