"""Whether what an object calls depends on its mode, as far as that can: whether anything reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from flowref.backends.torch.live import Live
from flowref.backends.torch.state import modules
from flowref.model import REAL, derive, draw

# Calls that are made to see it, each with the set and the shape of what it takes: of data or of latents.
CALLS = ("forward", "inverse", "log_prob")
ROWS = 2


def asks_mode(live: Live) -> bool:
    """Whether a call of a map, its inverse or its log-density reads the flag ``training`` of a module."""
    if not modules(live.pristine):
        return False
    with live.calling("its mode"):
        for name in CALLS:
            obj, reads = live.take(), list[str]()
            try:
                _watch(obj, reads.append)
            except Exception:  # a class that no other can stand for
                return True
            with contextlib.suppress(Exception):
                _called(live, name, obj)
            if reads:
                return True
    return False


def _called(live: Live, name: str, obj: Any) -> None:
    """One call at a few ordinary points."""
    facts, forwards = live.facts, live.dialect.normalizing == "forward"
    data = (facts.domain, facts.event_shape)
    latents = (facts.codomain or REAL, facts.latent_shape or facts.event_shape)
    on_latents = name == "inverse" or (name == "log_prob" and not forwards)
    support, shape = latents if on_latents else data
    rng = np.random.default_rng(derive(live.seed, 13) % 2**32)
    context = facts.context_shape
    contexts = None if context is None else rng.standard_normal((ROWS, *context))
    function = getattr(live.dialect, name)
    if function is not None:
        points = draw(support, (ROWS, *shape), rng)
        function(obj, live.tensor(points), live.tensor(contexts))


def _watch(obj: Any, read: Callable[[str], None]) -> None:
    """Have every module of an object say when its mode is read."""
    for whole in modules(obj):
        for part in whole.modules():
            part.__class__ = _watched(type(part), read)


def _watched(cls: type[nn.Module], read: Callable[[str], None]) -> type[nn.Module]:
    """A class that says when the mode of one of its objects is read."""

    def get(self: nn.Module) -> bool:
        read(cls.__name__)
        return bool(vars(self).get("training", True))

    def put(self: nn.Module, value: bool) -> None:
        vars(self)["training"] = value

    return type(
        cls.__name__, (cls,), {"training": property(get, put), "__module__": cls.__module__}
    )
