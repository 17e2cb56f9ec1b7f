"""The adapter of torchcfm."""
