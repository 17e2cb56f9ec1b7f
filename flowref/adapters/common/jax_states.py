"""Layers of JAX that keep state: how they are called in training and in evaluation, and what the state
is afterwards. A call takes an object and gives the object that it is then, so that nothing is changed.

An object is a module of flax beside its variables, one of equinox beside its state, a module of
flax.nnx, an ordinary object that a call changes or that returns what it has become, or a function beside
its parameters and its state.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flowref import backends
from flowref.adapters.common.signatures import parameter_names, required

# Parameters that choose between training and evaluation, with what they are in evaluation.
EVALUATING: dict[str, Any] = {
    "train": False,
    "training": False,
    "is_training": False,
    "inference": True,
    "deterministic": True,
    "use_running_average": True,
}
LINEN, EQUINOX, OWN, BESIDE, APPLIED = "linen", "equinox", "own", "beside", "applied"
# Methods that may be the map.
METHODS = ("__call__", "forward", "transform", "encode")
# How deep objects are looked into.
DEEPEST = 4
# How a batch axis is called by users of equinox where their layers do not tell it.
AXIS = "batch"


@dataclass(frozen=True)
class StateConvention:
    """How an object is called that keeps state. ``style``: where the state is: "linen" and "equinox", in
    the second of a pair; "own", in the object; "beside", in the second of a pair, and it is given to
    the call as an argument, as the ``place``-th; "applied", in the third of a function, its parameters and
    its state, which takes points as the ``place``-th and these two in their order. ``flag``: the parameter that chooses training.
    ``single``: whether it takes one event, on a batch axis of the name ``axis``.
    """

    style: str
    method: str = "__call__"
    flag: str = ""
    single: bool = False
    axis: str = AXIS
    place: int = 1


def evaluate_batch(obj: Any, x: Any, context: Any, way: StateConvention) -> tuple[Any, Any]:
    """Value and log-det of a batch in evaluation."""
    return call_in_mode(obj, x, way, False)[:2]


def after_evaluation(obj: Any, x: Any, context: Any, way: StateConvention) -> tuple[Any, Any, Any]:
    """The same, and the object afterwards, which is to be what it was."""
    return call_in_mode(obj, x, way, False)


def call_in_training(obj: Any, x: Any, context: Any, way: StateConvention) -> tuple[Any, Any, Any]:
    """Value and log-det of a batch in training, and the object afterwards."""
    return call_in_mode(obj, x, way, True)


def call_in_mode(obj: Any, x: Any, way: StateConvention, training: bool) -> tuple[Any, Any, Any]:
    """A call in training or in evaluation."""
    evaluation = EVALUATING.get(way.flag)
    flags = {way.flag: not evaluation if training else evaluation} if way.flag else {}
    if way.style == LINEN:
        module, variables = obj
        kept = [name for name in variables if name != "params"] if training else False
        out = module.apply(variables, x, method=way.method, mutable=kept, **flags)
        out, changed = out if training else (out, {})
        after: Any = (module, {**variables, **changed})
    elif way.style == EQUINOX:
        out, state = of_equinox(obj, x, way, flags, training)
        after = (obj[0], state)
    elif way.style == BESIDE:
        layer, state = obj
        run = getattr(layer, way.method) if way.method else layer
        out, state = split_state(run(*((x, state) if way.place else (state, x)), **flags), state)
        after = (layer, state)
    elif way.style == APPLIED:
        run, *given = obj
        given.insert(way.place, x)
        out, state = split_state(run(*given, **flags), obj[2])
        after = (*obj[:2], state)
    else:
        live = copied_object(obj)
        set_mode(live, training)
        out, after = split_state(getattr(live, way.method)(x, **flags), live)
        set_mode(after, False)
    return *value_and_log_det(out, x), after


def of_equinox(
    obj: Any, x: Any, way: StateConvention, flags: Mapping[str, Any], training: bool
) -> tuple[Any, Any]:
    """What a module beside its state returns, and the state afterwards."""
    import equinox
    import jax

    module, given = obj
    state = copied_object(given)  # one that was used refuses to be used again
    run = getattr(equinox.nn.inference_mode(module, value=not training), way.method)

    def once(points: Any) -> tuple[Any, Any]:
        return split_state(run(points, copied_object(state), **flags), state)

    if not way.single:
        return once(x)
    out: tuple[Any, Any] = jax.vmap(once, axis_name=way.axis, out_axes=(0, None))(x)
    return out


def copied_object(obj: Any) -> Any:
    """An object that a call may change: pytrees put together anew, and copies of ordinary objects."""
    import jax

    return jax.tree.map(lambda leaf: leaf, backends.find("jax").duplicate(obj))


def split_state(out: Any, state: Any) -> tuple[Any, Any]:
    """What a call returned without the state among it, and that state; the one before, where there is
    none.
    """
    if not isinstance(out, tuple | list):
        return out, state
    same = [index for index, one in enumerate(out) if like(one, state)]
    if not same:
        return out, state
    rest = [one for index, one in enumerate(out) if index != same[-1]]
    return (rest[0] if len(rest) == 1 else tuple(rest)), out[same[-1]]


def like(one: Any, state: Any) -> bool:
    """Whether a value is of the kind and the structure of a state, which is no single array."""
    import jax

    if type(one) is not type(state) or hasattr(one, "dtype"):
        return False
    return bool(jax.tree.structure(one) == jax.tree.structure(state)) or not isinstance(
        one, tuple | list | dict
    )


def value_and_log_det(out: Any, x: Any) -> tuple[Any, Any]:
    """A value and a log-det, or None."""
    if not isinstance(out, tuple | list):
        return out, None
    value = next((one for one in out if getattr(one, "shape", None) == x.shape), out[0])
    others = [one for one in out if one is not value]
    return value, (others[0] if others else None)


def set_mode(obj: Any, training: bool) -> None:
    """Train or eval mode of an object that has one."""
    change = getattr(obj, "train" if training else "eval", None)
    if callable(change) and not required(change):
        change()
    elif isinstance(getattr(obj, "training", None), bool):
        object.__setattr__(obj, "training", training)


def ways(obj: Any) -> Iterator[StateConvention]:
    """How an object may be called, likeliest first; none where nothing tells that it keeps state, which a
    way of training does.
    """
    owner, style = obj, OWN
    if isinstance(obj, tuple | list):
        if len(obj) == 3 and callable(obj[0]):
            chosen = [name for name in parameter_names(obj[0]) if name in EVALUATING]
            yield from (
                StateConvention(APPLIED, "", name, place=at)
                for name in chosen[:1]
                for at in (2, 1, 0)
            )
        if len(obj) != 2:
            return
        owner, style = obj[0], style_of(*obj)
    for method in METHODS if style != BESIDE or not inspect.isroutine(owner) else ("",):
        run = getattr(owner, method, None) if method else owner
        if not callable(run) or (method == "__call__" and isinstance(owner, type)):
            continue
        flags = [name for name in parameter_names(run) if name in EVALUATING]
        way = StateConvention(style, method, flags[0] if flags else "")
        if style == LINEN:
            if any(name != "params" for name in obj[1]):
                yield way
        elif style == EQUINOX:
            axis = axis_of(owner)
            yield from (replace(way, single=True, axis=axis), way)
        elif flags or has_train_and_eval(owner):
            if style == OWN:
                yield way
            else:
                yield from (way, replace(way, place=0))


def has_train_and_eval(obj: Any) -> bool:
    """Whether an object has two modes: methods for them, or a flag."""
    methods = all(
        callable(getattr(obj, name, None)) and not required(getattr(obj, name))
        for name in ("train", "eval")
    )
    return methods or isinstance(getattr(obj, "training", None), bool)


def style_of(module: Any, more: Any) -> str:
    """Where the state of a pair is."""
    packages = {base.__module__.partition(".")[0] for base in type(module).__mro__}
    if (
        "flax" in packages
        and isinstance(more, Mapping)
        and callable(getattr(module, "apply", None))
    ):
        return LINEN
    if "equinox" in packages and type(more).__name__ == "State":
        return EQUINOX
    return BESIDE


def axis_of(module: Any) -> str:
    """The name of the batch axis that a layer in a module of equinox asks for."""
    import jax

    for node in jax.tree.leaves(module, is_leaf=lambda one: hasattr(one, "axis_name")):
        name = getattr(node, "axis_name", None)
        if isinstance(name, str):
            return name
    return AXIS


def arrays(obj: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every array that an object holds, by its dotted name: leaves of a pytree, and attributes of an
    ordinary object in it.
    """
    for name, leaf in named_leaves(obj):
        if is_array(leaf):
            yield name, leaf
        elif is_ordinary(leaf) and depth < DEEPEST:
            for attribute, value in vars(leaf).items():
                for more, one in arrays(value, depth + 1):
                    yield ".".join(filter(None, (name, attribute, more))), one


