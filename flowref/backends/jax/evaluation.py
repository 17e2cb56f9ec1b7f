"""Calls as a user makes them, and under other circumstances: compiled, mapped over rows,
rematerialized.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.jax.eager_operations import uncompiled
from flowref.backends.jax.live import Live, call_digest
from flowref.backends.jax.programs import POINTWISE
from flowref.model import Array, Manner, Mapped, Unsupported
from flowref.model.call import DRAWING, KERNELS, PAIRED, arguments

HOWS = ("plain", "compile", "vmap", "checkpoint")


def evaluation(live: Live, name: str) -> Callable[..., Any]:
    """Returns a method as a function of arrays and numbers."""
    if name == "rescaled":
        return partial(rescaled, live)
    if name in POINTWISE:
        return partial(evaluate, live, name)
    if name in KERNELS:
        return partial(draw_at, live, name)
    return (
        partial(draw_samples, live, name) if name in DRAWING else partial(call_op_by_op, live, name)
    )


def evaluate(live: Live, name: str, x: Array, context: Array | None = None) -> Any:
    """Calls a method at ``x`` ``(n, *event)``: a `Mapped` for maps, an array ``(n,)`` for
    densities.
    """
    if live.programs.traced.get(name):
        out = eager(live, name, (x, context))
        return out if name in PAIRED else out.value
    value, ladj = live.evaluate(name, x, context)
    return Mapped(value, ladj) if name in PAIRED else np.asarray(value)


def draw_samples(live: Live, name: str, n: int, seed: int, context: Array | None = None) -> Any:
    """Draws n samples ``(n, *event)``, from a key made of the seed; a `Mapped` if they come with
    log-densities ``(n,)``.
    """
    with live.calling():
        given = None if context is None else np.asarray(context, live.dtype)
        out = live.programs.draw(name, live.leaves, n, seed, given, live.rounding)
    return Mapped(*out) if name in PAIRED else np.asarray(out)


def draw_at(live: Live, name: str, x: Array, seed: int, context: Array | None = None) -> Mapped:
    """Calls a stochastic layer at ``x`` ``(n, *event)``, with a key made of the seed: value and
    contribution ``(n,)``.
    """
    with live.calling():
        support = live.facts.domain if name == "push" else live.facts.codomain
        points = live.points(x, call_digest(name, (x, seed, context)), support)
        given = None if context is None else np.asarray(context, live.dtype)
        asked = (seed, given, live.rounding, points)
        value, ladj = live.programs.draw(name, live.leaves, len(x), *asked)
    return Mapped(np.asarray(value), ladj)


def call_op_by_op(live: Live, name: str, *inputs: Any) -> Array:
    """Calls another method, eagerly; one that draws with a key made of the seed."""
    function, (asked, seed) = live.dialect.function(name), arguments(name, inputs, {})
    with live.calling():
        key = () if seed is None else (jax.random.key(seed % 2**32),)
        out = function(live.object, *[as_jax_array(live, value) for value in asked], *key)
        return np.asarray(out)


def rescaled(live: Live, x: Array, factor: float, context: Array | None = None) -> Array:
    """The log-density ``(n,)`` of the data multiplied by a factor."""
    rescale, log_prob = live.dialect.function("rescale"), live.dialect.function("log_prob")

    def called(leaves: Any, points: Any, given: Any) -> Any:
        return log_prob(rescale(live.programs.tree.filled(leaves), factor), points, given)

    with live.calling():
        points = live.points(x, call_digest("rescaled", (x, context)), None)
        given = None if context is None else np.asarray(context, live.dtype)
        form = ("rescaled", factor, points.shape, given is not None)
        out = live.programs.step(form, lambda: called, live.rounding, live.leaves, points, given)
        return np.asarray(called(live.leaves, points, given) if out is None else out)


def as_jax_array(live: Live, value: Any, dtype: str | None = None) -> Any:
    """Converts arrays to JAX; other values are unchanged."""
    return jnp.asarray(value, dtype or live.dtype) if isinstance(value, np.ndarray) else value


def as_mapped(name: str, out: Any) -> Mapped:
    """Converts the result of a call to a `Mapped`."""
    if name not in PAIRED:
        return Mapped(np.array(out), None)
    value, ladj = out
    return Mapped(np.array(value), None if ladj is None else array(ladj))


def array(value: Any) -> Any:
    """Converts JAX arrays to numpy; returns Python numbers unchanged."""
    return np.array(value) if isinstance(value, jax.Array | np.ndarray | np.generic) else value


def eager(live: Live, name: str, inputs: tuple[Any, ...]) -> Mapped:
    """A call on exactly these rows, eagerly and without padding."""
    return _evaluate_call(live, name, inputs, live.dtype, MANNERS["compile"])


def mannered(live: Live, name: str, inputs: tuple[Any, ...], manner: Manner) -> Mapped:
    """A call under other circumstances; modes, gradient modes and memory layouts raise
    `Unsupported`. Plain calls are compiled here, so "compile" runs eagerly, to compare both.
    """
    if manner.how == "vmap" and name in KERNELS:
        raise Unsupported("each row would have the key of the batch", blocked=False)
    if manner.how not in HOWS or manner.layout != "contiguous":
        asked = manner.how if manner.how not in HOWS else f"{manner.layout} layout"
        raise Unsupported(f"there is no {asked} in JAX", blocked=False)
    traced = not live.programs.traced.get(name)
    if manner.how == "plain" and name in POINTWISE and traced:
        points, context = (*inputs, None)[:2]
        if manner.dtype in (None, live.dtype):
            return Mapped(*live.evaluate(name, points, context))
        with live.calling(manner.dtype):
            leaves = [leaf.astype(manner.dtype) for leaf in live.leaves]
            x = np.asarray(points, manner.dtype)
            given = None if context is None else np.asarray(context, manner.dtype)
            found = live.programs.in_steps(name, leaves, None, x, given)
            return Mapped(*(found or live.programs.run(name, leaves, x, given)))
    made = MANNERS["compile" if manner.how == "plain" and not traced else manner.how]
    return _evaluate_call(live, name, inputs, manner.dtype or live.dtype, made)


def _evaluate_call(
    live: Live,
    name: str,
    inputs: tuple[Any, ...],
    dtype: str,
    made: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Mapped:
    function, (asked, seed) = live.dialect.function(name), arguments(name, inputs, {})

    def called(leaves: Any, key: Any, *arrays: Any) -> Any:
        given = iter(arrays)
        ready = [next(given) if isinstance(v, np.ndarray) else v for v in asked]
        more = () if seed is None else (key,)
        return function(live.programs.tree.filled(leaves), *ready, *more)

    with live.calling(dtype):
        leaves = [leaf.astype(dtype) for leaf in live.leaves]
        arrays = [as_jax_array(live, v, dtype) for v in asked if isinstance(v, np.ndarray)]
        return as_mapped(name, made(called)(leaves, jax.random.key((seed or 0) % 2**32), *arrays))


def _mapped_over_rows(called: Callable[..., Any]) -> Callable[..., Any]:
    def run(leaves: Any, key: Any, *arrays: Any) -> Any:
        if not arrays:
            raise Unsupported("it takes no points that it could be mapped over", blocked=False)

        def single(*rows: Any) -> Any:
            out = called(leaves, key, *(row[None] for row in rows))
            return jax.tree.map(lambda a: a[0] if jnp.ndim(a) else a, out)

        return jax.vmap(single)(*arrays)

    return run


def op_by_op(called: Callable[..., Any]) -> Callable[..., Any]:
    """An eager call."""

    def run(*given: Any) -> Any:
        with uncompiled():
            return called(*given)

    return run


MANNERS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "plain": jax.jit,
    "compile": op_by_op,
    "checkpoint": lambda called: jax.jit(jax.checkpoint(called)),
    "vmap": lambda called: jax.jit(_mapped_over_rows(called)),
}
