"""The adapter of BoTorch."""
