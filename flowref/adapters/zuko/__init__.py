"""The adapter of zuko."""
