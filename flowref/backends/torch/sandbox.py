"""Isolation of foreign code in the process, for torch: random state, default dtype, gradient mode
and other settings.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import torch

from flowref.backends import process
from flowref.backends.torch.host import host

GENERATORS = ("torch", *process.GENERATORS)
SETTERS: dict[str, Callable[[Any], Any]] = {
    "torch default dtype": torch.set_default_dtype,
    "torch gradient mode": torch.set_grad_enabled,
    "torch threads": torch.set_num_threads,
    "torch anomaly detection": torch.autograd.set_detect_anomaly,
    "torch deterministic algorithms": torch.use_deterministic_algorithms,
}


def torch_settings() -> dict[str, Any]:
    """The process-wide settings that foreign code could change, by name."""
    return {**_settings(), **process.process_settings()}


def _settings() -> dict[str, Any]:
    return {
        "torch default dtype": torch.get_default_dtype(),
        "torch gradient mode": torch.is_grad_enabled(),
        "torch threads": torch.get_num_threads(),
        "torch anomaly detection": torch.is_anomaly_enabled(),
        "torch deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
    }


def random_state() -> tuple[Any, ...]:
    """A comparable fingerprint of the global random state of each generator."""
    return torch.get_rng_state().numpy().tobytes(), *process.random_state()


def seed_torch(seed: int) -> None:
    """Seed the global generator. `torch.manual_seed` also queues a seed for CUDA, with a stack
    trace each time.
    """
    torch.default_generator.manual_seed(seed)


@contextlib.contextmanager
def torch_sandbox(seed: int, dtype: torch.dtype | None = None) -> Iterator[io.StringIO]:
    """Run foreign code with fixed random states, then restore everything; yields its printed
    output.

    Gradients are enabled, and GPUs are hidden.
    """
    before, state = _settings(), torch.get_rng_state()
    with process.quarantine(seed) as printed:
        try:
            seed_torch(seed)
            if dtype is not None:
                torch.set_default_dtype(dtype)
            with torch.enable_grad(), host():
                yield printed
        finally:
            process.restore(before, _settings(), SETTERS)
            torch.set_rng_state(state)
