"""Norms of a library as constructions: what calls show of each, before the activations that it may have behind it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flowref.adapters.common.normalizers.behind import without
from flowref.adapters.common.normalizers.recognition import completed
from flowref.adapters.common.normalizers.spellings import DIALECT
from flowref.adapters.common.object_components import Constructions
from flowref.model import Component, Dialect, Facts, Shape, TargetError


def components_by_calls(
    constructions: Constructions,
    dialect: Dialect = DIALECT,
    activations: tuple[str, ...] = (),
) -> dict[str, Component]:
    """Constructions with the shapes of their events as components, whose normalizers are those that calls show.
    ``activations``: names of the children that are put out of action.
    """
    table = {}
    for name, construction in constructions.items():
        assert isinstance(construction, tuple)
        build, event = construction
        made = partial(_made, build, activations)
        table[name] = Component(name, made, dialect, partial(_facts, made, dialect, event))
    return table


def facts_by_calls(obj: Any, dialect: Dialect, event: Shape, promises: Mapping[str, Any]) -> Facts:
    """The facts of a norm as its calls show them, for events of a shape."""
    import torch

    found, _ = completed(obj, dialect, Facts(event, promises=promises), torch.get_default_dtype())
    return found


def _made(build: Callable[[], Any], activations: tuple[str, ...]) -> Any:
    made = build()
    return without(lambda: made, tuple(name for name in activations if hasattr(made, name)))


def _facts(build: Callable[[], Any], dialect: Dialect, event: Shape) -> Facts:
    import torch

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = facts_by_calls(build(), dialect, event, {})
    if found.normalizer is None:
        raise TargetError("calls show no norm in it")
    return found
