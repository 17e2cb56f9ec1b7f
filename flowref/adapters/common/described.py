"""Components whose facts are read off the object they build, as they would be for an object of the
user's.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.model import Component, Dialect, Facts, Shape

Build = Callable[..., Any]
Describe = Callable[[Any, Shape | None], Facts]


def described(
    name: str,
    build: Build,
    dialect: Dialect,
    describe: Describe,
    event: Shape | None = None,
    **promises: Any,
) -> Component:
    """A component whose facts are those that ``describe`` reads off the built object, so they have
    one source.

    ``event``: the event shape; None where it is ``(features,)`` of the builder's option.
    ``promises`` are added to those of the class. A builder with ``features`` can be rebuilt at any
    width.
    """
    return Component(name, build, dialect, partial(_facts, build, describe, event, promises))


def _facts(
    build: Build, describe: Describe, event: Shape | None, promises: dict[str, Any], **options: Any
) -> Facts:
    import torch

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = build(**options)
    parameters = inspect.signature(build).parameters
    if event is None and "features" in parameters:
        event = (int(options.get("features", parameters["features"].default)),)
    facts = describe(built, event)
    wide = {"wide": True} if "features" in parameters else {}
    return replace(facts, promises={**facts.promises, **wide, **promises})


def lineage(obj: Any) -> set[str]:
    """The class names of an object, its own first and then its bases'."""
    return {kind.__name__ for kind in type(obj).__mro__}
