"""tfp-nightly 0.26.0.dev20261027: KumaraswamyCDF.inverse gives 0 for images below 1e-16.

forward is exact there, and an inverse without cancellation is possible. The log-det of the inverse
is infinite where the point is lost.
"""

import sys

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates.jax.bijectors import KumaraswamyCDF

jax.config.update("jax_enable_x64", True)
a, b = 2.0, 3.0
flow = KumaraswamyCDF(jnp.float64(a), jnp.float64(b))
x = jnp.array([1e-3, 1e-7, 1e-8, 1e-9])
y = flow.forward(x) + 0.0
# The bug is in KumaraswamyCDF._inverse: 1 - (1 - y)^(1 / b) cancels; -expm1(log1p(-y) / b) does not.
back = flow.inverse(y)
exact = (-jnp.expm1(jnp.log1p(-y) / b)) ** (1 / a)
print("x:                    ", x)
print("forward(x):           ", y)
print("inverse(forward(x)):  ", back)
print("by expm1 and log1p:   ", exact)
print("log-det of the inverse:", flow.inverse_log_det_jacobian(y, event_ndims=0))
worst = float((abs(back - x) / x).max())
print(f"off by {worst:.6g}")
wrong = worst > 1e-6
print("VIOLATED map/finite" if wrong else "holds")
sys.exit(wrong)
