"""Tensors of an object that is no module: which are parameters, and which may be.

A module marks its parameters. In an ordinary object, a leaf that requires a gradient counts as a
parameter. All others may be weights or constants, and moving a constant would flag correct code.
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

# What users can do so that they are moved.
TOLD_BY = "make them parameters of an nn.Module, or let them require gradients; of constants say ?perturb=0"
# The same for leaves that require gradients in closures.
HELD_BY = "closures hold them, which copies share: make them parameters of an nn.Module, or keep them in attributes of an object"


def loose(obj: Any) -> list[tuple[str, torch.Tensor]]:
    """(path, tensor) of leaves that require a gradient in an object that is no module, each once;
    the path is the expression to reach them. Those in closures are excluded, since all copies
    share them.
    """
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for path, tensor in sorted(_outside(obj), key=lambda entry: entry[0]):
        if is_learned(tensor) and "<" not in path:
            found.setdefault(id(tensor), (path.removeprefix("."), tensor))
    return list(found.values())


def undeclared_tensors(obj: Any) -> str:
    """Returns advice for floating tensors outside of modules that may be parameters but are not
    moved, or "". Masks of zeros and ones do not count, nor does a distribution next to the map,
    which is its base.
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
    """Whether a tensor requires a gradient of its own, as parameters do."""
    return tensor.requires_grad and tensor.is_leaf and bool(tensor.numel())


def _outside(obj: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(path, tensor) of every tensor reachable from an object, except through modules and base
    distributions.
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
