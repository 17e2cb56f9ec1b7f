"""Extractors of value and log-det from a call's result: module-level functions, which dialects use by
partial application and proofs inline.
"""

from __future__ import annotations

import math
from typing import Any

# Values.


def whole_return(out: Any) -> Any:
    """The result itself."""
    return out


def entry(out: Any, index: Any) -> Any:
    """One entry of the result, by index or name."""
    return out[index]


def entry_of(out: Any, index: int, name: Any) -> Any:
    """An entry of a mapping inside the result."""
    return out[index][name]


def column_range(out: Any, first: int, last: int) -> Any:
    """Columns ``first`` to ``last`` of the returned tensor."""
    return out[:, first : last + 1]


def column(out: Any, index: int) -> Any:
    """One column of the returned tensor."""
    return out[:, index]


def named_field(out: Any, name: str) -> Any:
    """One field of the returned object."""
    return getattr(out, name)


def first_of(out: Any) -> Any:
    """The first entry of a tuple or list; else the result itself."""
    return out[0] if isinstance(out, (tuple, list)) else out


def only_of(out: Any) -> Any:
    """The tensor of a one-tuple that is the result, or its first entry."""
    value = out[0]
    return value[0] if isinstance(value, (tuple, list)) else value


def last_of(out: Any, index: Any) -> Any:
    """The last of a list of states inside the result."""
    return out[index][-1]


def last(out: Any) -> Any:
    """The last of a returned list of states."""
    return out[-1]


def joined_of(out: Any, index: Any) -> Any:
    """A list of latents inside the result, flattened and concatenated."""
    return flattened_latents(out[index])


def flattened_latents(out: Any) -> Any:
    """A returned list of latents, flattened and concatenated."""
    return concatenated([part.reshape(len(part), -1) for part in out])


def several(out: Any) -> Any:
    """All entries of the result but the last, concatenated."""
    return concatenated(list(out[:-1]))


def named_columns(out: Any, names: Any, index: Any = None) -> Any:
    """The arrays of a mapping, which is the result or an entry of it, as features in the order of names."""
    point = out if index is None else out[index]
    parts = [point[name] for name in names]
    return concatenated([part.reshape(len(part), math.prod(part.shape[1:])) for part in parts])


def concatenated(arrays: Any) -> Any:
    """Arrays of one framework, concatenated along their last axis."""
    if hasattr(arrays[0], "__array_namespace__"):
        return arrays[0].__array_namespace__().concat(arrays, axis=-1)
    import torch

    return torch.cat(arrays, -1)


# Log-dets.


def none(out: Any) -> Any:
    """No log-det."""
    return None


def second_of(out: Any) -> Any:
    """The second entry of a tuple or list; None if there is none."""
    return out[1] if isinstance(out, (tuple, list)) and len(out) > 1 else None


def summed(out: Any, index: Any) -> Any:
    """The sum of a list of log-dets."""
    return sum(out[index])


def summed_values(out: Any, index: Any) -> Any:
    """The sum of a mapping of log-dets."""
    return sum(out[index].values())


def summed_rows(out: Any, index: Any) -> Any:
    """The sum of a list of log-dets, per-entry ones reduced to rows."""
    return sum(one.reshape(len(one), -1).sum(1) if one.ndim > 1 else one for one in out[index])


def summed_batch(out: Any, index: Any) -> Any:
    """The sum of all numbers in a list of log-dets."""
    return sum(one.sum() for one in out[index])


def summed_parts(out: Any, parts: Any) -> Any:
    """The sum of log-dets at several positions."""
    return sum(part(out) for part in parts)
