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
# Those of the whole process, of which numpy's and Python's have no public name. Copies share them.
GLOBAL = {id(one): one for one in (torch.default_generator, np.random.mtrand._rand, random._inst)}
# Those of objects that were asked, where objects can be remembered.
_FOUND: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def seed_own(obj: Any, seed: int) -> None:
    """Set the generators of an object to a state."""
    for number, one in enumerate(private_generators(obj)):
        start = (seed + number) % 2**32
        if isinstance(one, torch.Generator):
            one.manual_seed(start)
        elif isinstance(one, np.random.Generator):
            one.bit_generator.state = type(one.bit_generator)(start).state
        else:
            one.seed(start)


def private_generators(obj: Any) -> list[Any]:
    """The generators that an object reaches. One of `GLOBAL` is among them: copies that a user makes have one of
    their own in its place, which starts where it does.
    """
    with contextlib.suppress(KeyError, TypeError):  # it is new, or cannot be remembered
        return _FOUND[obj]
    found = [item for _, item in reached(obj) if isinstance(item, GENERATORS)]
    with contextlib.suppress(TypeError):
        _FOUND[obj] = found
    return found
