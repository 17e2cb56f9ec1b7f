"""Flows as users of JAX write them, each with named defects."""

# The backend whose framework they are written in.
FRAMEWORK = "jax"
