"""Controls: the same code against itself, which must read 1, and the version of torch that really
ran.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _cases
from ._grid import DEVICES, skipped
from ._timing import device_ratios

COMPONENTS = {
    "batch_norm": ("batch_norm", "forward_backward", "torch"),
    "coupling": ("coupling", "forward", "flowref"),
    "vector_flow": ("vector_flow", "training_step", "flowref"),
}


class SameAgainstItself:
    """Two builds of one case in turns: what the spread of all ratios here is worth."""

    version = "1"
    unit = "ratio"
    params = (list(COMPONENTS), ["medium"], list(DEVICES))
    param_names = ("case", "size", "device")
    skip_params = tuple(
        (name, *rest)
        for name, (_, _, impl) in COMPONENTS.items()
        for _, *rest in skipped([impl], ["medium"], needs="Flow")
    )

    def track_ratio(self, case: str, size: str, device: str) -> dict[str, Any]:
        """The time over itself."""
        component, op, impl = COMPONENTS[case]
        build: Any = _cases.COMPONENTS[component]
        first, second = build(impl, op, size, device), build.__wrapped__(impl, op, size, device)
        return {"samples": device_ratios(first.call, second.call, device), "number": 1}


def track_torch_version() -> float:
    """The version of torch that ran: 2.013 for 2.13."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major) + int(minor) / 1000


vars(track_torch_version).update(version="1", unit="version")  # asv reads them off the function
