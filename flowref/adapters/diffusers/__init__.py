"""The adapter of diffusers."""
