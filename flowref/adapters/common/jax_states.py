"""Stateful layers of JAX: calls in training and evaluation, and the state afterwards.

A call takes an object and returns the updated one; nothing is changed in place. An object is a flax module
with its variables, an equinox module with its state, a flax.nnx module, an ordinary object that a call
changes or that returns its successor, or a function with parameters and state.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flowref import backends
from flowref.adapters.common.signatures import parameter_names, required

# Mode parameters, with their value in evaluation.
EVALUATING: dict[str, Any] = {
    "train": False,
    "training": False,
    "is_training": False,
    "inference": True,
    "deterministic": True,
    "use_running_average": True,
}
LINEN, EQUINOX, OWN, BESIDE, APPLIED = "linen", "equinox", "own", "beside", "applied"
# Candidate methods of the map.
METHODS = ("__call__", "forward", "transform", "encode")
# Maximal depth of the search in objects.
DEEPEST = 4
# The usual name of a batch axis in equinox, if layers state none.
AXIS = "batch"


@dataclass(frozen=True)
class StateConvention:
    """How a stateful object is called.

    ``style``: where the state is: "linen" and "equinox" in the second of a pair; "own" in the object;
    "beside" in the second of a pair, passed as argument number ``place``; "applied" in a triple of
    function, parameters and state, with points at ``place`` and the other two in order. ``flag``: the mode
    parameter. ``single``: takes one event, over a batch axis named ``axis``.
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
    """As `evaluate_batch`, with the object afterwards, which should be unchanged."""
    return call_in_mode(obj, x, way, False)


def call_in_training(obj: Any, x: Any, context: Any, way: StateConvention) -> tuple[Any, Any, Any]:
    """Value and log-det of a batch in training, and the updated object."""
    return call_in_mode(obj, x, way, True)


def call_in_mode(obj: Any, x: Any, way: StateConvention, training: bool) -> tuple[Any, Any, Any]:
    """A call in training or evaluation: value, log-det and the object afterwards."""
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
    """The result of an equinox module with state, and the new state."""
    import equinox
    import jax

    module, given = obj
    state = copied_object(given)  # a used state cannot be used again
    run = getattr(equinox.nn.inference_mode(module, value=not training), way.method)

    def once(points: Any) -> tuple[Any, Any]:
        return split_state(run(points, copied_object(state), **flags), state)

    if not way.single:
        return once(x)
    out: tuple[Any, Any] = jax.vmap(once, axis_name=way.axis, out_axes=(0, None))(x)
    return out


def copied_object(obj: Any) -> Any:
    """A copy of an object that a call may change: rebuilt pytrees, copied ordinary objects."""
    import jax

    return jax.tree.map(lambda leaf: leaf, backends.find("jax").duplicate(obj))


def split_state(out: Any, state: Any) -> tuple[Any, Any]:
    """The result without the state in it, and that state; the given one if none is returned."""
    if not isinstance(out, tuple | list):
        return out, state
    same = [index for index, one in enumerate(out) if like(one, state)]
    if not same:
        return out, state
    rest = [one for index, one in enumerate(out) if index != same[-1]]
    return (rest[0] if len(rest) == 1 else tuple(rest)), out[same[-1]]


def like(one: Any, state: Any) -> bool:
    """Whether a value has the type and structure of a state, which is not a single array."""
    import jax

    if type(one) is not type(state) or hasattr(one, "dtype"):
        return False
    return bool(jax.tree.structure(one) == jax.tree.structure(state)) or not isinstance(
        one, tuple | list | dict
    )


def value_and_log_det(out: Any, x: Any) -> tuple[Any, Any]:
    """Value and log-det; the latter may be None."""
    if not isinstance(out, tuple | list):
        return out, None
    value = next((one for one in out if getattr(one, "shape", None) == x.shape), out[0])
    others = [one for one in out if one is not value]
    return value, (others[0] if others else None)


def set_mode(obj: Any, training: bool) -> None:
    """Set an object to train or eval mode, if it has modes."""
    change = getattr(obj, "train" if training else "eval", None)
    if callable(change) and not required(change):
        change()
    elif isinstance(getattr(obj, "training", None), bool):
        object.__setattr__(obj, "training", training)


def ways(obj: Any) -> Iterator[StateConvention]:
    """Candidate calls of an object, likeliest first; none if it shows no state or mode."""
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
    methods = all(
        callable(getattr(obj, name, None)) and not required(getattr(obj, name))
        for name in ("train", "eval")
    )
    return methods or isinstance(getattr(obj, "training", None), bool)


def style_of(module: Any, more: Any) -> str:
    """The style of a pair."""
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
    """The batch axis that an equinox layer in a module requires."""
    import jax

    for node in jax.tree.leaves(module, is_leaf=lambda one: hasattr(one, "axis_name")):
        name = getattr(node, "axis_name", None)
        if isinstance(name, str):
            return name
    return AXIS


def arrays(obj: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """All arrays of an object by dotted name: leaves of pytrees, and attributes of ordinary objects inside."""
    for name, leaf in leaves_by_name(obj):
        if is_array(leaf):
            yield name, leaf
        elif is_ordinary(leaf) and depth < DEEPEST:
            for attribute, value in vars(leaf).items():
                for more, one in arrays(value, depth + 1):
                    yield ".".join(filter(None, (name, attribute, more))), one


def leaves_by_name(obj: Any) -> list[tuple[str, Any]]:
    import jax

    found = jax.tree_util.tree_flatten_with_path(obj)[0]
    return [(jax.tree_util.keystr(at, simple=True, separator="."), leaf) for at, leaf in found]


def is_array(leaf: Any) -> bool:
    """Whether a leaf is a numeric array."""
    import jax
    import numpy as np

    keys = jax.dtypes.prng_key
    return isinstance(leaf, jax.Array | np.ndarray) and not jax.numpy.issubdtype(leaf.dtype, keys)


def is_ordinary(leaf: Any) -> bool:
    """Whether a leaf is an object with attributes, other than a function or class."""
    package = type(leaf).__module__.partition(".")[0]
    return (
        isinstance(getattr(leaf, "__dict__", None), dict)
        and not callable_only(leaf)
        and package not in ("jax", "jaxlib", "numpy", "builtins", "functools", "flax")
    )


def having(obj: Any, name: str, value: Any) -> Any:
    """A copy of an object with one array or number replaced. Raises `AttributeError` for an unknown name."""
    import jax

    leaves, structure = jax.tree.flatten(obj)
    for index, (label, leaf) in enumerate(leaves_by_name(obj)):
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
    """A copy of an object with an attribute of it, or of a part, replaced."""
    first, _, rest = path.partition(".")
    if isinstance(obj, tuple):
        at = int(first)
        return (*obj[:at], having(obj[at], rest, value), *obj[at + 1 :])
    made = copy.copy(obj)
    inner = having(getattr(obj, first), rest, value) if rest else value
    object.__setattr__(made, first, inner)
    return made


def array_or_number(obj: Any, name: str | None = None) -> Any:
    """An array or number of an object by name; a dictionary of all arrays without a name."""
    found = dict(arrays(obj))
    if name is None:
        return found
    return found[name] if name in found else dict(numeric_attributes(obj))[name]


def numeric_attributes(obj: Any, depth: int = 0) -> Iterator[tuple[str, float]]:
    """The Python numbers in attributes of an object and its parts, by dotted name."""
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
    """Whether a value is a function, class or module, whose attributes are not constants."""
    return inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)
