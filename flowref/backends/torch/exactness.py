"""Where a floating-point operation is exact: products with powers of two, sums with zero, sums of
integers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.operators import PRODUCTS, SUMS

_memory = torch._C.TensorBase.numpy
# Mantissas, in [1/2, 1), of powers of two and of zero.
POWERS = (0.5, -0.5, 0.0)


def exact_where(name: str, args: tuple[Any, ...], out: Any) -> Any:
    """A mask of where the operation is exact: None if nowhere, True everywhere."""
    if name == "sum":
        whole = isinstance(args[0], torch.Tensor) and args[0].shape == out.shape
        return True if whole and out.size else None
    if len(args) < 2:
        return None
    if name in SUMS:
        first, second = operand(args[0]), operand(args[1])
        # A sum of integers is an integer: if no result is one, operands need no check.
        if np.count_nonzero(np.trunc(out) == out):
            whole = (np.trunc(first) == first) & (np.trunc(second) == second)
            return (first == 0) | (second == 0) | whole & (np.abs(out) < 2.0**24)
        zeros = [one == 0 for one in (first, second) if np.count_nonzero(one) < one.size]
        return None if not zeros else zeros[0] if len(zeros) == 1 else zeros[0] | zeros[1]
    operands = args[:2] if name in PRODUCTS else args[1:2]
    masks: list[Any] = []
    for one in operands:
        if isinstance(one, torch.Tensor):
            mask = power_of_two(operand(one))
            if np.count_nonzero(mask):
                masks.append(mask)
        elif math.frexp(float(one))[0] in POWERS:
            return True
    return None if not masks else masks[0] if len(masks) == 1 else masks[0] | masks[1]


def operand(value: Any) -> Any:
    """A number or tensor as an array."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(float(value))
    return (
        array_of(value)
        if value.device.type == "cpu" and value.dtype != torch.bfloat16
        else np.asarray(value.tolist())
    )


def power_of_two(value: Any) -> Any:
    """A mask of powers of two, and of 0, with which products are exact too."""
    if value.dtype == np.float64:
        return value.view(np.int64) & 0xFFFFFFFFFFFFF == 0
    if value.dtype == np.float32:
        return value.view(np.int32) & 0x7FFFFF == 0
    return np.zeros((), dtype=bool)


def array_of(value: torch.Tensor) -> Any:
    """A tensor's memory as an array: numpy is several times faster on small tensors."""
    return _memory(value.detach() if value.requires_grad else value)
