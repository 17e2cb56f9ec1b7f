"""The adapter of nflows."""
