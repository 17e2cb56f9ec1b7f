"""Side effects and precision of one call, from its trace: what it prints, which settings it
changes, and its float32 arithmetic.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from flowref.backends import process
from flowref.backends.jax.evaluation import as_jax_array
from flowref.backends.jax.interpreter import Noise, Stepped
from flowref.backends.jax.live import Live
from flowref.backends.jax.operation_count import narrow, operations
from flowref.backends.jax.sandbox import jax_sandbox, jax_settings
from flowref.backends.rounding import PROBE
from flowref.model import Observation, Unsupported, derive
from flowref.model.call import arguments


def observe(
    live: Live, name: str, inputs: tuple[Any, ...], default: str, training: bool = False
) -> Observation:
    """See `Observation`. There are no modes, no global random state and no writes to arguments in
    JAX; 64-bit types are enabled, since float64 does not exist otherwise.
    """
    if training:
        raise Unsupported("there is no train mode in JAX", blocked=False)
    if live.programs.traced.get(name):
        raise Unsupported("it cannot be traced", blocked=False)
    asked, seed = arguments(name, inputs, {})
    shapes = [(v.shape, str(v.dtype)) if isinstance(v, np.ndarray) else v for v in asked]
    # A trace depends on shapes only.
    form = name, live.dtype, seed, str(shapes)
    known = live.programs.observed.get(form)
    if known is None:
        known, settled = _observe_call(live, name, asked, seed)
        if settled:
            live.programs.observed[form] = known
    return known


def _observe_call(
    live: Live, name: str, asked: list[Any], seed: int | None
) -> tuple[Observation, bool]:
    """The `Observation` of a call, and whether it holds for all values of these shapes."""
    function = live.dialect.function(name)

    def called(leaves: Any, *arrays: Any) -> Any:
        given = iter(arrays)
        ready = [next(given) if isinstance(v, np.ndarray) else v for v in asked]
        more = () if seed is None else (jax.random.key(seed % 2**32),)
        return function(live.programs.tree.filled(leaves), *ready, *more)

    with jax_sandbox(derive(live.seed, 17), live.dtype) as printed:
        arrays = [as_jax_array(live, value) for value in asked if isinstance(value, np.ndarray)]
        before, state = jax_settings(), process.random_state()
        closed, shape = jax.make_jaxpr(called, return_shape=True)(live.leaves, *arrays)
        changed = tuple(name for name, value in jax_settings().items() if value != before[name])
        drawn, written = process.random_state() != state, printed.getvalue()
        coarse = valued = live.dtype == "float64" and seed is None and narrow(closed)
        if coarse:
            probe, single = Stepped(called, live.leaves, *arrays), np.dtype(np.float32)
            results = [
                jax.tree.leaves(probe(Noise(19, size, only=single), live.leaves, *arrays))
                for size in (0.0, PROBE)
            ]
            coarse = not all(
                np.array_equal(clean, moved, equal_nan=True)
                for clean, moved in zip(*results, strict=True)
            )
    parts = shape if isinstance(shape, tuple | list) else [shape]
    seen = Observation(
        printed=written,
        rng=drawn,
        globals=changed,
        mutated=(),
        dtypes=tuple("number" if part is None else str(part.dtype) for part in parts),
        float32=coarse,
        operations=operations(closed),
    )
    return seen, not (valued or written or drawn or changed)
