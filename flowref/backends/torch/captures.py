"""Functions that an object holds and that hold parts of it: a copy shares them, and with them the
original.
"""

from __future__ import annotations

import itertools
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from flowref.backends.data import points_and_contexts
from flowref.backends.torch.arrays import as_tensors
from flowref.backends.torch.reach import HOOKS, reachable_values, reached
from flowref.backends.torch.state import duplicate, trainable
from flowref.model import Dialect, Facts, derive

_KNOWN: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
# Whether what a builder of heavy objects gives shares: the same in all conditions.
_SHARED: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
# Points of which images are compared; one where calls are heavy.
POINTS = 4
# How many entries are looked at: an object that holds more holds data.
MOST = 20_000


def captures(obj: Any) -> bool:
    """Whether a function that an object holds, such as a lambda, encloses the object or a part of
    it that has tensors. Copies of functions are the functions themselves, so that moving the
    parameters of a copy would not move what it computes.
    """
    try:
        known = _KNOWN.get(obj)
    except TypeError:  # it cannot be referred to weakly, or has no hash
        return _captures(obj)
    if known is None:
        known = _captures(obj)
        _KNOWN[obj] = known
    return known


def shared(
    obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, seed: int, build: Any = None
) -> bool:
    """Whether what a copy of an object computes moves with the parameters of the original, which
    are put back. ``build``: what built it; where calls are heavy it is asked about once.
    """
    if not captures(obj) or (dialect.forward is None and dialect.log_prob is None):
        return False
    if build is None or not facts.cost.heavy:
        return _shared(obj, dialect, facts, dtype, seed)
    try:
        known = _SHARED.get(build)
        if known is None:
            known = _SHARED[build] = _shared(obj, dialect, facts, dtype, seed)
    except TypeError:  # it cannot be referred to weakly, or has no hash
        return _shared(obj, dialect, facts, dtype, seed)
    return known


def _shared(obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, seed: int) -> bool:
    rows = 1 if facts.cost.heavy else POINTS
    rng = np.random.default_rng(derive(seed, 41) % 2**32)
    x, context = as_tensors(points_and_contexts(facts, rows, rng), dtype)
    parameters = [tensor for _, tensor in trainable(obj)]
    kept = [parameter.detach().clone() for parameter in parameters]
    try:
        with torch.no_grad():
            copy = duplicate(obj)
            before = _map_or_density(dialect, copy, x, context)
            for parameter in parameters:
                parameter.add_(0.125)
            after = _map_or_density(dialect, copy, x, context)
    except Exception:  # what cannot be copied or called cannot be shown to share
        return False
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.copy_(value)
    return not torch.equal(before, after)


def _map_or_density(dialect: Dialect, obj: Any, x: torch.Tensor, context: Any) -> torch.Tensor:
    """What the map, or else the density, makes of points."""
    if dialect.forward is not None:
        value: torch.Tensor = dialect.forward(obj, x.clone(), context)[0]
        return value
    assert dialect.log_prob is not None
    density: torch.Tensor = dialect.log_prob(obj, x.clone(), context)
    return density


def _captures(obj: Any) -> bool:
    inside = [item for _, item in itertools.islice(reached(obj, _beside_functions), MOST)]
    own = {id(one) for one in inside if isinstance(one, nn.Module | torch.Tensor)} | {id(obj)}
    functions = (one for one in inside if isinstance(one, types.FunctionType))
    return any(
        id(item) in own
        for function in functions
        for _, item in itertools.islice(reached(function), MOST)
    )


def _beside_functions(item: Any) -> Iterator[tuple[str, Any]]:
    """What an item holds, hooks included; of a function nothing."""
    if isinstance(item, nn.Module):
        yield from ((name, vars(item)[name]) for name in HOOKS)
    if not isinstance(item, types.FunctionType):
        yield from reachable_values(item)
