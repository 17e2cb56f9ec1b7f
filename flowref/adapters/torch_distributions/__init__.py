"""The adapter of torch_distributions."""
