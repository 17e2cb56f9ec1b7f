"""The adapter of user."""
