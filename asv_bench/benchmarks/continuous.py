"""Continuous flows beside the libraries that have them: how often each evaluates its field for
log-densities that are equally exact, and the time that it takes.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from . import _cases
from ._cases import microseconds
from ._grid import DEVICES, SIZES, skipped

IMPLS = ["flowref", "zuko", "torchflows"]


class Evaluations:
    """Evaluations of the field for log-densities that are off by so many nats at most, in double
    precision, each library with the loosest tolerance that does.
    """

    version = "1"
    unit = "evaluations"
    params = (IMPLS, ["small", "medium"], ["cpu"])
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params, needs="CNF")

    def counted(self, impl: str, size: str, accuracy: float) -> int:
        """Of a log-density with the exact divergence."""
        # Here, since the module's libraries are loaded when a figure is taken.
        from ._continuous import knob

        return knob(impl, size, accuracy)[1]

    def track_thousandth(self, impl: str, size: str, device: str) -> int:
        """Off by 1e-3 nats at most."""
        return self.counted(impl, size, 1e-3)

    def track_hundred_thousandth(self, impl: str, size: str, device: str) -> int:
        """Off by 1e-5 nats at most."""
        return self.counted(impl, size, 1e-5)

    def track_ten_millionth(self, impl: str, size: str, device: str) -> int:
        """Off by 1e-7 nats at most."""
        return self.counted(impl, size, 1e-7)


class Continuous:
    """Log-densities that are off by a thousandth of a nat at most, with exact divergences, by each
    library's own solver along the same field; the large size takes seconds a call.
    """

    version = "1"
    unit = "us per sample"
    params = (IMPLS, list(SIZES), list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = (*skipped(*params, needs="CNF"), *product(IMPLS, ["large"], DEVICES))

    def track_log_prob(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """The log-density, without gradients."""
        return microseconds(_cases.continuous(impl, "log_prob", size, device), device)

    def track_sample(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Sampling, without gradients."""
        return microseconds(_cases.continuous(impl, "sample", size, device), device)

    def track_training_step(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Loss, gradients, and a step of Adam."""
        return microseconds(_cases.continuous(impl, "training_step", size, device), device)
