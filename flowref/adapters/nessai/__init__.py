"""The adapter of nessai."""
