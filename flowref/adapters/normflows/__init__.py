"""The adapter of normflows."""
