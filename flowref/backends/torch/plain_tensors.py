"""Tensors of an object that is no module: which of them are parameters, and which may be.

A module says of each tensor whether it is a parameter. An ordinary object says so where it asks for
gradients: a leaf that requires one is moved as a parameter is. Of all others nothing tells whether they
are weights or constants, and to move a constant would accuse what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributions import Distribution, TransformedDistribution

from flowref.backends.data import is_mask
from flowref.backends.torch.arrays import array
from flowref.backends.torch.reach import reachable_values

# What a user can say, so that they are moved.
TOLD_BY = "make them parameters of an nn.Module, or let them require gradients; of constants say ?perturb=0"
# The same of leaves that require gradients, and that closures hold.
HELD_BY = "closures hold them, which copies share: make them parameters of an nn.Module, or keep them in attributes of an object"


def loose(obj: Any) -> list[tuple[str, torch.Tensor]]:
    """The leaves that require a gradient in an object that is no module, once each, by what is written
    behind the object to reach them, but for a leading dot. Those that closures hold are left out: they
    are shared by all copies.
    """
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for path, tensor in sorted(_outside(obj), key=lambda entry: entry[0]):
        if is_learned(tensor) and "<" not in path:
            found.setdefault(id(tensor), (path.removeprefix("."), tensor))
    return list(found.values())


def untold(obj: Any) -> str:
    """What to say so that its floating tensors outside of its modules are moved, of which nothing tells
    that they are parameters; empty where there are none: masks of zeros and ones are none, and what a
    distribution beside the map keeps is its base.
    """
    unmoved = [
        is_learned(tensor)
        for path, tensor in _outside(obj)
        if tensor.is_floating_point()
        and tensor.numel()
        and (not is_learned(tensor) or "<" in path)
        and not is_mask(array(tensor.double()))
    ]
    if not unmoved:
        return ""
    return HELD_BY if all(unmoved) else TOLD_BY


def is_learned(tensor: torch.Tensor) -> bool:
    """Whether a tensor asks for a gradient of its own, as parameters do."""
    return tensor.requires_grad and tensor.is_leaf and bool(tensor.numel())


def _outside(obj: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor that an object reaches, but not by way of a module or a base distribution, each with
    how it is reached.
    """
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", obj)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, torch.Tensor):
            yield path, item
            continue
        if id(item) in seen or isinstance(item, (nn.Module, type)):
            continue
        seen.add(id(item))
        if isinstance(item, TransformedDistribution):
            stack += [
                (f"{path}.transforms", item.transforms),
                (f"{path}.base_dist", item.base_dist),
            ]
        elif not isinstance(item, Distribution):
            stack += [(path + step, value) for step, value in reachable_values(item)]
