"""Bugs, and the sentences that name them."""
