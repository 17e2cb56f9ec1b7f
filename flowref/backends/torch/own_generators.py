"""Random generators held by an object: their states are part of the random state of its calls."""

from __future__ import annotations

import contextlib
import random
import weakref
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.reach import reached

GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
# Global generators; numpy's and Python's have no public name. Copies share them.
GLOBAL = {id(one): one for one in (torch.default_generator, np.random.mtrand._rand, random._inst)}
# Generators of known objects, if these are weakly referable.
_FOUND: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def seed_own(obj: Any, seed: int) -> None:
    """Seed the generators of an object."""
    for number, one in enumerate(private_generators(obj)):
        start = (seed + number) % 2**32
        if isinstance(one, torch.Generator):
            one.manual_seed(start)
        elif isinstance(one, np.random.Generator):
            one.bit_generator.state = type(one.bit_generator)(start).state
        else:
            one.seed(start)


def private_generators(obj: Any) -> list[Any]:
    """The generators reachable from an object, global ones included: a user's deep copy has its
    own in their place, in the same state.
    """
    with contextlib.suppress(KeyError, TypeError):  # unknown, or not weakly referable
        return _FOUND[obj]
    found = [item for _, item in reached(obj) if isinstance(item, GENERATORS)]
    with contextlib.suppress(TypeError):
        _FOUND[obj] = found
    return found
