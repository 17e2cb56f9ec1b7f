"""A user's call that is traced once: derivatives and replicas start from the trace, which takes a
third of the time of the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun


class OnceTraced:
    """A function of arrays, replaced by its trace for each combination of shapes.

    Custom derivative rules of the code are part of the trace.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.traces: dict[Any, tuple[Callable[..., Any], Any]] = {}

    def __call__(self, *args: Any) -> Any:
        """The result of the function."""
        if not jax.config.jax_enable_x64:
            # float64 arrays that the code refers to count as float32 in this mode, but not in a
            # trace.
            return self.function(*args)
        leaves, structure = jax.tree.flatten(args)
        avals = [jax.typeof(leaf) for leaf in leaves]
        form = structure, tuple((one.shape, str(one.dtype), one.weak_type) for one in avals)
        if form not in self.traces:
            shapes = [
                jax.ShapeDtypeStruct(one.shape, one.dtype, weak_type=one.weak_type) for one in avals
            ]
            given = jax.tree.unflatten(structure, shapes)
            closed, shape = jax.make_jaxpr(self.function, return_shape=True)(*given)
            self.traces[form] = jaxpr_as_fun(closed), jax.tree.structure(shape)
        run, out = self.traces[form]
        return jax.tree.unflatten(out, run(*leaves))
