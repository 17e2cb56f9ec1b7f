"""Isolation of foreign code in the process, for JAX: 64-bit types inside a call and in this
thread, and settings that foreign code could change.
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

# JAX filters tracebacks by asking the file system about each frame, which takes far longer than a
# failing call. Frames of libraries are skipped when tracebacks are read here.
FILTERING = "jax_traceback_filtering"
# Settings that affect results, and this one.
SETTINGS = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_debug_nans", "jax_disable_jit",
    "jax_numpy_dtype_promotion", "jax_default_prng_impl", "jax_threefry_partitionable",
    FILTERING,
)  # fmt: skip


def x64_types(on: bool) -> AbstractContextManager[Any]:
    """Enables or disables 64-bit types; experimental before JAX 0.8."""
    if hasattr(jax, "enable_x64"):
        context: AbstractContextManager[Any] = jax.enable_x64(on)
        return context
    experimental = importlib.import_module("jax.experimental")
    context = experimental.enable_x64(on)
    return context


def jax_settings() -> dict[str, Any]:
    """The process-wide settings that foreign code could change, without those of an enclosing
    `with`.
    """
    held: dict[str, Any] = jax.config.values
    return {name: held[name] for name in SETTINGS if name in held}


@contextlib.contextmanager
def jax_sandbox(seed: int, dtype: str | None = None) -> Iterator[io.StringIO]:
    """Run foreign code with 64-bit types enabled for float64, and disabled for float32; yields its
    printed output.
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
    """The message of an exception raised inside a compiled program, such as a check of
    `equinox.error_if`, without XLA's traceback; "" for other errors.
    """
    text = str(error)
    found = re.search(r"^\w*(?:Error|Exception): (.+)$", text, re.MULTILINE)
    return found[1].strip() if found and "callback" in text and "Traceback" in text else ""
