"""A conditional density at one fixed context: a dialect whose calls all get that context."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.common import distribution_functions
from flowref.adapters.user import calls
from flowref.model import Dialect, Shape

# The seed of the context.
SEED = 11
# Calls that take a context with points or with a number of draws; base noise has none.
OF_POINTS = ("forward", "inverse", "log_prob", "base_log_prob")
DRAWN = ("sample", "rsample")


def at_one_context(dialect: Dialect, shape: Shape, each: bool) -> Dialect:
    """The dialect at a fixed context of ``shape``. ``each``: whether the sampler draws n points per
    context.
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
    """The function of moments stated given a context; None if none is stated."""
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
    return getattr(obj, method)(repeated_context(values, shape, 1))


def draws_at_each(draw: Any, obj: Any, shape: Shape, event: Shape) -> bool:
    """Whether an object draws n points for each of several contexts."""
    zeros = (0.0,) * int(np.prod(shape, dtype=int))
    try:
        return tuple(draw(obj, 2, repeated_context(zeros, shape, 3)).shape) == (3, 2, *event)
    except Exception:  # it draws one point per context
        return False


def of_points(
    obj: Any, x: Any, context: Any, call: Any, values: tuple[float, ...], shape: Shape
) -> Any:
    """A call at points ``(n, *event)``, all with the same context."""
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
    """``n`` draws under one context, by n draws for it, or by one draw for each of n copies."""
    out = call(obj, n, repeated_context(values, shape, 1 if each else n, *key), *key)
    return out[0] if each else out


def of_numbers(
    obj: Any, x: Any, method: str, first: bool, values: tuple[float, ...], shape: Shape
) -> Any:
    given, run = repeated_context(values, shape, len(x), x), getattr(obj, method)
    return run(given, x) if first else run(x, given)


def repeated_context(values: tuple[float, ...], shape: Shape, rows: int, like: Any = None) -> Any:
    """The context as ``(rows, *shape)``, in the framework of ``like``, and in its dtype if floating."""
    times = (rows, *[1] * len(shape))
    if like is None or hasattr(like, "new_tensor"):
        import torch

        dtype = torch.get_default_dtype() if like is None else like.dtype
        return torch.tensor(values, dtype=dtype).reshape(1, *shape).repeat(times)
    import jax.numpy as jnp

    kind = getattr(like, "dtype", None)
    dtype = kind if kind is not None and jnp.issubdtype(kind, jnp.floating) else None
    return jnp.tile(jnp.asarray(values, dtype).reshape(1, *shape), times)
