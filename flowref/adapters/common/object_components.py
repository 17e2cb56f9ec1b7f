"""Components with facts read from the built object, as for a user's object."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.model import Component, Dialect, Facts, Shape

Build = Callable[..., Any]
Describe = Callable[[Any, Shape | None], Facts]
# A builder; with its event shape unless that is ``(features,)``.
Construction = Build | tuple[Build, Shape]
Constructions = dict[str, Construction]
# Stacks of couplings are named as transforming every entry; a single coupling, selected by an
# option, keeps some.
ALL, STACKED = "transforms-all", ("transforms", "layers", "n_transforms")


def components_of(
    constructions: Mapping[str, Construction],
    dialect: Dialect | Callable[[str], Dialect],
    describe: Describe,
    promises: Callable[[str], Mapping[str, Any]] = lambda name: {},
) -> dict[str, Component]:
    """Constructions as components; dialect and promises may depend on the name."""
    table = {}
    for name, construction in constructions.items():
        build, event = construction if isinstance(construction, tuple) else (construction, None)
        way = dialect if isinstance(dialect, Dialect) else dialect(name)
        table[name] = described(name, build, way, describe, event, **promises(name))
    return table


def described(
    name: str,
    build: Build,
    dialect: Dialect,
    describe: Describe,
    event: Shape | None = None,
    **promises: Any,
) -> Component:
    """A component with facts read from the built object by ``describe``.

    ``event``: the event shape; None for ``(features,)`` of the builder's option. ``promises`` are added to
    those of the class. A builder with ``features`` can be rebuilt at any width.
    """
    return Component(name, build, dialect, partial(_facts, build, describe, event, promises))


def _facts(
    build: Build,
    describe: Describe,
    event: Shape | None,
    promises: Mapping[str, Any],
    **options: Any,
) -> Facts:
    import torch

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = build(**options)
    parameters = inspect.signature(build).parameters
    if event is None and "features" in parameters:
        event = (int(options.get("features", parameters["features"].default)),)
    facts = describe(built, event)
    if any(options.get(name) == 1 for name in STACKED):
        promises = {name: value for name, value in promises.items() if name != ALL}
    wide = {"wide": True} if "features" in parameters else {}
    return replace(facts, promises={**facts.promises, **wide, **promises})


def numbered(parts: Iterable[Any]) -> list[tuple[str, Any]]:
    """Parts in order, named by index and class."""
    return [(f"{index}.{type(part).__name__}", part) for index, part in enumerate(parts)]


def lineage(obj: Any) -> set[str]:
    """The class names of an object and its bases."""
    return {kind.__name__ for kind in type(obj).__mro__}
