"""Flax: batch norms of linen, with external variables, and of nnx."""
