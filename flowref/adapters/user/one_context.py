"""A conditional density at one context is a density like any other: a dialect whose calls are all given that one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.common import distribution_functions
from flowref.adapters.user import calls
from flowref.model import Dialect, Shape

# By which the context is drawn.
SEED = 11
# What is given a context beside points, or beside how many are drawn; noise of a base has none.
OF_POINTS = ("forward", "inverse", "log_prob", "base_log_prob")
DRAWN = ("sample", "rsample")


def at_one_context(dialect: Dialect, shape: Shape, each: bool) -> Dialect:
    """The dialect of what is left where the context is fixed. ``each``: whether it draws as many as are asked for at
    each context.
    """
    drawn = np.random.default_rng(SEED).standard_normal(shape)
    given: dict[str, Any] = {"values": tuple(map(float, drawn.reshape(-1))), "shape": shape}
    kept: dict[str, Any] = {
        name: partial(of_points, call=call, **given)
        for name in OF_POINTS
        if (call := getattr(dialect, name)) is not None
    }
    kept |= {
        name: partial(of_draws, call=call, each=each, **given)
        for name in DRAWN
        if (call := getattr(dialect, name)) is not None
    }
    first = calls.takes_context_first(dialect.log_prob)
    kept |= {
        name: partial(of_numbers, method=name, first=first, **given)
        for name in ("cdf", "icdf")
        if getattr(dialect, name) in (calls.cdf, calls.icdf)
    }
    return Dialect(**kept, repair=dialect.repair, normalizing=dialect.normalizing)


def stated_of(obj: Any, shape: Shape, event: Shape) -> Any:
    """What tells the moments that an object tells given a context; None where it tells none."""
    values = tuple(map(float, np.random.default_rng(SEED).standard_normal(shape).reshape(-1)))
    asked = []
    for moment, names in distribution_functions.MOMENTS.items():
        found = next((name for name in names if distribution_functions.takes(obj, name, 1)), "")
        if found and not distribution_functions.is_helper(obj, found):
            asked.append((moment, partial(of_moment, method=found, values=values, shape=shape)))
    return (
        partial(distribution_functions.stated_moments, asked=tuple(asked), shape=event)
        if asked
        else None
    )


def of_moment(obj: Any, method: str, values: tuple[float, ...], shape: Shape) -> Any:
    """What a method tells under one context."""
    return getattr(obj, method)(repeated_context(values, shape, 1))


def draws_at_each(draw: Any, obj: Any, shape: Shape, event: Shape) -> bool:
    """Whether an object draws as many points as are asked for at each of several contexts."""
    zeros = (0.0,) * int(np.prod(shape, dtype=int))
    try:
        return tuple(draw(obj, 2, repeated_context(zeros, shape, 3)).shape) == (3, 2, *event)
    except Exception:  # it gives one for each of as many
        return False


def of_points(
    obj: Any, x: Any, context: Any, call: Any, values: tuple[float, ...], shape: Shape
) -> Any:
    """A call at points, each with the same context."""
    return call(obj, x, repeated_context(values, shape, len(x), x))


def of_draws(
    obj: Any,
    n: int,
    context: Any,
    *key: Any,
    call: Any,
    values: tuple[float, ...],
    shape: Shape,
    each: bool,
) -> Any:
    """Draws under one context, of what gives as many for each, or one for each of as many."""
    out = call(obj, n, repeated_context(values, shape, 1 if each else n, *key), *key)
    return out[0] if each else out


def of_numbers(
    obj: Any, x: Any, method: str, first: bool, values: tuple[float, ...], shape: Shape
) -> Any:
    """The distribution function, or quantiles, under one context."""
    given, run = repeated_context(values, shape, len(x), x), getattr(obj, method)
    return run(given, x) if first else run(x, given)


def repeated_context(values: tuple[float, ...], shape: Shape, rows: int, like: Any = None) -> Any:
    """The context for so many rows, in the framework of something, and in its precision where it holds numbers."""
    times = (rows, *[1] * len(shape))
    if like is None or hasattr(like, "new_tensor"):
        import torch

        dtype = torch.get_default_dtype() if like is None else like.dtype
        return torch.tensor(values, dtype=dtype).reshape(1, *shape).repeat(times)
    import jax.numpy as jnp

    kind = getattr(like, "dtype", None)
    dtype = kind if kind is not None and jnp.issubdtype(kind, jnp.floating) else None
    return jnp.tile(jnp.asarray(values, dtype).reshape(1, *shape), times)
