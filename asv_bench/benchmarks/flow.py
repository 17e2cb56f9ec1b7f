"""Whole flows: of vectors and images beside the libraries at the same weights, and the multi-scale
model of images.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from . import _cases
from ._cases import microseconds
from ._grid import DEVICES, IMPLS, REFERENCE, SIZES, skipped


class VectorFlow:
    """Affine couplings of vectors in a row over a standard normal."""

    version = "1"
    unit = "us per sample"
    params = (list(IMPLS), list(SIZES), list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params)

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density, without gradients."""
        return microseconds(_cases.vector_flow(impl, "log_prob", size, device), device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling, without gradients."""
        return microseconds(_cases.vector_flow(impl, "sample", size, device), device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return microseconds(_cases.vector_flow(impl, "training_step", size, device), device)


class ImageFlow:
    """Affine couplings of images by channels, with convolutions in the conditioners; not all
    libraries have them.
    """

    version = "1"
    unit = "us per sample"
    params = (list(IMPLS), list(SIZES), list(DEVICES))
    param_names = ("impl", "size", "device")
    # Compiling the large one takes minutes.
    skip_params = (
        *skipped(*params, images=True),
        *product(["flowref-compiled"], ["large"], DEVICES),
    )

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density, without gradients."""
        return microseconds(_cases.image_flow(impl, "log_prob", size, device), device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling, without gradients."""
        return microseconds(_cases.image_flow(impl, "sample", size, device), device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return microseconds(_cases.image_flow(impl, "training_step", size, device), device)


class MultiScale:
    """The multi-scale Real NVP of images, which has no counterpart elsewhere at the same weights."""

    version = "1"
    unit = "us per sample"
    params = (list(REFERENCE), list(SIZES), list(DEVICES))
    param_names = ("impl", "size", "device")
    # Compiling the larger ones takes minutes.
    skip_params = (
        *skipped(*params, needs="RealNVP"),
        *product(["flowref-compiled"], ["medium", "large"], DEVICES),
    )

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density in eval mode, without gradients."""
        return microseconds(_cases.multi_scale(impl, "log_prob", size, device), device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling in eval mode, without gradients."""
        return microseconds(_cases.multi_scale(impl, "sample", size, device), device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss in train mode, gradients, and a step of Adam."""
        return microseconds(_cases.multi_scale(impl, "training_step", size, device), device)
