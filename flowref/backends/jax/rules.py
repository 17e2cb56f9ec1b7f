"""Custom derivative rules (`jax.custom_jvp`, `jax.custom_vjp`) of the audited code, excluding
those of libraries.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from jax.extend.core import ClosedJaxpr, Jaxpr

from flowref.backends.jax.operation_count import equations, programs_of

RULED = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib", "stdlib")
)


def has_rule_of_its_own(program: ClosedJaxpr) -> bool:
    """Whether a program, or one that it calls, has a derivative rule outside of libraries."""
    return any(
        _written_here(one.jaxpr if isinstance(one, ClosedJaxpr) else one)
        for equation in equations(program)
        if equation.primitive.name in RULED
        for value in equation.params.values()
        for one in programs_of(value)
    )


def _written_here(jaxpr: Jaxpr) -> bool:
    """Whether a function is outside of libraries, according to its debug information: "solve at
    /home/me/flow.py:27".
    """
    said = getattr(getattr(jaxpr, "debug_info", None), "func_src_info", None) or ""
    place = said.rpartition(" at ")[2].rpartition(":")[0]
    return bool(place) and not str(Path(place).resolve()).startswith(LIBRARIES)
