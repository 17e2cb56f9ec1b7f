"""The batch normalizers of torch.nn, in every rank and with every option of their constructors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flowref.model import Shape

# Rank of the layer -> shape of its events.
EVENTS: dict[int, Shape] = {1: (3,), 2: (3, 2, 2), 3: (2, 2, 1, 2)}
OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "[affine=False]": {"affine": False},
    "[momentum=None]": {"momentum": None},
    "[track_running_stats=False]": {"track_running_stats": False},
    "[eps=1e-2,momentum=0.5]": {"eps": 1e-2, "momentum": 0.5},
}


def constructions() -> dict[str, tuple[Callable[..., Any], Shape | None]]:
    """Every rank as it is, sequences for the first, and the options on images."""
    found: dict[str, tuple[Callable[..., Any], Shape | None]] = {}
    for rank, shape in EVENTS.items():
        for suffix, options in OPTIONS.items():
            if rank == 2 or not suffix:
                found[f"BatchNorm{rank}d{suffix}"] = (
                    partial(_build, rank, shape[0], options),
                    shape,
                )
    found["BatchNorm1d[sequence]"] = (partial(_build, 1, 3, {}), (3, 4))
    return found


def _build(rank: int, channels: int, options: dict[str, Any]) -> Any:
    import torch

    kinds: dict[int, Callable[..., Any]] = {
        1: torch.nn.BatchNorm1d,
        2: torch.nn.BatchNorm2d,
        3: torch.nn.BatchNorm3d,
    }
    return kinds[rank](channels, **options)
