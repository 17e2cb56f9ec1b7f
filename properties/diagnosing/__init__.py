"""Slips, and the sentences that name them."""
