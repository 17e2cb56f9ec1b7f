"""Generators that an object holds: their states are part of the random state in which it is called."""

from __future__ import annotations

import contextlib
import random
import weakref
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.reach import reached

GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
# Those of objects that were asked, where objects can be remembered.
_FOUND: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def seed_own(obj: Any, seed: int) -> None:
    """Set the generators of an object to a state."""
    for number, one in enumerate(own(obj)):
        start = (seed + number) % 2**32
        if isinstance(one, torch.Generator):
            one.manual_seed(start)
        elif isinstance(one, np.random.Generator):
            one.bit_generator.state = type(one.bit_generator)(start).state
        else:
            one.seed(start)


def own(obj: Any) -> list[Any]:
    """The generators that an object reaches, and that are not those of everybody."""
    with contextlib.suppress(KeyError, TypeError):  # it is new, or cannot be remembered
        return _FOUND[obj]
    everybody = {
        id(torch.default_generator),
        id(np.random.mtrand._rand),
        id(random._inst),
    }  # neither has a public name
    found = [
        item
        for _, item in reached(obj)
        if isinstance(item, GENERATORS) and id(item) not in everybody
    ]
    with contextlib.suppress(TypeError):
        _FOUND[obj] = found
    return found
