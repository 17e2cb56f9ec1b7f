"""Flows in JAX, compiled, at the sizes of those in torch: microseconds per sample once they are compiled,
and apart from that the seconds of the call that compiles.
"""

from __future__ import annotations

from typing import Any

from . import _jax_cases
from ._grid import SIZES, installed
from ._sizes import VECTORS
from ._timing import all_seconds, first_seconds, samples

# Compiling takes a quarter of a minute there.
DEAR = ("large",)


def grid(kind: str) -> tuple[list[str], list[str], list[str]]:
    """The libraries that have a family; on the CPU."""
    return list(_jax_cases.FLOWS[kind]), list(SIZES), ["cpu"]


def missing(kind: str, *sizes: str) -> tuple[tuple[str, str, str], ...]:
    """What is not installed, and some sizes."""
    impls, every, (device,) = grid(kind)
    return tuple(
        (impl, size, device)
        for impl in impls
        for size in every
        if size in sizes or not installed(impl)
    )


class _Flows:
    """What the flows of a family share."""

    version = "1"
    param_names = ("impl", "size", "device")
    kind = ""

    def steady(self, op: str, impl: str, size: str) -> dict[str, Any]:
        """Microseconds per sample of compiled calls."""
        call = _jax_cases.operation(self.kind, impl, op, size)
        scale = 1e6 / VECTORS[size].batch
        return {"samples": [scale * one for one in samples(call, all_seconds)], "number": 1}

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density."""
        return self.steady("log_prob", impl, size)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling."""
        return self.steady("sample", impl, size)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return self.steady("training_step", impl, size)

    def first(self, op: str, impl: str, size: str) -> float:
        """Processor seconds of the call that traces and compiles."""
        return first_seconds(_jax_cases.operation(self.kind, impl, op, size, fresh=True))

    def track_first_log_prob(self, impl: str, size: str, device: str) -> float:
        """The log-density, and compiling it."""
        return self.first("log_prob", impl, size)

    def track_first_training_step(self, impl: str, size: str, device: str) -> float:
        """A step of training, and compiling it."""
        return self.first("training_step", impl, size)

    for _steady in (track_log_prob, track_sample, track_training_step):
        vars(_steady)["unit"] = "us per sample"
    for _first in (track_first_log_prob, track_first_training_step):
        vars(_first)["unit"] = "s"


class JaxCoupling(_Flows):
    """Affine couplings in a row over a standard normal."""

    kind = "coupling"
    params = grid(kind)
    skip_params = missing(kind, *DEAR)


class JaxSpline(_Flows):
    """Couplings by rational-quadratic splines in a row over a standard normal."""

    kind = "spline"
    params = grid(kind)
    skip_params = missing(kind, *DEAR)


class JaxMaskedAutoregressive(_Flows):
    """Masked autoregressive flows; flowjax's sample entry by entry, and numpyro's tell densities so."""

    kind = "maf"
    params = grid(kind)
    skip_params = missing(kind, *DEAR)
