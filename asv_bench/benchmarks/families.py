"""Flows beyond affine couplings beside the libraries that have them: microseconds per sample."""

from __future__ import annotations

from itertools import product
from typing import Any

from . import _cases
from ._cases import microseconds
from ._families import FAMILIES
from ._grid import DEVICES, REFERENCE, SIZES, skipped

# What compiling takes minutes for, and calls that take seconds.
DEAR = (*product(["flowref-compiled"], ["large"], DEVICES),)


def grid(kind: str) -> tuple[list[str], list[str], list[str]]:
    """The reference and the libraries that have a family."""
    return [*REFERENCE, *FAMILIES[kind][1]], list(SIZES), list(DEVICES)


class Spline:
    """Couplings of vectors by rational-quadratic splines in a row over a standard normal."""

    version = "1"
    unit = "us per sample"
    params = grid("spline")
    param_names = ("impl", "size", "device")
    skip_params = (*skipped(*params, needs="SplineCoupling"), *DEAR)

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density, without gradients."""
        return microseconds(_cases.spline(impl, "log_prob", size, device), device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling, without gradients."""
        return microseconds(_cases.spline(impl, "sample", size, device), device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return microseconds(_cases.spline(impl, "training_step", size, device), device)


class MaskedAutoregressive:
    """Masked autoregressive flows, which sample feature by feature."""

    version = "1"
    unit = "us per sample"
    params = grid("maf")
    param_names = ("impl", "size", "device")
    skip_params = (*skipped(*params, needs="MaskedAutoregressive"), *DEAR)

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density, without gradients."""
        return microseconds(_cases.maf(impl, "log_prob", size, device), device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling, without gradients."""
        return microseconds(_cases.maf(impl, "sample", size, device), device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return microseconds(_cases.maf(impl, "training_step", size, device), device)


class Residual:
    """Residual flows with estimated log-dets, in eval mode but for the training step; the large size
    takes seconds a call.
    """

    version = "1"
    unit = "us per sample"
    params = grid("residual")
    param_names = ("impl", "size", "device")
    skip_params = (
        *skipped(*params, needs="Residual"),
        *product(params[0], ["large"], DEVICES),
    )

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The estimated log-density, without gradients."""
        return microseconds(_cases.residual(impl, "log_prob", size, device), device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling by fixed points, each library with its own tolerance."""
        return microseconds(_cases.residual(impl, "sample", size, device), device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return microseconds(_cases.residual(impl, "training_step", size, device), device)
