"""Eager operations without a compiler.

JAX compiles operations outside of traces too, each alone and for each shape, so that the first
gradient of a spline takes ten seconds and the second some milliseconds. Here each operation is
traced alone and run with numpy; the code still sees arrays with values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax._src import core

from flowref.backends.jax.interpreter import Stepped, TooLong
from flowref.model import Undecidable

# The primitive that makes an array of a number; older versions have none.
STAGE = getattr(core, "stage_p", None)


class Uncompiled(core.EvalTrace):  # type: ignore[misc]  # JAX is not looked into
    """Evaluates operations on arrays by numpy, or by JAX where numpy cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[Any, Stepped] = {}

    def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
        """Evaluates one operation, or a jitted function."""
        given = [core.full_lower(one) for one in args]
        with core.set_current_trace(core.eval_trace):
            if primitive is not STAGE and all(map(is_number_or_array, given)):
                with contextlib.suppress(TooLong, Undecidable):
                    stepped = self.stepped(primitive, given, params)
                    if not stepped.weak:
                        return jax.tree.map(jax.device_put, stepped(None, *given))
            return super().process_primitive(primitive, given, params)

    def stepped(self, primitive: Any, given: list[Any], params: Any) -> Stepped:
        """The operation as a program, cached for arrays of the same kind."""

        def alone(*inner: Any) -> Any:
            return primitive.bind(*inner, **params)

        form = (primitive, tuple(sorted(params.items())), *map(core.typeof, given))
        try:
            hash(form)
        except TypeError:
            return Stepped(alone, *given)
        if form not in self.known:
            self.known[form] = Stepped(alone, *given)
        return self.known[form]


def is_number_or_array(value: Any) -> bool:
    """Whether a value is a number or an array, random keys included."""
    return isinstance(value, bool | int | float | complex | np.ndarray | np.generic | jax.Array)


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Inside, operations on arrays are not compiled."""
    with core.set_current_trace(Uncompiled()):
        yield
