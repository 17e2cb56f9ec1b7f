"""One affine coupling beside six libraries at the same weights: microseconds per row."""

from __future__ import annotations

from typing import Any

from . import _cases
from ._cases import microseconds
from ._grid import DEVICES, IMPLS, SIZES, skipped


class Coupling:
    """An affine coupling of vectors, without gradients."""

    version = "1"
    unit = "us per sample"
    params = (list(IMPLS), list(SIZES), list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params)

    def track_forward(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Data to latents, the value alone where the library offers that."""
        return microseconds(_cases.coupling(impl, "forward", size, device), device)

    def track_inverse(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Latents to data."""
        return microseconds(_cases.coupling(impl, "inverse", size, device), device)

    def track_log_det(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Data to latents with the log-determinant."""
        return microseconds(_cases.coupling(impl, "log_det", size, device), device)
