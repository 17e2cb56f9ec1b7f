"""The reference's time over that of each peer, in turns within one process: below 1 the reference
is the faster one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _cases
from ._families import FAMILIES
from ._grid import DEVICES, skipped
from ._peers import PEERS
from ._timing import device_ratios

SIZES = ("small", "medium")


def ratios(component: str, op: str, impl: str, size: str, device: str) -> dict[str, Any]:
    """Pair by pair, with the order swapped."""
    ours = _cases.case(component, op, "flowref", size, device).call
    theirs = _cases.case(component, op, impl, size, device).call
    return {"samples": device_ratios(ours, theirs, device), "number": 1}


def grid(impls: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """The parameters, in the order that all benchmarks have."""
    return list(impls), list(SIZES), list(DEVICES)


class BatchNormOver:
    """Over nn.BatchNorm2d; the compiled reference over the same tells what is left of it."""

    version = "1"
    unit = "ratio"
    params = grid(["torch"])
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params, needs="BatchNorm")

    def track_forward(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """In train mode, without gradients."""
        return ratios("batch_norm", "forward", impl, size, device)

    def track_forward_backward(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """In train mode, with gradients."""
        return ratios("batch_norm", "forward_backward", impl, size, device)

    def track_eval(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """In eval mode."""
        return ratios("batch_norm", "eval", impl, size, device)


class VectorFlowOver:
    """Flows of vectors over those of the libraries."""

    version = "1"
    unit = "ratio"
    params = grid(list(PEERS))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params)

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density."""
        return ratios("vector_flow", "log_prob", impl, size, device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling."""
        return ratios("vector_flow", "sample", impl, size, device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return ratios("vector_flow", "training_step", impl, size, device)


class ImageFlowOver:
    """Flows of images over those of the libraries that have them."""

    version = "1"
    unit = "ratio"
    params = grid(list(PEERS))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params, images=True)

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density."""
        return ratios("image_flow", "log_prob", impl, size, device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return ratios("image_flow", "training_step", impl, size, device)


class FamilyOver:
    """What the flows of a family share."""

    version = "1"
    unit = "ratio"
    param_names = ("impl", "size", "device")
    kind = ""

    def over(self, op: str, impl: str, size: str, device: str) -> dict[str, Any]:
        """Pair by pair."""
        return ratios(self.kind, op, impl, size, device)


class SplineOver(FamilyOver):
    """Spline couplings over those of the libraries."""

    kind = "spline"
    params = grid(list(FAMILIES["spline"][1]))
    skip_params = skipped(*params, needs="SplineCoupling")

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density."""
        return self.over("log_prob", impl, size, device)


class MaskedAutoregressiveOver(FamilyOver):
    """Masked autoregressive flows over those of the libraries."""

    kind = "maf"
    params = grid(list(FAMILIES["maf"][1]))
    skip_params = skipped(*params, needs="MaskedAutoregressive")

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density."""
        return self.over("log_prob", impl, size, device)


class ResidualOver(FamilyOver):
    """Residual flows over that of normflows."""

    kind = "residual"
    params = grid(list(FAMILIES["residual"][1]))
    skip_params = skipped(*params, needs="Residual")

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The estimated log-density."""
        return self.over("log_prob", impl, size, device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return self.over("training_step", impl, size, device)


class ContinuousOver(FamilyOver):
    """Continuous flows over those of zuko and torchflows, at equal accuracy."""

    kind = "continuous"
    params = grid(["zuko", "torchflows"])
    skip_params = skipped(*params, needs="CNF")

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density."""
        return self.over("log_prob", impl, size, device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling."""
        return self.over("sample", impl, size, device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return self.over("training_step", impl, size, device)
