"""Residual maps, x + g(x) with a contraction g."""
