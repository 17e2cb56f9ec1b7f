"""tfp-nightly 0.26.0.dev20261027: Softfloor.inverse(forward(x)) is not x, nor is its log-det right.

forward, and its log-det, agree with the formula of the class; the inverse is that of another map.
"""

import sys

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates.jax.bijectors import Softfloor

jax.config.update("jax_enable_x64", True)
t = 0.7
flow = Softfloor(temperature=jnp.float64(t))
x = jnp.linspace(-1.95, 1.95, 40)
y = flow.forward(x) + 0.0  # another array: an inverse of the same one would be taken from a cache
back = flow.inverse(y)
# The bug is in Softfloor._inverse: forward adds sigmoid(-0.5 / t) to its image, and the inverse
# subtracts it from its own result instead of from y, before y is split into floor(y) and the rest.
shift = jax.nn.sigmoid(-0.5 / t)
mended = flow.inverse(y - shift) + shift
log_det = flow.inverse_log_det_jacobian(y, event_ndims=0)
expected = -flow.forward_log_det_jacobian(x, event_ndims=0)
print("x:                         ", x[:4])
print("inverse(forward(x)):       ", back[:4])
print("with the shift before it:  ", mended[:4], "off by at most", abs(mended - x).max())
print("log-det of the inverse is off by up to", abs(log_det - expected).max())
worst = float(abs(back - x).max())
print(f"off by {worst:.6g}")
wrong = worst > 1e-9
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
