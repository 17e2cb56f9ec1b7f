"""Event shapes of JAX objects that do not state them, found by calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from flowref import backends
from flowref.adapters.common.broadcast_detection import stretches
from flowref.adapters.common.events import Fit, Fits, Seen, first_event
from flowref.model import (
    REAL,
    UNTRACEABLE,
    Shape,
    Support,
    TargetError,
    draw_points,
    one_line,
    user_code_location,
)

# ``call(x)`` of a batch -> (value, log-det).
Called = Callable[[Any], tuple[Any, Any]]
# Rows of trial batches, unlike usual numbers of features, and the tolerance.
ROWS, FEWER, SAME = 7, 5, 1e-6
# Axes of arrays up to which they may be features; usual numbers of features and sides of images.
MOST, USUAL, SIDE = 256, (4, 2, 3, 1, 6, 8, 5), 4
# Further events tried if no array has the size of the found one.
OTHERS: tuple[Shape, ...] = ((1,), (2,), (3,), (4,), (SIDE, SIDE))


def first_fitting_event(
    obj: Any, call: Called, support: Support = REAL, rank: int = 1
) -> tuple[Shape, tuple[Shape, ...]] | None:
    """The first event shape with at least ``rank`` axes that a call accepts, and further accepted ones if
    it is ambiguous; None if there is none. ``support``: of the events. Raises `TargetError` if the code
    cannot be traced.
    """
    raised: list[Exception] = []

    def fits(shape: Shape, _: Seen) -> Fits[Shape]:
        stretched = None if len(shape) < rank else taking(call, shape, support, raised)
        return None if stretched is None else (Fit.STRETCHED if stretched else Fit.WELL, shape)

    shape = first_event(candidates(obj), fits)
    if shape is None and raised:
        error = raised[0]
        raise TargetError(
            f"{type(obj).__name__} raised {one_line(error, 200)}{user_code_location(error)}, {UNTRACEABLE}"
        )
    return None if shape is None else (shape, _alternative_events(obj, call, shape, support, rank))


def _alternative_events(
    obj: Any, call: Called, shape: Shape, support: Support, rank: int
) -> tuple[Shape, ...]:
    """Further events that a call accepts, if no array has the size of the found one."""
    if {size for array in array_shapes(obj) for size in array} & set(shape):
        return ()
    others = [one for one in OTHERS if one != shape and len(one) >= rank]
    return tuple(one for one in others if taking(call, one, support) is not None)


def array_shapes(obj: Any) -> Sequence[Shape]:
    """The shapes of the arrays in an object."""
    return backends.find("jax").state_shapes(obj)


def candidates(obj: Any) -> Iterator[Shape]:
    """Candidate event shapes, likeliest first."""
    shapes = array_shapes(obj)
    for shape in shapes:
        yield from ((size,) for size in (*shape[-1:], *shape[:1]) if 1 < size <= MOST)
    yield from ((size,) for size in USUAL)
    yield from (shape for shape in shapes if len(shape) > 1 and math.prod(shape) <= MOST)
    yield SIDE, SIDE
    for size in sorted({size for shape in shapes for size in shape if 1 < size <= MOST}):
        yield from ((SIDE, SIDE, size), (size, SIDE, SIDE))
    yield from ((SIDE, SIDE, 1), (1, SIDE, SIDE))


def taking(
    call: Called, shape: Shape, support: Support, raised: list[Exception] | None = None
) -> bool | None:
    """Whether a call at an event shape broadcasts a per-point number over several entries; None if it does
    not accept the shape: each row must equal that of a smaller batch, with a log-det of its own. Exceptions
    of tracing alone are added to ``raised``.
    """
    import jax

    rng = np.random.default_rng(0)
    x = draw_points(support, (ROWS, *shape), rng)
    x = rng.uniform(0.25, 0.75, x.shape) if support == REAL else x
    try:
        closed, out = jax.make_jaxpr(call, return_shape=True)(jax.numpy.asarray(x))
        if any(one.shape[:1] != (ROWS,) for one in out):
            return None
        whole, part = (call(jax.numpy.asarray(x[:rows])) for rows in (ROWS, FEWER))
        alike = np.allclose(whole[0][:FEWER], part[0], rtol=SAME, atol=SAME, equal_nan=True)
    except Exception as error:  # it accepts others
        if raised is not None and runs(call, x):
            raised.append(error)
        return None
    return stretches(closed.jaxpr, ROWS) if alike else None


def runs(call: Called, x: Any) -> bool:
    """Whether a call returns for points when run op by op."""
    import jax

    try:
        call(jax.numpy.asarray(x))
    except Exception:  # any class of exception
        return False
    return True
