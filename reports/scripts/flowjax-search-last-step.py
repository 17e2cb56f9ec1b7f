"""flowjax 19.1.2: the search for an inverse returns the point after the one that it tested."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
from flowjax.bijections import Affine, NumericalInverse
from flowjax.root_finding import bisect_check_expand_search, root_finder_to_inverter

jax.config.update("jax_enable_x64", True)
# As flowjax.flows.block_neural_autoregressive_flow inverts its network, with its defaults.
search = partial(bisect_check_expand_search, midpoint=jnp.zeros(4), width=5)
flow = NumericalInverse(
    Affine(jnp.linspace(-1, 1, 4), jnp.linspace(0.5, 2, 4)), root_finder_to_inverter(search)
)
# The bug: body_fn evaluates `f_midpoint = fn(state.midpoint)` and returns, beside it, the next
# `midpoint = state.midpoint - jnp.sign(f_midpoint) * width`. cond_fn stops as soon as f_midpoint is
# within atol, and `result.state.midpoint`, which nobody has tested, is what is returned.
x = jnp.array([4e-8, -5e-7, 2e-6, -1e-6])
back = flow.inverse(flow.transform(x))
print("x:            ", x)
print("inverse(f(x)):", back)
root, result = bisect_check_expand_search(lambda x: x - 2.5000001, jnp.zeros(1), 5)
print("the root 2.5000001 is found as", float(root[0]), "after a test that missed by",
      float(result.state.f_midpoint[0]), "(atol is 1e-5)")  # fmt: skip
off = float(abs(back - x).max())
print(f"off by {off:.6g}")
wrong = off > 1e-3
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
