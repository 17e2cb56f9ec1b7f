"""The adapter of glasflow."""
