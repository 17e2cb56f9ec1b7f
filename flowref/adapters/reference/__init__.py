"""The adapter of reference."""
