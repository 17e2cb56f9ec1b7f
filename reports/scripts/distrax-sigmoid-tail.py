"""distrax 0.1.9: Sigmoid is exp(x) below -9, from where on the round trip is off by 1e-4.

The inverse, log(y) - log1p(-y), is that of the sigmoid.
"""

import sys

import distrax
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)
flow = distrax.Sigmoid()
wrong = False
# The bug is in distrax._src.bijectors.sigmoid: _more_stable_sigmoid takes exp(x) where x < -9, which
# is exp(-9) = 1.2e-4 too large, and _more_stable_softplus likewise; jax.nn.sigmoid loses no digit there.
for x in jnp.array([-8.99, -9.01, -12.0]):
    (y, log_det), (back, _) = flow.forward_and_log_det(x), flow.inverse_and_log_det(flow.forward(x))
    expected = jnp.log(jax.grad(jax.nn.sigmoid)(x))
    print(f"x {x}: forward / sigmoid - 1 = {y / jax.nn.sigmoid(x) - 1:.2e}", end=", ")
    print(f"inverse(forward(x)) - x = {back - x:.2e}, log-det off by {log_det - expected:.2e}")
    wrong |= abs(float(back - x)) > 1e-9
x = jnp.float64(-9.01)
print(f"off by {abs(float(flow.inverse(flow.forward(x)) - x)):.6g}")
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
