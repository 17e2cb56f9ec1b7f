"""What a library's builders build in JAX, and facts that are read off it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flowref.model import Facts, Shape


def facts_in_double(
    describe: Callable[[Any, Shape | None], Facts],
    build: Callable[..., Any],
    event: Shape | None,
    **options: Any,
) -> Facts:
    """What is read off the object that is built with these options, in double precision, as it is
    judged; of events of a shape where the object does not tell its own.
    """
    import jax

    with jax.enable_x64(True):
        return describe(build(**options), event)


def without_compiling(build: Callable[..., Any]) -> Callable[..., Any]:
    """A builder of which JAX compiles no operation: the weights of a coupling flow are drawn by some dozens
    of programs of their own, which took a third of its audit. What a builder trains had better be compiled.
    """

    @functools.wraps(build)
    def built(**options: Any) -> Any:
        from flowref.backends.jax.uncompiled import uncompiled

        with uncompiled():
            return build(**options)

    return built
