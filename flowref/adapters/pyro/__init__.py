"""The adapter of pyro."""
