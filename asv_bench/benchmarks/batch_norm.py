"""The reference BatchNorm beside nn.BatchNorm2d: microseconds per image."""

from __future__ import annotations

from typing import Any

from . import _cases
from ._cases import microseconds
from ._grid import DEVICES, REFERENCE, SIZES, skipped


class BatchNorm:
    """Forward and forward with backward in train mode, and eval mode."""

    version = "1"
    unit = "us per sample"
    params = (["torch", *REFERENCE], list(SIZES), list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params, needs="BatchNorm")

    def track_forward(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """In train mode, without gradients."""
        return microseconds(_cases.batch_norm(impl, "forward", size, device), device)

    def track_forward_backward(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """In train mode, to the gradients of input, weight and bias."""
        return microseconds(_cases.batch_norm(impl, "forward_backward", size, device), device)

    def track_eval(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """In eval mode, without gradients."""
        return microseconds(_cases.batch_norm(impl, "eval", size, device), device)
