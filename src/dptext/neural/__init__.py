"""The only home of torch: encoders, the auto-encoder, its training, classifiers. Loaded when first needed."""
