"""Users' code in JAX, by protocol: objects, equinox and flax modules, and pairs of functions."""
