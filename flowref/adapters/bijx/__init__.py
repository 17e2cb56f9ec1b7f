"""bijx: bijections on flax.nnx with a running log-density."""
