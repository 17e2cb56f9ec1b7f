"""Results of torch calls as numpy arrays and numbers, which can be stored and compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from flowref.model import Array, Mapped
from flowref.model.call import PAIRED


def array(value: Any) -> Any:
    """Converts a tensor to a numpy array; returns Python numbers unchanged. The array is a plain
    one, even while the called code gets arrays that round, since laws compute with it.
    """
    if isinstance(value, torch.Tensor):
        if (
            value.dtype == torch.bfloat16
        ):  # numpy has no bfloat16, and float32 holds all of its numbers
            value = value.float()
        return torch._C.TensorBase.numpy(value.detach().cpu()).copy()
    return value


def as_tensors(arrays: Iterable[Array | None], dtype: torch.dtype) -> list[Any]:
    """Arrays as tensors of a dtype; None stays None."""
    return [None if one is None else torch.from_numpy(one).to(dtype) for one in arrays]


def as_mapped(name: str, out: Any) -> Mapped:
    """Converts the result of a call to a `Mapped`."""
    if name in PAIRED:
        value, ladj = out
        return Mapped(array(value), array(ladj))
    if isinstance(out, (tuple, list)):
        return Mapped(np.array([float(part) for part in out if part is not None]), None)
    return Mapped(array(out), None)


def key_of(array: Array | None) -> tuple[Any, ...]:
    """A hashable key of an array: dtype, shape and bytes; () for None."""
    return () if array is None else (array.dtype, array.shape, array.tobytes())
