"""distrax: bijectors, and distributions, in JAX."""
