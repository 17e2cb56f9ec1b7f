"""Points of a simplex in coordinates that fill a set of positive volume."""

from __future__ import annotations

from typing import Any

# How near to one the entries of a point of a simplex add up.
NEAR = 1e-4


def without_last(y: Any) -> Any:
    """All entries but the last; moved by what their sum lacks, so that a last entry that is wrong is seen
    in the others.
    """
    import torch

    lacking = 1 - y.sum(-1, keepdim=True)
    return y[..., :-1] + torch.where(lacking.abs() > NEAR, lacking, torch.zeros_like(lacking))
