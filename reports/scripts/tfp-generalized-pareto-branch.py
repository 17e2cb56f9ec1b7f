"""tfp-nightly 0.26.0.dev20261027: the gradient of GeneralizedPareto's inverse log-det is nan beyond loc + 1.

Its concentration is not negative, and the log-det is right: the nan comes from the formula that is
not chosen, that of negative concentrations.
"""

import sys

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates.jax.bijectors import GeneralizedPareto

jax.config.update("jax_enable_x64", True)
flow = GeneralizedPareto(jnp.float64(0.0), jnp.float64(1.0), jnp.float64(0.3))


def log_det(y):
    return flow.inverse_log_det_jacobian(y, event_ndims=0)


wrong = False
# The bug is in GeneralizedPareto._inverse_log_det_jacobian: tf.where chooses between two formulas,
# of which the other, a Sigmoid onto (loc, loc + 1), is nan there, and so is zero times its gradient.
for y in (0.5, 1.5, 3.0):
    gradient = jax.grad(log_det)(y)
    by_differences = (log_det(y + 1e-6) - log_det(y - 1e-6)) / 2e-6
    print(f"y = {y}: log-det {log_det(y):.6f}, gradient {gradient}, differences {by_differences:.6f}")
    wrong |= not bool(jnp.isfinite(gradient))
print("VIOLATED gradient/finite[inverse]" if wrong else "holds")
sys.exit(wrong)
