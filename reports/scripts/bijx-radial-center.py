"""bijx 1.3.2: Radial is no radial map within 1e-7 of its center, and reports the log-det of one."""

import sys

import bijx
import jax
import jax.numpy as jnp
from flax import nnx

jax.config.update("jax_enable_x64", True)
flow = bijx.Radial(
    bijx.Power(jnp.array(1.5)), center=jnp.zeros(4), scale=jnp.zeros(4), rngs=nnx.Rngs(0)
)
# The bug: apply computes r_in = sqrt(|S(x - c)|^2 + eps^2) with eps = 1e-7, in both directions. The
# log-det `mld_scalar + (1 - d) * log(ratio)` takes r_in for the radius: the derivative of r_in by
# the radius is left out; and the way back adds eps^2 again, to a radius that it had been added to.
forward = jax.jit(lambda v: flow.forward(v, jnp.zeros(1)))
x = jnp.zeros((1, 4))
_, density = forward(x)
jacobian = jax.jacfwd(lambda v: forward(v[None])[0][0])(x[0])
expected = jnp.linalg.slogdet(jacobian)[1]
print("log-det at the center:", float(-density[0]), " log|det J|:", float(expected))
near = jnp.array([[-2e-6, 0.0, 0.0, 0.0]])
back, _ = jax.jit(flow.reverse)(*forward(near))
print("x:", near[0].tolist(), " reverse(forward(x)):", back[0].tolist())
off = abs(float(-density[0] - expected))
print(f"off by {off:.6g}")
wrong = off > 1e-6
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
