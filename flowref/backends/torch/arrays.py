"""Tensors and arrays: what a library returned, as plain values that can be kept and compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from flowref.model import Array, Mapped
from flowref.model.call import PAIRED


def array(value: Any) -> Any:
    """A tensor as an array; Python numbers stay what they are. It is plain even where the code that
    is called gets arrays that round, since it goes to the laws.
    """
    if isinstance(value, torch.Tensor):
        if (
            value.dtype == torch.bfloat16
        ):  # numpy has no such numbers, and single precision has all of them
            value = value.float()
        return torch._C.TensorBase.numpy(value.detach().cpu()).copy()
    return value


def as_tensors(arrays: Iterable[Array | None], dtype: torch.dtype) -> list[Any]:
    """Arrays as tensors of a dtype; None stays what it is."""
    return [None if one is None else torch.from_numpy(one).to(dtype) for one in arrays]


def as_mapped(name: str, out: Any) -> Mapped:
    """The outcome of a call as plain values."""
    if name in PAIRED:
        value, ladj = out
        return Mapped(array(value), array(ladj))
    if isinstance(out, (tuple, list)):
        return Mapped(np.array([float(part) for part in out if part is not None]), None)
    return Mapped(array(out), None)


def key_of(array: Array | None) -> tuple[Any, ...]:
    """What tells an array from others."""
    return () if array is None else (array.dtype, array.shape, array.tobytes())
