"""equinox 0.13.8: BatchNorm(mode="batch") debiases a variance that starts at 1 as if it started at 0."""

import sys

import equinox as eqx
import jax

jax.config.update("jax_enable_x64", True)
layer, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(1, "batch", mode="batch")
x = 3 + 0.5 * jax.random.normal(jax.random.key(0), (4096, 1))
# The bug: in inference `var = hidden_var / (1 - momentum**counter)` takes out the weight of a start at 0,
# as hidden_mean has; hidden_var starts at `jnp.ones`, so that momentum^t of it stays and is divided, too:
# momentum^t / (1 - momentum^t) too much, 99 after the first batch, 1.7 after 46, and 0.01 after 460.
seen = jax.vmap(layer, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
off = 0.0
for batch in range(1, 47):
    trained, state = seen(x, state)
    if batch in (1, 46):
        still = jax.vmap(lambda row: layer(row, state, inference=True)[0])(x)
        # The map is a line: its slope tells the variance that is divided by.
        used = float(((x[1] - x[0]) / (still[1] - still[0]))[0]) ** 2 - layer.eps
        print(f"batch {batch}: variance of all batches {float(x.var()):.6g}, divided by {used:.6g}")
        print("  spread in training:", float(trained.std()), " in inference:", float(still.std()))
        off = max(off, abs(used - float(x.var())))
print(f"off by {off:.6g}")
wrong = off > 1e-6
print("VIOLATED batch-norm/statistics" if wrong else "holds")
sys.exit(wrong)
