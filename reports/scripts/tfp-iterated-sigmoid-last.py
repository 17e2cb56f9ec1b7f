"""tfp-nightly 0.26.0.dev20261027: the last coordinate of IteratedSigmoidCentered is rounded away.

It is the product of the shares that are left over, 1e-18 here, and computed as one minus the others.
"""

import sys

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates.jax.bijectors import IteratedSigmoidCentered

jax.config.update("jax_enable_x64", True)
flow = IteratedSigmoidCentered()
x = jnp.full(4, 12.0)
y = flow.forward(x)
# The bug is in IteratedSigmoidCentered._forward: 1 - sum(y) where prod(1 - z) has no cancellation, as
# a TODO in it says (b/128857065); its log-det divides by what is left, which is 0.
log_det = flow.forward_log_det_jacobian(x, event_ndims=1)
z = jax.nn.sigmoid(x - jnp.log(jnp.arange(4.0, 0.0, -1.0)))
print("forward(x):              ", y)
print("its last entry should be:", jnp.prod(1 - z))
print("log-det:                 ", log_det)
wrong = not bool(jnp.isfinite(log_det))
print("VIOLATED map/finite" if wrong else "holds")
sys.exit(wrong)
