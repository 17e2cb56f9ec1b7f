"""Points that are dictionaries of arrays: how a result is read, and whether the sizes of its parts are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.conventions import return_forms, signatures
from flowref.adapters.user.conventions.call_forms import CallForm
from flowref.adapters.user.conventions.readings import Reading, entry_count, log_det_keys


@dataclass(frozen=True)
class NamedReading:
    """A result of named arrays: its ``point``, the ``reading``, and the ``latents``, its names with the
    features of each.
    """

    point: Mapping[str, Any]
    reading: Reading
    latents: tuple[tuple[str, int], ...]


def named_reading(
    out: Any, x: Any, names: Sequence[str], taken: Sequence[str]
) -> NamedReading | None:
    """The reading of named arrays that make up points ``x (B, d)``, with or without a log-det among or after
    them; None for another result. ``names``: their order, if the result has them; ``taken``: the names of
    what the call takes.
    """
    pair = isinstance(out, tuple | list) and len(out) == 2
    point = out[0] if pair else out
    if not isinstance(point, Mapping):
        return None
    among = [] if pair else log_det_keys(point)
    found = [name for name in point if name not in among]
    names = tuple(names if set(names) <= set(found) else found)
    if sum(entry_count(point[name]) for name in names) != math.prod(x.shape):
        return None
    features = [
        math.prod(point[name].shape[1:]) if len(point[name].shape) > 1 else 0 for name in names
    ]
    ladj: Any = return_forms.none
    if pair and out[1] is not None:
        several = isinstance(out[1], Mapping)
        ladj = partial(return_forms.summed_values if several else return_forms.entry, index=1)
    elif among:
        ladj = partial(return_forms.entry, index=among[0])
    value = partial(return_forms.named_columns, names=names, index=0 if pair else None)
    words = f"named arrays in, and out: {', '.join(taken)} -> {', '.join(map(str, names))}"
    return NamedReading(
        {name: point[name] for name in names},
        Reading(value, ladj, words=(words,)),
        tuple(zip(names, features, strict=True)),
    )


def fits_any_size(
    obj: Any, way: CallForm, x: Any, log_det: Any, log_det_of: Callable[[CallForm, Any], Any]
) -> bool:
    """Whether parts of undetermined sizes may as well have two features each, with the same log-det: then it
    is that of sizes which the code does not show, as of an image beside its label.
    """
    if log_det is None or any(way.sizes) or signatures.stated_point_names(obj):
        return False
    twice = replace(way, sizes=(2,) * len(way.sizes))
    try:
        other = log_det_of(twice, x[:, np.arange(x.shape[-1]).repeat(2)])
        return other.shape == log_det.shape and bool((other == log_det).all())
    except Exception:  # parts are numbers
        return False


def named_words(way: CallForm) -> str:
    """The remark on a log-density of named arrays."""
    return f"{way.method} of named arrays: {', '.join(way.keys)}"


def unread_names(obj: Any, method: str) -> str:
    """Why a method that takes a dictionary is not read; empty for one that takes something else."""
    read = signatures.names_read(obj, method)
    if not read or signatures.keys(obj, method):
        return ""
    return (
        f"{method} takes a dictionary and reads {', '.join(map(repr, read))} of it; expected the point under a "
        "name such as x, and a running log-det under one such as log_det, or parts of a point as an attribute "
        "event_shapes = {'mass': (), 'spin': (2,)} states them: audit a wrapper that takes these"
    )
