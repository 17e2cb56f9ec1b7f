"""Counts that every run repeats exactly, and the memory of an audit.

Operators dispatched, bytes allocated and bytes kept for backward depend on the code and on the
version of torch alone: these are what continuous integration compares with `counts.json` (see
`tools/gate.py`).
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

from . import _cases, _counts
from ._grid import DEVICES, IMPLS, REFERENCE, on_the_cpu, skipped

EAGER = ["flowref", *(name for name in IMPLS if name not in REFERENCE)]
SIZES = ["small", "medium"]


def call_of(component: str, op: str, impl: str, size: str, device: str) -> Callable[[], Any]:
    """One call of a case, always with its first input."""
    case = _cases.case(component, op, impl, size, device)
    return lambda: case.run(case.inputs[0])


class BatchNormCounts:
    """Forward and backward in train mode."""

    version = "1"
    params = (["torch", "flowref"], SIZES, list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params, needs="BatchNorm")

    def track_operators(self, impl: str, size: str, device: str) -> int:
        """Operators dispatched."""
        return _counts.dispatched(
            call_of("batch_norm", "forward_backward", impl, size, device)
        ).operators

    def track_bytes_allocated(self, impl: str, size: str, device: str) -> int:
        """Bytes of all storages made."""
        return _counts.dispatched(
            call_of("batch_norm", "forward_backward", impl, size, device)
        ).bytes

    def track_bytes_saved(self, impl: str, size: str, device: str) -> int:
        """Bytes kept for backward."""
        return _counts.saved_bytes(call_of("batch_norm", "forward_backward", impl, size, device))


class CouplingCounts:
    """One coupling forward with its log-det."""

    version = "1"
    params = (EAGER, SIZES, list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params)

    def track_operators(self, impl: str, size: str, device: str) -> int:
        """Operators dispatched."""
        return _counts.dispatched(call_of("coupling", "log_det", impl, size, device)).operators

    def track_bytes_allocated(self, impl: str, size: str, device: str) -> int:
        """Bytes of all storages made."""
        return _counts.dispatched(call_of("coupling", "log_det", impl, size, device)).bytes


class TrainingCounts:
    """One training step of a flow of vectors."""

    version = "1"
    params = (EAGER, SIZES, list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params)

    def track_operators(self, impl: str, size: str, device: str) -> int:
        """Operators dispatched, those of the optimiser among them."""
        return _counts.dispatched(
            call_of("vector_flow", "training_step", impl, size, device)
        ).operators

    def track_bytes_allocated(self, impl: str, size: str, device: str) -> int:
        """Bytes of all storages made."""
        return _counts.dispatched(call_of("vector_flow", "training_step", impl, size, device)).bytes

    def track_bytes_saved(self, impl: str, size: str, device: str) -> int:
        """Bytes kept for backward."""
        return _counts.saved_bytes(call_of("vector_flow", "training_step", impl, size, device))


class Device:
    """What only a GPU tells, for a training step of a flow of vectors; n/a without one."""

    version = "1"
    params = (["flowref", "flowref-compiled", *EAGER[1:]], SIZES, list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = (*skipped(*params), *on_the_cpu(*params[:2]))

    def track_kernels(self, impl: str, size: str, device: str) -> int:
        """Kernels launched."""
        return _counts.kernels(call_of("vector_flow", "training_step", impl, size, device))

    def track_peak_bytes(self, impl: str, size: str, device: str) -> int:
        """The most bytes held beyond the weights."""
        return _counts.peak_bytes(call_of("vector_flow", "training_step", impl, size, device))


for _class in (BatchNormCounts, CouplingCounts, TrainingCounts, Device):
    for _name in dir(_class):
        if _name.startswith("track_"):
            getattr(_class, _name).unit = "bytes" if "bytes" in _name else "calls"


def track_audit_resident() -> float:
    """The most memory that this process held after all laws on one target, in MiB; torch alone
    takes some 200.
    """
    from .audit import audited

    audited("nflows:AffineCouplingTransform")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


vars(track_audit_resident).update(version="1", unit="MiB")  # asv reads them off the function
