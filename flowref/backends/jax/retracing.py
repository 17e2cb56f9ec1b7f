"""Calls of an object as it was handed over, traced as a user traces them: other calls are made of its
parts, put together anew. And of what users make of it: read back from what was saved, with its numbers
traced, differentiated op by op.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.jax.live import Live
from flowref.backends.jax.programs import PAIRED
from flowref.backends.jax.stepping import Stepped
from flowref.backends.jax.trees import apart, fresh, opened
from flowref.model import Array, Mapped, Unsupported, one_line


def own(
    live: Live,
    name: str,
    x: Array,
    context: Array | None = None,
    before: Sequence[int] = (),
    how: str = "",
) -> Mapped:
    """See `Subject.own`. What a trace leaves in an object is left in one that is no one else's."""
    speak = live.programs.spoken(name)
    with live.calling():
        points = np.asarray(x, live.dtype)
        given = None if context is None else np.asarray(context, live.dtype)
        if how:
            return HOWS[how](live, speak, name, points, given)
        obj = fresh(live.given)
        for rows in before:
            some = None if given is None else given[:rows]
            jax.make_jaxpr(lambda one, other: speak(obj, one, other))(points[:rows], some)
        out = Stepped(lambda one, other: speak(obj, one, other), points, given)(None, points, given)
    return as_mapped(name, out)


def as_mapped(name: str, out: Any) -> Mapped:
    """The outcome of a call as plain values."""
    return Mapped(*out) if name in PAIRED else Mapped(np.asarray(out), None)


def saved(live: Live, speak: Callable[..., Any], name: str, x: Any, context: Any) -> Mapped:
    """A call of the object that is read back, by equinox, into one of zeros."""
    try:
        import equinox
    except ImportError:
        raise Unsupported("equinox, which saves pytrees, is not installed", waits=False) from None
    if opened(apart(live.given)[1]):
        raise Unsupported("it is no pytree", waits=False)
    file = io.BytesIO()
    try:
        equinox.tree_serialise_leaves(file, live.given)
        file.seek(0)
        obj = equinox.tree_deserialise_leaves(file, jax.tree.map(emptied, live.given))
    except Exception as error:
        raise Unsupported(f"equinox does not save it ({one_line(error, 120)})") from error
    out = Stepped(lambda one, other: speak(obj, one, other), x, context)(None, x, context)
    return as_mapped(name, out)


def emptied(leaf: Any) -> Any:
    """A leaf of the same kind that says nothing."""
    if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jnp.zeros_like(leaf)
    if isinstance(leaf, np.ndarray):
        return np.zeros_like(leaf)
    return 0.0 if isinstance(leaf, float) else leaf


def with_numbers(live: Live, speak: Callable[..., Any], name: str, x: Any, context: Any) -> Mapped:
    """A call of the object whose Python numbers are arguments of the trace."""
    leaves, structure = jax.tree.flatten(live.given)
    places = [place for place, leaf in enumerate(leaves) if type(leaf) is float]
    if not places:
        raise Unsupported("none of its leaves is a number of Python", waits=False)

    def called(numbers: Any, one: Any, other: Any) -> Any:
        filled = dict(zip(places, numbers, strict=True))
        whole = [filled.get(place, leaf) for place, leaf in enumerate(leaves)]
        return speak(jax.tree.unflatten(structure, whole), one, other)

    numbers = [jnp.asarray(leaves[place], live.dtype) for place in places]
    try:
        traced = Stepped(called, numbers, x, context)
    except jax.errors.JAXTypeError as error:
        raise Unsupported(f"its numbers cannot be traced ({one_line(error, 120)})") from error
    return as_mapped(name, traced(None, numbers, x, context))


def graded(live: Live, speak: Callable[..., Any], name: str, x: Any, context: Any) -> Mapped:
    """The gradient of the sum of what a call gives, op by op."""
    pair = live.programs.pair(name, rowed=True)

    def summed(points: Any) -> Any:
        value, ladj = pair(live.leaves, points, context)
        return value.sum() + (0.0 if ladj is None else ladj.sum())

    return Mapped(np.asarray(jax.grad(summed)(jnp.asarray(x))), None)


HOWS: dict[str, Callable[..., Mapped]] = {
    "saved": saved,
    "numbers": with_numbers,
    "graded": graded,
}
