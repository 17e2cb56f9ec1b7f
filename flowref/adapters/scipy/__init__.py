"""The adapter of scipy.stats."""
