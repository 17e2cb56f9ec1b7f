"""Keeping the process as it was: random states, default dtype, gradient mode, output and warnings
around foreign code.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch


def settings() -> dict[str, Any]:
    """The process-wide settings that foreign code could change."""
    return {
        "torch default dtype": torch.get_default_dtype(),
        "torch gradient mode": torch.is_grad_enabled(),
        "torch threads": torch.get_num_threads(),
        "torch anomaly detection": torch.is_anomaly_enabled(),
        "torch deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "numpy error state": tuple(sorted(np.geterr().items())),
        "working directory": os.getcwd(),
        "recursion limit": sys.getrecursionlimit(),
    }


def restore(before: dict[str, Any]) -> None:
    """Put back the settings that changed (some setters are slow, so only those)."""
    now = settings()
    for name, value in before.items():
        if now[name] != value:
            SETTERS[name](value)


SETTERS: dict[str, Callable[[Any], Any]] = {
    "torch default dtype": torch.set_default_dtype,
    "torch gradient mode": torch.set_grad_enabled,
    "torch threads": torch.set_num_threads,
    "torch anomaly detection": torch.autograd.set_detect_anomaly,
    "torch deterministic algorithms": torch.use_deterministic_algorithms,
    "numpy error state": lambda value: np.seterr(**dict(value)),
    "working directory": os.chdir,
    "recursion limit": sys.setrecursionlimit,
}


GENERATORS = ("torch", "numpy", "random")


def random_state() -> tuple[Any, ...]:
    """A comparable fingerprint of the global random state of each generator."""
    name, keys, *rest = np.random.get_state(legacy=True)
    numbers = name, np.asarray(keys).tobytes(), *rest
    return torch.get_rng_state().numpy().tobytes(), numbers, random.getstate()


@contextlib.contextmanager
def sandbox(seed: int, dtype: torch.dtype | None = None) -> Iterator[io.StringIO]:
    """Run foreign code with fixed random states, then restore everything; yields what it printed.

    Gradients are enabled, and warnings are silenced: they speak of the audited code and not of
    flowref.
    """
    before = settings()
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    printed = io.StringIO()
    try:
        torch.default_generator.manual_seed(
            seed
        )  # torch.manual_seed also queues for CUDA, with a stack trace each time
        np.random.seed(seed % 2**32)
        random.seed(seed)
        if dtype is not None:
            torch.set_default_dtype(dtype)
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            torch.enable_grad(),
        ):
            warnings.simplefilter("ignore")
            yield printed
    finally:
        restore(before)
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
