"""The adapter of torchflows."""
