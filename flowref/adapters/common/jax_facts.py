"""Facts of what a library's builders build in JAX."""

from __future__ import annotations

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
