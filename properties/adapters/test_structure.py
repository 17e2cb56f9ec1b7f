"""Structure is read off a library's own classes, entry by entry."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from flowref.adapters.common.structure import on_axis, own_class, repeated_mask


@pytest.mark.parametrize(("shape", "axis"), [((4,), 0), ((3, 2, 2), 0), ((2, 3, 4), 2)])
def test_a_mask_on_an_axis_covers_the_flattened_event(shape: tuple[int, ...], axis: int) -> None:
    """The mask of indices along an axis is that of numpy, flattened."""
    kept = [0, shape[axis] - 1]
    mask = np.zeros(shape)
    np.moveaxis(mask, axis, 0)[kept] = 1
    assert on_axis(shape, kept, axis) == tuple(mask.ravel())
    last = torch.from_numpy(mask[0] if len(shape) > 1 else mask)
    assert repeated_mask(last, shape) == tuple(np.broadcast_to(last.numpy(), shape).ravel())
    assert len(repeated_mask(last, shape)) == math.prod(shape)


def test_a_class_of_the_users_is_not_the_librarys() -> None:
    """A subclass may do anything, so that only a library's own classes have structure by name."""

    class Linear(torch.nn.Linear):
        pass

    assert own_class(torch.nn.Linear(1, 1), "torch") == "Linear"
    assert own_class(Linear(1, 1), "torch") == ""
