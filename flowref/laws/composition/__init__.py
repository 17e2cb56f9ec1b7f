"""Chains and inverses as a library composes them."""
