"""JAX's derivative of a call along directions of its points and parameters, as part of a traced
call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from flowref.backends.data import flattened_results
from flowref.backends.jax.trees import leaves_and_tree, paths, weights_of
from flowref.model import Shape, Unsupported


def slope(
    like: Any,
    calls: Sequence[Callable[[Any, Any, Any], Any]],
    by: str,
    drawn: Callable[[str, Shape], Any],
    shape: Shape | None,
) -> Callable[[Any, Any, Any], Any]:
    """See `Backend.slope`."""

    def array(name: str, of: Shape) -> Any:
        with jax.ensure_compile_time_eval():  # cached, and not part of a trace
            return drawn(name, of)

    names = [f"self{path}" for path in paths(like)]
    moves = weights_of(like)

    def run(obj: Any, x: Any, context: Any) -> Any:
        held, tree = leaves_and_tree(obj)
        moved = {"x": x}
        if by == "parameters":
            moved = {name: one for name, one, own in zip(names, held, moves, strict=True) if own}
            if not moved:
                raise Unsupported("it has no parameters")

        def total(moved: dict[str, Any]) -> Any:
            arrays = [moved.get(name, one) for name, one in zip(names, held, strict=True)]
            whole, found = tree.filled(arrays), jnp.zeros(())
            given = [call(whole, moved.get("x", x), context) for call in calls]
            for number, value in enumerate(map(jnp.asarray, flattened_results(given))):
                weights = array(f"cotangent {number} {value.shape}", value.shape)
                found = found + (value * weights).sum()
            return found

        value, gradients = jax.value_and_grad(total)(moved)
        along = jnp.zeros(())
        for name, gradient in gradients.items():
            if shape is None:
                direction = array(f"along {name}", gradient.shape)
            else:
                direction = jnp.broadcast_to(array(f"cotangent {name}", shape), gradient.shape)
            along = along + (gradient * direction).sum()
        return value, along

    return run
