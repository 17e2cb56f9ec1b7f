"""Components of JAX libraries, with facts read from built objects."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from flowref.adapters.common.object_components import Construction, Describe
from flowref.model import Component, Dialect, Facts, Shape


def built_in_double(
    describe: Describe,
    *tables: tuple[Dialect, Mapping[str, Construction]],
    compiled: bool = False,
) -> dict[str, Component]:
    """Constructions of a library as components; of a name in several tables the last one counts.
    ``compiled``: compile operations of builders, which changes rounding.
    """
    table = {}
    for dialect, found in tables:
        for name, construction in found.items():
            build, event = construction if isinstance(construction, tuple) else (construction, None)
            made = build if compiled else without_compiling(build)
            facts = functools.partial(facts_in_double, describe, made, event)
            table[name] = Component(name, made, dialect, facts)
    return table


def facts_in_double(
    describe: Describe,
    build: Callable[..., Any],
    event: Shape | None,
    **options: Any,
) -> Facts:
    """The facts of the object built with these options in double precision; ``event``: its shape if it does
    not state it.
    """
    import jax

    # An experimental feature before JAX 0.8.
    home = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    with home.enable_x64(True):
        return describe(build(**options), event)


def without_compiling(build: Callable[..., Any]) -> Callable[..., Any]:
    """A builder marked as library code (see `Backend.building`)."""

    @functools.wraps(build)
    def built(**options: Any) -> Any:
        from flowref import backends

        with backends.find("jax").building():
            return build(**options)

    return built
