"""Calls of the original object, traced as a user traces them: all other calls rebuild it from its
parts. And calls of what users make of it: loaded from a file, with its numbers traced,
differentiated eagerly.
"""

from __future__ import annotations

import functools
import inspect
import io
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.closures import cells
from flowref.backends.jax.eager_operations import uncompiled
from flowref.backends.jax.evaluation import as_mapped
from flowref.backends.jax.interpreter import Stepped
from flowref.backends.jax.live import Live
from flowref.backends.jax.trees import FOREIGN, independent_object, leaves_and_tree, opened
from flowref.model import Array, Mapped, Unsupported, one_line
from flowref.model.extras import missing

# The number of objects searched for leaked tracers, and types that hold nothing.
MOST = 2000
PLAIN = (str, bytes, int, float, complex, type(None), np.ndarray, types.ModuleType, type)


def retraced_call(
    live: Live,
    name: str,
    x: Array,
    context: Array | None = None,
    before: Sequence[int] = (),
    how: str = "",
) -> Mapped:
    """See `Subject.own`. A trace may leave values in the object, so it uses a copy."""
    function = live.dialect.function(name)
    with live.calling():
        points = np.asarray(x, live.dtype)
        given = None if context is None else np.asarray(context, live.dtype)
        if how:
            return HOWS[how](live, function, name, points, given)
        obj = independent_object(live.given)
        for rows in before:
            some = None if given is None else given[:rows]
            jax.make_jaxpr(lambda one, other: function(obj, one, other))(points[:rows], some)
            if place := left_in(obj):
                raise LeakedTracer(f"a traced value stays in {place}")
        out = Stepped(lambda one, other: function(obj, one, other), points, given)(
            None, points, given
        )
    return as_mapped(name, out)


class LeakedTracer(Exception):
    """A tracer that is reachable after its trace."""


def left_in(obj: Any) -> str:
    """The path of a tracer in an object, in closures of its functions, or in lists and mappings of
    their file; "" if there is none.
    """
    seen: set[int] = set()
    todo: list[tuple[Any, str]] = [(obj, "")]
    while todo and len(seen) < MOST:
        one, place = todo.pop()
        if isinstance(one, jax.core.Tracer):
            return place.lstrip(".") or "it"
        if id(one) not in seen and not isinstance(one, PLAIN):
            seen.add(id(one))
            todo += [(inner, f"{place}.{name}") for name, inner in held_in(one)]
    return ""


