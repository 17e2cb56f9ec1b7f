"""Whether a primitive without a table entry rounds, found by running it on numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from flowref.backends.jax.primitives import (
    ARGUMENT,
    CALLS,
    EXACT,
    INSIDE,
    LOOPS,
    NORMWISE,
    PLAIN,
    SPECIAL,
)
from flowref.backends.rounding import ordinary_numbers, unrounded

LISTED = EXACT | INSIDE | NORMWISE | SPECIAL.keys() | ARGUMENT.keys() | PLAIN | CALLS.keys() | LOOPS


# The primitive that calls Python from a program; replicas call it one after the other.
CALLBACK = "pure_callback"


def bound(equation: Any) -> Callable[..., Any]:
    """The primitive of an equation with its parameters, as a function of its arguments."""
    primitive = equation.primitive
    ready = primitive.get_bind_params(equation.params)
    # Before JAX 0.8 together with the functions that come first among the arguments.
    first, params = ready if isinstance(ready, tuple) else ((), ready)
    if primitive.name == CALLBACK and params.get("vmap_method") is None:  # as in `equinox.error_if`
        params = {**params, "vmap_method": "sequential"}
    return partial(primitive.bind, *first, **params)


def exact(equation: Any) -> bool:
    """Whether the primitive of an equation does not round: by its table, or as observed."""
    name = equation.primitive.name
    return name in EXACT or (name not in LISTED and _copies(equation))


def rounds_arguments(equation: Any) -> bool:
    """Whether its arguments are rounded as well as its results; so are those of unknown
    primitives.
    """
    name = equation.primitive.name
    return name in INSIDE or (name not in LISTED and not _copies(equation))


def unknown(equation: Any) -> bool:
    """Whether it has floating results of which it is unknown whether they are rounded, or how."""
    floating = any(
        jnp.issubdtype(getattr(out.aval, "dtype", bool), jnp.inexact) for out in equation.outvars
    )
    known = equation.primitive.name in LISTED or called_program(equation) is not None
    return floating and not known and not _copies(equation)


def called_program(equation: Any) -> Any:
    """Returns the program that an equation calls, or None. An unlisted primitive counts as a call
    if it holds one program with the same arguments and results.
    """
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        return params.get(CALLS[name])
    held = [one for one in params.values() if isinstance(one, Jaxpr | ClosedJaxpr)]
    if name in LISTED or len(held) != 1:
        return None
    program = held[0].jaxpr if isinstance(held[0], ClosedJaxpr) else held[0]
    outside = [one.aval for one in (*equation.invars, *equation.outvars)]
    within = [one.aval for one in (*program.invars, *program.outvars)]
    return (
        held[0]
        if list(map(_shape_and_dtype, outside)) == list(map(_shape_and_dtype, within))
        else None
    )


def _shape_and_dtype(aval: Any) -> Any:
    return getattr(aval, "shape", None), str(getattr(aval, "dtype", aval))


def _copies(equation: Any) -> bool:
    generator = np.random.Generator(np.random.SFC64(1))
    try:
        given = [_random_argument(one.aval, generator) for one in equation.invars]
        run = bound(equation)
        with jax.ensure_compile_time_eval():
            found = run(*map(jnp.asarray, given))
        results = [np.asarray(one) for one in jax.tree.leaves(found)]
    except Exception:  # unknown arguments
        return False
    results = [_real(one) for one in results if one.dtype.kind in "fc"]
    numbers = [_real(one) for one in given if one.dtype.kind in "fc"]
    if not any(np.isfinite(one).any() for one in results):
        return not results
    return unrounded(numbers, results)


def _random_argument(aval: Any, generator: Any) -> Any:
    kind = np.dtype(aval.dtype)
    if kind.kind in "iub":
        return generator.integers(0, 2, aval.shape).astype(kind)
    return ordinary_numbers(aval.shape, generator).astype(kind)


def _real(value: Any) -> Any:
    return np.stack([value.real, value.imag]) if value.dtype.kind == "c" else value
