"""Numbers in single precision within a computation in double precision.

A constant that was rounded to single precision before stands for every real number that rounds to
it: a tensor that a file makes when it is imported, a buffer of an object that was built before it was
cast. Code that uses it everywhere computes another map, and a sound one; code that uses it beside what
was computed from it, or beside the number that was meant, is off by its rounding, which is no error
of the code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.state import tensors
from flowref.model import Array

# The roundoff of single precision, and how many times that of double precision it is.
SINGLE, FINER = 2.0**-24, 2.0**29
# A number with so few binary digits after its point is meant as it stands: masks, counts, halves.
SHORT = 2.0**12
_ODD, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def meant(array: Any, magnitude: float, seed: int) -> Array:
    """Numbers that an array in single precision may stand for: each is off by a relative error of
    up to ``magnitude``, which is a function of the seed and of the number, so that it is the same
    wherever the number is used.
    """
    bits = (np.ascontiguousarray(array).view(np.uint32) & np.uint32(0x7FFFFFFF)).astype(np.uint64)
    with np.errstate(all="ignore"):
        mixed = (bits + np.uint64(seed % 2**63)) * _ODD
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _OTHER
        mixed ^= mixed >> np.uint64(32)
        error = magnitude * (mixed / 2.0**63 - 1.0)
        moved = (array * (1.0 + error.reshape(array.shape))).astype(np.float32)
    return np.asarray(np.where(_has_few_bits(array), array, moved))


def untrained_tensors(obj: Any) -> list[torch.Tensor]:
    """The tensors of an object that no training moves. Of what training moves nothing else is
    computed beforehand.
    """
    return [tensor for tensor in tensors(obj) if not tensor.requires_grad]


def rounded_before(held: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors in double precision of which an entry was rounded to single precision."""
    return [
        tensor
        for tensor in held
        if tensor.dtype == torch.float64
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and _before(tensor.numpy()).any()
    ]


@contextlib.contextmanager
def standing_for(held: Iterable[torch.Tensor], magnitude: float, seed: int) -> Iterator[None]:
    """Give tensors in double precision what their entries may stand for that were rounded to single
    precision; afterwards those that nobody wrote to are as they were.
    """
    changed = []
    for tensor in rounded_before(held):
        array = tensor.numpy()
        before = array.copy()
        stands = meant(array.astype(np.float32), magnitude, seed)
        array[...] = np.where(_before(array), stands, array)
        changed.append((array, before, array.copy()))
    yield
    for array, before, given in changed:
        if np.array_equal(array, given, equal_nan=True):
            array[...] = before


def _before(array: Any) -> Array:
    """Where an array in double precision has numbers of single precision, and no short ones."""
    with np.errstate(all="ignore"):
        return np.asarray((array.astype(np.float32) == array) & ~_has_few_bits(array))


def _has_few_bits(array: Any) -> Array:
    return np.asarray(np.trunc(array * SHORT) == array * SHORT)
