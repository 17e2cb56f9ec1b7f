"""Laws of residual maps, x + g(x) with a contraction g."""
