"""bijx 1.3.2: the inverse of the rational quadratic spline is off by what was added to a divisor."""

import sys

import jax
import jax.numpy as jnp
from bijx.bijections.splines import rational_quadratic_spline


def lost(dtype):
    """How far inverse(f(x)) is from x in a bin that is 0.01 high, and a unit of rounding."""
    x = jnp.array([0.1, 0.2, 0.3, 0.4], dtype)
    widths = jnp.zeros((4, 2), dtype)
    heights = jnp.array([[-4.6, 0.0]] * 4, dtype)
    slopes = jnp.full((4, 1), -2.0, dtype)
    y, _ = rational_quadratic_spline(x, widths, heights, slopes)
    back, _ = rational_quadratic_spline(y, widths, heights, slopes, inverse=True)
    return float(abs(back - x).max()), float(jnp.finfo(dtype).eps)


# The bug: in rational_quadratic_spline, `denom_safe = denom_safe + tiny * (1.0 + jnp.abs(quad_b))`,
# with tiny ten units of rounding, is meant to be relative ("a relative tiny term"), but the 1.0
# makes it absolute: the divisor has the size of the bin's height times its slope, and every inverse
# is off by ten units of rounding over that. The divisor vanishes nowhere inside of a bin.
for double in (False, True):
    with jax.enable_x64(double):
        off, unit = lost(jnp.float64 if double else jnp.float32)
    bits = 64 if double else 32
    print(f"float{bits}: inverse(f(x)) - x up to {off:.3g}, {off / unit:.0f} units of rounding")
print(f"off by {off:.6g}")
wrong = off > 1e-13
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
