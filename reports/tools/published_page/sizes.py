"""How large models are: the entries of their events and their parameters."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch

from flowref import registry
from flowref.model import Target

# What the names of the data sets tell, so that a model need not be built to be sorted.
FEATURES = {
    "power": 6,
    "gas": 8,
    "hepmass": 21,
    "miniboone": 43,
    "bsds300": 63,
    "2d": 2,
    "mnist": 784,
}
CIFAR = 3 * 32 * 32


def features(target: Target) -> int:
    """The entries of an event."""
    data = target.component.removesuffix("-density").rpartition("-")[2]
    return FEATURES.get(data, CIFAR)


def parameters(target: Target) -> int:
    """The numbers that are trained."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        obj = registry.find_component(target).build()
    # A distribution of Pyro's holds its transforms in a list.
    holders: list[Any] = [obj] if hasattr(obj, "parameters") else list(obj.transforms)
    return sum(
        math.prod(one.shape)
        for holder in holders
        if hasattr(holder, "parameters")
        for one in holder.parameters()
    )
