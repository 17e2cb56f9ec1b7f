"""bijx: bijections on flax.nnx, which thread a log-density through."""
