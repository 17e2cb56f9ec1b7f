"""Calls of an object in float32, with 64-bit types enabled as well as disabled: dtypes of the
results, by abstract evaluation alone.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.jax.live import Live
from flowref.backends.jax.sandbox import jax_sandbox
from flowref.model import Array, Unsupported, derive

# JAX's warning about missing 64-bit types, and the names of floating ones.
TRUNCATED, DOUBLES = "Explicitly requested dtype", ("float64", "complex128")


def float32_findings(
    live: Live, name: str, x: Array, context: Array | None = None, wide: bool = True
) -> tuple[tuple[str, ...], str]:
    """See `Subject.single`. float64 arrays that a file or a closure made on import are no bug,
    since 64-bit types are enabled on import. If there are any, nothing is reported.
    """
    called = live.programs.pair(name)
    with (
        jax_sandbox(derive(live.seed, 17), "float64" if wide else "float32"),
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        leaves = [leaf.astype("float32") for leaf in live.leaves]
        given = [None if one is None else jnp.asarray(one, "float32") for one in (x, context)]
        closed, shape = jax.make_jaxpr(called, return_shape=True)(leaves, *given)
    if any(isinstance(one, jax.Array) and doubled(one) for one in closed.consts):
        raise Unsupported("it holds arrays of double precision that are no leaves", blocked=False)
    dtypes = tuple("number" if part is None else str(part.dtype) for part in shape)
    texts = [str(one.message) for one in said]
    missing = [one for one in texts if one.startswith(TRUNCATED) and any(d in one for d in DOUBLES)]
    return dtypes, " ".join(missing[0].partition(" To enable")[0].split()) if missing else ""


def doubled(array: Any) -> bool:
    """Whether an array is float64 or complex128."""
    return np.dtype(array.dtype).name in DOUBLES if array.dtype.kind in "fc" else False
