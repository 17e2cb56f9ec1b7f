"""Keeping the process as it was, as far as that is JAX's too: 64-bit types for the length of a call
and in this thread, and settings that foreign code could change.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import jax

from flowref.backends import process

# What JAX makes of tracebacks: it asks the file system of each frame, which takes far longer than a call
# that raises does. What is read of them here passes over frames of libraries.
FILTERING = "jax_traceback_filtering"
# Settings that decide results, and this one.
SETTINGS = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_debug_nans", "jax_disable_jit",
    "jax_numpy_dtype_promotion", "jax_default_prng_impl", "jax_threefry_partitionable",
    FILTERING,
)  # fmt: skip


def x64_types(on: bool) -> AbstractContextManager[Any]:
    """64-bit types, or none; before JAX 0.8 an experiment."""
    if hasattr(jax, "enable_x64"):
        context: AbstractContextManager[Any] = jax.enable_x64(on)
        return context
    experimental = importlib.import_module("jax.experimental")
    context = experimental.enable_x64(on)
    return context


def jax_settings() -> dict[str, Any]:
    """The process-wide settings that foreign code could change; not what a `with` has set."""
    held: dict[str, Any] = jax.config.values
    return {name: held[name] for name in SETTINGS if name in held}


@contextlib.contextmanager
def jax_sandbox(seed: int, dtype: str | None = None) -> Iterator[io.StringIO]:
    """Run foreign code with 64-bit types where the dtype is float64, and without where it is float32;
    yields what it printed.
    """
    before = jax_settings()
    jax.config.update(FILTERING, "off")
    with process.quarantine(seed) as printed, contextlib.ExitStack() as stack:
        if dtype is not None:
            stack.enter_context(x64_types(dtype == "float64"))
        try:
            yield printed
        except Exception as error:
            if said := said_inside(error):
                raise RuntimeError(said) from error
            raise
        finally:
            for name, value in jax_settings().items():
                if value != before[name]:
                    jax.config.update(name, before[name])


def said_inside(error: Exception) -> str:
    """What was raised inside a compiled program, as checks of `equinox.error_if` are, without the
    traceback that XLA puts before it; empty for other errors.
    """
    text = str(error)
    found = re.search(r"^\w*(?:Error|Exception): (.+)$", text, re.MULTILINE)
    return found[1].strip() if found and "callback" in text and "Traceback" in text else ""
