"""Float32 numbers in a float64 computation.

A constant that was rounded to float32 before stands for every real number that rounds to it: a
tensor that a file makes when it is imported, a buffer of an object that was built before it was
cast. Code that uses it everywhere computes another, correct map; code that combines it with results
computed from it, or with the exact number, has its rounding as an error, which is not a bug of the
code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.state import tensors
from flowref.model import Array

# The roundoff of float32, and its ratio to that of float64.
SINGLE, FINER = 2.0**-24, 2.0**29
# Numbers with at most 12 binary digits after the point are exact: masks, counts, halves.
SHORT = 2.0**12
_ODD, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def unrounded_guess(array: Any, magnitude: float, seed: int) -> Array:
    """A float32 array with a relative perturbation of each entry of up to ``magnitude``, in
    float64. The perturbation is a function of the seed and of the number, so it is the same
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
    """The tensors of an object that require no gradient. Trained ones have no values computed in
    advance from them.
    """
    return [tensor for tensor in tensors(obj) if not tensor.requires_grad]


def rounded_before(held: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The float64 tensors with an entry that was rounded to float32."""
    return [
        tensor
        for tensor in held
        if tensor.dtype == torch.float64
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and _holds_float32(tensor.numpy()).any()
    ]


@contextlib.contextmanager
def standing_for(held: Iterable[torch.Tensor], magnitude: float, seed: int) -> Iterator[None]:
    """Inside, entries of float64 tensors that were rounded to float32 are perturbed within that
    rounding; unless overwritten, the tensors are restored.
    """
    changed = []
    for tensor in rounded_before(held):
        array = tensor.numpy()
        before = array.copy()
        stands = unrounded_guess(array.astype(np.float32), magnitude, seed)
        array[...] = np.where(_holds_float32(array), stands, array)
        changed.append((array, before, array.copy()))
    yield
    for array, before, given in changed:
        if np.array_equal(array, given, equal_nan=True):
            array[...] = before


def _holds_float32(array: Any) -> Array:
    """Which entries of a float64 array are float32 numbers, without short ones."""
    with np.errstate(all="ignore"):
        return np.asarray((array.astype(np.float32) == array) & ~_has_few_bits(array))


def _has_few_bits(array: Any) -> Array:
    return np.asarray(np.trunc(array * SHORT) == array * SHORT)
