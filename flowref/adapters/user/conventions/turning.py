"""Maps of matrices whose columns are the points: the batch axis comes last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flowref.adapters.user.conventions.call_forms import BATCH_AXIS, Chosen
from flowref.adapters.user.conventions.roles import forward_way
from flowref.model import Shape

# Numbers of points that are tried, and numbers of features besides those that arrays have.
ROWS, USUAL = (11, 13), (2, 3, 4)
LARGEST = 64


def batch_last(obj: Any, backend: Any, dtype: str, event: Shape, chosen: Chosen) -> bool:
    """Whether a map takes its points as columns: it returns columns and a log-det for each, in batches
    of two sizes, and for points as rows it raises, or returns no log-det for each.
    """
    way = forward_way(obj, chosen)
    if way is None or way.form != "plain" or way.bound or BATCH_AXIS in chosen:
        return False
    return any(
        all(_for_each(obj, way.ask, backend, dtype, (size, rows), -1) for rows in ROWS)
        and not _for_each(obj, way.ask, backend, dtype, (ROWS[0], size), 0)
        for size in _sizes(event, backend.state_shapes(obj))
    )


def _sizes(event: Shape, state: Sequence[Shape]) -> Iterator[int]:
    """Numbers of features that points may have: none that is a number of points."""
    if event:
        yield from event if len(event) == 1 and event[0] not in ROWS else ()
        return
    held = sorted({size for sizes in state for size in sizes if 1 < size <= LARGEST})
    yield from dict.fromkeys(size for size in (*held, *USUAL) if size not in ROWS)


def _for_each(
    obj: Any, ask: Any, backend: Any, dtype: str, shape: tuple[int, int], axis: int
) -> bool:
    """Whether a call keeps the shape of a matrix, and returns a number for each entry of an axis."""
    import numpy as np

    x = backend.tensor(np.random.default_rng(0).uniform(0.25, 0.75, shape), dtype)
    try:
        out = ask(obj, x, None)
        return tuple(out[0].shape) == shape and tuple(out[1].shape) == (shape[axis],)
    except Exception:  # it wants something else
        return False
