"""Flax: batch norms of linen, whose statistics are variables, and of nnx, which hold them."""
