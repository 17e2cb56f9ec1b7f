"""What calls of a user's object show: which event shape it takes, and what its calls return."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flowref.adapters.common import batch_norm_shapes
from flowref.adapters.user.calls import (
    forward_single,
    inverse_single,
    sample_number,
    sample_shape,
)
from flowref.model import Dialect, Shape, TargetError

# Attributes that commonly name the number of features.
FEATURES = (
    "features", "num_features", "n_features", "dim", "dims", "d", "D", "ndim", "n_dim", "input_dim", "in_features",
    "data_dim", "input_size", "size", "num_inputs", "n_inputs", "channels", "num_channels", "n",
)  # fmt: skip
# Numbers of features that are tried where nothing tells any, likeliest first.
USUAL = (4, 2, 3, 1, 6, 8, 5, 7, 10, 12, 16, 20, 32, 64)


def settle(obj: Any, dialect: Dialect, x: Any, context: Any) -> tuple[Dialect, Any]:
    """The dialect corrected by what calls return, and the latent that forward returned (None for a
    density).
    """
    latent = None
    if dialect.forward is not None:
        run = obj if callable(obj) else obj.forward
        out = run(x) if context is None else run(x, context)
        if not isinstance(out, (tuple, list)):
            dialect = replace(dialect, forward=forward_single)
            if dialect.inverse is not None:
                dialect = replace(dialect, inverse=inverse_single)
        latent = out[0] if isinstance(out, (tuple, list)) else out
        if dialect.log_prob is not None and len(latent.shape) <= 1 < len(x.shape):
            # A density whose forward returns its log-likelihood, and no latent.
            dialect, latent = replace(dialect, forward=None, inverse=None, base_log_prob=None), None
    if dialect.log_prob is not None:
        dialect.log_prob(obj, x, context)
    if dialect.sample is not None and not _takes_a_number(obj, context):
        dialect = replace(dialect, sample=sample_shape)
    return dialect, latent


def _takes_a_number(obj: Any, context: Any) -> bool:
    """Whether ``sample`` draws as many points as the number that it is called with."""
    try:
        return len(sample_number(obj, 2, context)) == 2
    except Exception:  # it may want a shape; which error says so is the object's affair
        return False


def shapes(obj: Any, state: Sequence[Shape]) -> Iterator[Shape]:
    """Event shapes that an object may take, likeliest first; ``state``: the shapes of its arrays."""
    for name in FEATURES:
        value = getattr(obj, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 4096:
            yield (value,)
        elif isinstance(value, (tuple, list)) and value and all(isinstance(v, int) for v in value):
            yield tuple(value)
    for sizes in state:
        if len(sizes) >= 3 and min(sizes[-3:]) >= 1 and sizes[-1] > 3:
            yield tuple(sizes[-3:])
    for sizes in state:
        if len(sizes) in (1, 2) and 0 < sizes[-1] <= 256:
            yield (sizes[-1],)
            yield (sizes[0],)
    yield from ((features,) for features in USUAL)
    channels = sorted({size for sizes in state for size in sizes if size <= 64})
    for count in (*channels, 1, 2, 3, 4):
        for side in (4, 8):
            yield (count, side, side)
            yield (2 * count, side, side)


def infer_shape(obj: Any, dialect: Dialect, backend: Any, dtype: str, normalizes: bool) -> Shape:
    """The first shape at which every call works in a dtype and keeps the number of entries;
    `TargetError` if there is none. ``backend``: that of the object.
    """
    if normalizes and (shape := batch_norm_shapes.infer_shape(obj)):
        return shape
    tried: set[Shape] = set()
    for shape in shapes(obj, backend.state_shapes(obj)):
        if shape in tried:
            continue
        tried.add(shape)
        x = np.random.default_rng(0).uniform(0.25, 0.75, (3, *shape))
        try:
            if _fits(obj, dialect, backend.tensor(x, dtype)):
                return shape
        except Exception:  # the shape does not fit; which error says so is the object's affair
            continue
    raise TargetError(
        f"the event shape of {type(obj).__name__} cannot be told; give it as ?event=3 or "
        "?event=2,4,4 (or --event 3), "
        "or as an attribute event_shape"
    )


def _fits(obj: Any, dialect: Dialect, x: Any) -> bool:
    """Whether every call takes a batch of three events and keeps the number of entries."""
    dialect, latent = settle(obj, dialect, x, None)
    entries = None if latent is None else math.prod(latent.shape)
    if latent is not None and (len(latent) != 3 or entries != math.prod(x.shape)):
        return False
    if latent is not None and dialect.inverse is not None:
        back, _ = dialect.inverse(obj, latent, None)
        if back.shape != x.shape:
            return False
    return dialect.log_prob is None or math.prod(dialect.log_prob(obj, x, None).shape) == 3
