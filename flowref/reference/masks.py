"""Masks of coupling layers: True where an entry is kept, False where it is transformed."""

from __future__ import annotations

import torch
from torch import Tensor


def alternating_mask(features: int, parity: int = 0) -> Tensor:
    """Alternating entries, `(features,)`: kept where index + parity is even; for vectors."""
    _check(features, "features")
    return (torch.arange(features) + parity) % 2 == 0


def channel_mask(channels: int, parity: int = 0) -> Tensor:
    """One half of the channels, `(channels,)`: the first is kept at parity 0, the second at parity
    1.

    Raises: `ValueError` for an odd number of channels.
    """
    _check(channels, "channels")
    if channels % 2:
        raise ValueError(f"got {channels} channels; expected an even number, to be halved")
    return (torch.arange(channels) < channels // 2) == (parity % 2 == 0)


def checkerboard_mask(height: int, width: int, parity: int = 0) -> Tensor:
    """One color of a checkerboard, `(height, width)`, for all channels: kept where i + j + parity
    is even.
    """
    _check(height * width, "positions")
    return (torch.arange(height)[:, None] + torch.arange(width) + parity) % 2 == 0


def _check(entries: int, what: str) -> None:
    if entries < 2:
        raise ValueError(
            f"got {entries} {what}; expected two at least, one to keep and one to transform"
        )
