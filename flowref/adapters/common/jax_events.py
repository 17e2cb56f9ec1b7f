"""Which events an object of JAX takes that does not tell their shape, as calls of it show."""

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
# Rows of batches that are tried: no number of features that is usual.
ROWS, FEWER, SAME = 7, 5, 1e-6
# Longer axes of arrays are those of hidden layers; numbers of features and sides of images that are tried.
MOST, USUAL, SIDE = 256, (4, 2, 3, 1, 6, 8, 5), 4
# Events that are tried besides where no array is of the size of the one that was taken.
OTHERS: tuple[Shape, ...] = ((1,), (2,), (3,), (4,), (SIDE, SIDE))


def first_fitting_event(
    obj: Any, call: Called, support: Support = REAL, rank: int = 1
) -> tuple[Shape, tuple[Shape, ...]] | None:
    """The first event of at least ``rank`` axes that a call takes, and others that it takes as well where
    nothing tells which is meant; None where it takes none. Raises `TargetError` where its code cannot be traced.
    ``support``: where events lie.
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
    """The events that a call takes as well as one, where no array is of its size."""
    if {size for array in array_shapes(obj) for size in array} & set(shape):
        return ()
    others = [one for one in OTHERS if one != shape and len(one) >= rank]
    return tuple(one for one in others if taking(call, one, support) is not None)


def array_shapes(obj: Any) -> Sequence[Shape]:
    """The shapes of the arrays that an object holds."""
    return backends.find("jax").state_shapes(obj)


def candidates(obj: Any) -> Iterator[Shape]:
    """Event shapes that an object may take, likeliest first."""
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
    """Whether a call that takes events of a shape stretches a number of each over several of its entries,
    as one of a smaller event does; None where it does not take them: each row comes out as in a smaller
    batch, with a log-det of its own. What is raised where its code is traced alone is added to
    ``raised``.
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
    except Exception as error:  # it takes others
        if raised is not None and runs(call, x):
            raised.append(error)
        return None
    return stretches(closed.jaxpr, ROWS) if alike else None


def runs(call: Called, x: Any) -> bool:
    """Whether a call returns for points as they are, each step by itself."""
    import jax

    try:
        call(jax.numpy.asarray(x))
    except Exception:  # which of them says so, whatever it is
        return False
    return True
