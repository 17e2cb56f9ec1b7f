"""Data sets in Python, named ``module:name`` or ``file.py:name``: an array, or a sequence of points such as
a torch Dataset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flowref.backends import process
from flowref.loading.data.arrays import CONTEXTS, POINTS
from flowref.loading.data.rows import Rows, of_array
from flowref.loading.user_code import target_value
from flowref.model import USER, Array, DataError, FlowrefError, Target, one_line


def dataset(name: str) -> Rows:
    """The rows of a named data set: an object, or what a function without arguments returns."""
    with process.quarantine(0):
        value = target_value(Target(USER, name))
        if isinstance(value, type) or (callable(value) and not hasattr(value, "__getitem__")):
            try:
                value = value()
            except FlowrefError:
                raise
            except Exception as error:
                raise DataError(f"{name}() raised {one_line(error, 200)}") from error
    value = getattr(value, "test", value)  # of several splits the one not used for training
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):
        return of_array(name, _numpy_array(value))
    if not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
        raise DataError(
            f"{name} is a {type(value).__name__}; expected an array, or a data set with a length "
            "and entries by number"
        )
    if not len(value):
        raise DataError(f"{name} has no rows; give at least one point")
    x, context = _dataset_point(name, value, 0)
    contexts = None
    if context is not None:
        contexts = Rows(
            f"{name}, the context of a point",
            len(value),
            context.shape,
            _reader(name, value, 1),
        )
    return Rows(name, len(value), x.shape, _reader(name, value, 0), contexts)


def _reader(name: str, value: Any, part: int) -> Any:
    return lambda rows: _stacked(
        name, [_dataset_point(name, value, int(row))[part] for row in rows]
    )


def _dataset_point(name: str, value: Any, row: int) -> tuple[Array, Any]:
    """The point ``(*shape,)`` of an entry and its context or None; random transforms are seeded, and
    repeat.
    """
    try:
        with process.quarantine(row):
            entry = value[row]
            context = None
            if isinstance(entry, Mapping):
                context = next((entry[key] for key in CONTEXTS if key in entry), None)
                entry = next((entry[key] for key in POINTS if key in entry), entry)
            elif isinstance(entry, tuple | list) and len(entry) and _is_point(entry[0]):
                entry, context = entry[0], entry[1] if len(entry) > 1 else None
            x = _numpy_array(entry)
            if x.dtype.kind not in "fiub":
                raise TypeError(f"it is of {x.dtype}")
            return x, None if context is None else _numpy_array(context)
    except Exception as error:
        raise DataError(f"{name}: entry {row} cannot be read ({one_line(error, 200)})") from error


def _is_point(value: Any) -> bool:
    """Whether the first part of an entry is a point rather than a coordinate."""
    return (
        bool(getattr(value, "ndim", 0)) or isinstance(value, list | tuple) or hasattr(value, "size")
    )


def _numpy_array(value: Any) -> Array:
    value = value.detach().cpu() if hasattr(value, "detach") else value
    return np.asarray(value)


def _stacked(name: str, entries: list[Array]) -> Array:
    shapes = {entry.shape for entry in entries}
    if len(shapes) > 1:
        raise DataError(
            f"{name} has entries of shapes {sorted(shapes)[:3]}; give points of one shape"
        )
    return np.stack(entries)
