"""What a library's builders build in JAX, and facts that are read off it."""

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
    """Constructions of a library by name, with how they are called; of a name that stands in several tables the last
    one counts. ``compiled``: operations of builders are compiled, which rounds otherwise.
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
    """What is read off the object that is built with these options, in double precision, as it is
    judged; of events of a shape where the object does not tell its own.
    """
    import jax

    # Before JAX 0.8 an experiment.
    home = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    with home.enable_x64(True):
        return describe(build(**options), event)


def without_compiling(build: Callable[..., Any]) -> Callable[..., Any]:
    """A builder of a library, called as such (see `Backend.building`)."""

    @functools.wraps(build)
    def built(**options: Any) -> Any:
        from flowref import backends

        with backends.find("jax").building():
            return build(**options)

    return built