def named_leaves(obj: Any) -> list[tuple[str, Any]]:
    """The leaves of a pytree by their dotted names."""
    import jax

    found = jax.tree_util.tree_flatten_with_path(obj)[0]
    return [(jax.tree_util.keystr(at, simple=True, separator="."), leaf) for at, leaf in found]


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array of numbers."""
    import jax
    import numpy as np

    keys = jax.dtypes.prng_key
    return isinstance(leaf, jax.Array | np.ndarray) and not jax.numpy.issubdtype(leaf.dtype, keys)


def is_ordinary(leaf: Any) -> bool:
    """Whether a leaf is an object that has attributes and is neither a function nor a class."""
    package = type(leaf).__module__.partition(".")[0]
    return (
        isinstance(getattr(leaf, "__dict__", None), dict)
        and not callable_only(leaf)
        and package not in ("jax", "jaxlib", "numpy", "builtins", "functools", "flax")
    )


def having(obj: Any, name: str, value: Any) -> Any:
    """A copy of an object in which an array or a number is another; `AttributeError` where it has none of
    that name.
    """
    import jax

    leaves, structure = jax.tree.flatten(obj)
    for index, (label, leaf) in enumerate(named_leaves(obj)):
        rest = name.removeprefix(f"{label}.") if label else name
        if label == name and is_array(leaf):
            leaves[index] = value
        elif is_ordinary(leaf) and (not label or rest != name):
            leaves[index] = with_attribute(leaf, rest, value)
        else:
            continue
        return jax.tree.unflatten(structure, leaves)
    return with_attribute(obj, name, value)


def with_attribute(obj: Any, path: str, value: Any) -> Any:
    """A copy of an object in which an attribute of it, or of a part of it, is another."""
    first, _, rest = path.partition(".")
    if isinstance(obj, tuple):
        at = int(first)
        return (*obj[:at], having(obj[at], rest, value), *obj[at + 1 :])
    made = copy.copy(obj)
    inner = having(getattr(obj, first), rest, value) if rest else value
    object.__setattr__(made, first, inner)
    return made


def array_or_number(obj: Any, name: str | None = None) -> Any:
    """An array or a number that an object holds under a name; without a name all of its arrays."""
    found = dict(arrays(obj))
    if name is None:
        return found
    return found[name] if name in found else dict(numeric_attributes(obj))[name]


def numeric_attributes(obj: Any, depth: int = 0) -> Iterator[tuple[str, float]]:
    """The Python numbers that an object and its parts hold as attributes, by their dotted names."""
    if isinstance(obj, tuple):
        if depth == 0 and obj:
            yield from (
                (f"0.{name}", value) for name, value in numeric_attributes(obj[0], depth + 1)
            )
        return
    held = getattr(obj, "__dict__", None)
    for name, value in held.items() if isinstance(held, dict) and depth < DEEPEST else ():
        if isinstance(value, float):
            yield name, value
        elif not name.startswith("_") and hasattr(value, "__dict__") and not callable_only(value):
            yield from (
                (f"{name}.{more}", one) for more, one in numeric_attributes(value, depth + 1)
            )


def callable_only(value: Any) -> bool:
    """Whether a value is a function, a class or a module, of which no attribute is a constant."""
    return inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)
