"""Functions held by an object that enclose parts of it: copies share them, and thus use the
original's parts.
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
# Cached per builder of heavy objects: the answer is the same in all conditions.
_SHARED: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
# Number of points whose images are compared; one for heavy calls.
POINTS = 4
# Number of entries that are searched: larger objects hold data.
MOST = 20_000


def captures(obj: Any) -> bool:
    """Whether a function that an object holds, such as a lambda, encloses the object or a part of
    it with tensors. Copies share such functions, so that moving the parameters of a copy would
    not move what it computes.
    """
    try:
        known = _KNOWN.get(obj)
    except TypeError:  # not weakly referable or not hashable
        return _captures(obj)
    if known is None:
        known = _captures(obj)
        _KNOWN[obj] = known
    return known


def shared(
    obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, seed: int, build: Any = None
) -> bool:
    """Whether the output of a copy changes with the parameters of the original, which are
    restored. ``build``: the object's builder; for heavy calls the answer is cached for it.
    """
    if not captures(obj) or (dialect.forward is None and dialect.log_prob is None):
        return False
    if build is None or not facts.cost.heavy:
        return _shared(obj, dialect, facts, dtype, seed)
    try:
        known = _SHARED.get(build)
        if known is None:
            known = _SHARED[build] = _shared(obj, dialect, facts, dtype, seed)
    except TypeError:  # not weakly referable or not hashable
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
    except Exception:  # without a copy or a call no sharing can be shown
        return False
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.copy_(value)
    return not torch.equal(before, after)


def _map_or_density(dialect: Dialect, obj: Any, x: torch.Tensor, context: Any) -> torch.Tensor:
    """The value ``(n, ...)`` of the map, or else of the density."""
    if dialect.forward is not None:
        value: torch.Tensor = dialect.forward(obj, x.clone(), context)[0]
        return value
    assert dialect.log_prob is not None
    density: torch.Tensor = dialect.log_prob(obj, x.clone(), context)
    return density


def _captures(obj: Any) -> bool:
    inside = [item for _, item in itertools.islice(reached(obj, _values_outside_functions), MOST)]
    own = {id(one) for one in inside if isinstance(one, nn.Module | torch.Tensor)} | {id(obj)}
    functions = (one for one in inside if isinstance(one, types.FunctionType))
    return any(
        id(item) in own
        for function in functions
        for _, item in itertools.islice(reached(function), MOST)
    )


def _values_outside_functions(item: Any) -> Iterator[tuple[str, Any]]:
    """The values that an item holds, with hooks, except those of functions."""
    if isinstance(item, nn.Module):
        yield from ((name, vars(item)[name]) for name in HOOKS)
    if not isinstance(item, types.FunctionType):
        yield from reachable_values(item)
