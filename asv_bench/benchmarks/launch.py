"""What the host spends to give a GPU its work, apart from the work itself: microseconds per call;
n/a without a GPU.
"""

from __future__ import annotations

from typing import Any

from . import _cases
from ._grid import DEVICES, IMPLS, SIZES, on_the_cpu, skipped
from ._timing import launch_samples


def launched(component: str, op: str, impl: str, size: str, device: str) -> dict[str, Any]:
    """The host's time, without waiting."""
    call = _cases.case(component, op, impl, size, device).call
    return {"samples": [1e6 * value for value in launch_samples(call)], "number": 1}


class Launch:
    """The host's part of a call."""

    version = "1"
    unit = "us"
    params = (list(IMPLS), list(SIZES), list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = (*skipped(*params), *on_the_cpu(*params[:2]))

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density of a flow of vectors."""
        return launched("vector_flow", "log_prob", impl, size, device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """A training step of a flow of vectors."""
        return launched("vector_flow", "training_step", impl, size, device)