def held_in(one: Any) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) for the values that an object holds."""
    if isinstance(one, dict):
        yield from ((str(name), inner) for name, inner in list(one.items()))
    elif isinstance(one, list | tuple | set):
        yield from ((str(place), inner) for place, inner in enumerate(one))
    elif isinstance(one, functools.partial):
        yield from enumerated(one.func, *one.args, *one.keywords.values())
    elif isinstance(one, types.MethodType):
        yield from enumerated(one.__self__, one.__func__)
    elif isinstance(one, types.FunctionType):
        if one.__module__.partition(".")[0] in FOREIGN:
            return
        yield from vars(one).items()
        yield from cells(one)
        for name in one.__code__.co_names:
            inner = one.__globals__.get(name)
            if isinstance(inner, list | dict | set | types.FunctionType):
                yield name, inner
    elif inspect.isroutine(getattr(one, "__wrapped__", None)):
        yield from enumerated(one.__wrapped__)
    elif type(one).__module__.partition(".")[0] not in FOREIGN:
        yield from (getattr(one, "__dict__", None) or {}).items()
        for kind in type(one).__mro__[:-1]:
            if kind.__module__.partition(".")[0] not in FOREIGN:
                yield from (
                    (name, inner)
                    for name, inner in vars(kind).items()
                    if isinstance(inner, list | dict | set | types.FunctionType)
                    and not name.startswith("__")
                )


def enumerated(*values: Any) -> Iterator[tuple[str, Any]]:
    """Yields values with empty names."""
    yield from (("", value) for value in values)


def saved(live: Live, function: Callable[..., Any], name: str, x: Any, context: Any) -> Mapped:
    """A call of the object after saving it and loading it, by equinox, into one of zeros. Raises
    `Unsupported` without equinox, and for objects that are no pytrees.
    """
    try:
        import equinox
    except ImportError:
        raise Unsupported(missing("equinox", "jax", "saving a pytree"), blocked=False) from None
    if opened(leaves_and_tree(live.given)[1]):
        raise Unsupported("it is no pytree", blocked=False)
    file = io.BytesIO()
    try:
        equinox.tree_serialise_leaves(file, live.given)
        file.seek(0)
        obj = equinox.tree_deserialise_leaves(file, jax.tree.map(emptied, live.given))
    except Exception as error:
        raise Unsupported(f"equinox does not save it ({one_line(error, 120)})") from error
    if identical_trees(obj, live.given):  # no other call to trace
        return Mapped(*live.evaluate(name, x, context))
    out = Stepped(lambda one, other: function(obj, one, other), x, context)(None, x, context)
    return as_mapped(name, out)


def identical_trees(one: Any, other: Any) -> bool:
    """Whether two trees have the same structure and static fields, and bitwise equal leaves."""
    try:
        if jax.tree.structure(one) != jax.tree.structure(other):
            return False
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        return all(type(a) is type(b) and identical(a, b) for a, b in pairs)
    except Exception:  # static fields without a comparison, such as arrays
        return False


def identical(one: Any, other: Any) -> bool:
    """Whether two leaves are equal bit for bit, nan included."""
    if isinstance(one, jax.Array) and jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    if not isinstance(one, jax.Array | np.ndarray):
        return bool(one is other or one == other)
    first, second = np.asarray(one), np.asarray(other)
    same = (first.dtype, first.shape) == (second.dtype, second.shape)
    return same and first.tobytes() == second.tobytes()


def emptied(leaf: Any) -> Any:
    """A leaf of zeros of the same kind."""
    if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jnp.zeros_like(leaf)
    if isinstance(leaf, np.ndarray):
        return np.zeros_like(leaf)
    return 0.0 if isinstance(leaf, float) else leaf


def with_numbers(
    live: Live, function: Callable[..., Any], name: str, x: Any, context: Any
) -> Mapped:
    """A call of the object with its Python numbers as arguments of the trace."""
    leaves, structure = jax.tree.flatten(live.given)
    places = [place for place, leaf in enumerate(leaves) if type(leaf) is float]
    if not places:
        raise Unsupported("none of its leaves is a number of Python", blocked=False)

    def called(numbers: Any, one: Any, other: Any) -> Any:
        filled = dict(zip(places, numbers, strict=True))
        whole = [filled.get(place, leaf) for place, leaf in enumerate(leaves)]
        return function(jax.tree.unflatten(structure, whole), one, other)

    numbers = [jnp.asarray(leaves[place], live.dtype) for place in places]
    try:
        traced = Stepped(called, numbers, x, context)
    except jax.errors.JAXTypeError as error:
        raise Unsupported(f"its numbers cannot be traced ({one_line(error, 120)})") from error
    return as_mapped(name, traced(None, numbers, x, context))


def graded(live: Live, function: Callable[..., Any], name: str, x: Any, context: Any) -> Mapped:
    """The gradient of the sum of a call's results, computed eagerly."""
    pair = live.programs.pair(name, rowed=True)

    def summed(points: Any) -> Any:
        value, ladj = pair(live.leaves, points, context)
        return value.sum() + (0.0 if ladj is None else ladj.sum())

    with uncompiled():
        return Mapped(np.asarray(jax.grad(summed)(jax.device_put(x))), None)


HOWS: dict[str, Callable[..., Mapped]] = {
    "saved": saved,
    "numbers": with_numbers,
    "graded": graded,
}
