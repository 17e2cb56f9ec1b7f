"""The adapter of GPyTorch."""
