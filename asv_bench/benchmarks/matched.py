"""Likelihoods of flow matching and diffusion in the reference, beside those of a continuous flow along the same
network: one field of a continuous flow, one velocity on straight lines, one predictor of noise.
"""

from __future__ import annotations

from typing import Any

from ._cases import microseconds

KINDS = ["continuous", "matching", "diffusion"]


class Matched:
    """Log-densities and samples to a tolerance of 1e-4, with exact divergences, by the reference's solver."""

    version = "1"
    unit = "us per sample"
    params = (KINDS, ["small", "medium"], ["cpu"])
    param_names = ("kind", "size", "device")

    def track_log_prob(self, kind: str, size: str, device: str) -> dict[str, Any]:
        """The log-density, without gradients."""
        # Here, since the module's libraries are loaded when a figure is taken.
        from ._matched import matched

        return microseconds(matched(kind, "log_prob", size), device)

    def track_sample(self, kind: str, size: str, device: str) -> dict[str, Any]:
        """Sampling, without gradients."""
        from ._matched import matched

        return microseconds(matched(kind, "sample", size), device)
