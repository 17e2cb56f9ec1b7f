"""The adapter of freia."""
