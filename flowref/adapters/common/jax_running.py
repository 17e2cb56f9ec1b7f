"""Running log-dets and log-densities, which calls of JAX code thread through."""

from __future__ import annotations

from typing import Any


def running_numbers(x: Any) -> Any:
    """What runs before a call of a batch: another number for each point, none of them zero, so that a call
    that overwrites it, scales it or drops it is seen.
    """
    import jax.numpy as jnp

    return jnp.cos(3.0 + 7.0 * jnp.arange(len(x), dtype=x.dtype))
