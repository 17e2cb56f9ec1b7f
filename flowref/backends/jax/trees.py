"""Objects split into floating arrays, which become arguments of compiled programs, and the rest,
which does not change. An ordinary object that is no pytree is opened by its attributes.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.closures import cells
from flowref.backends.data import is_mask
from flowref.model import TargetError

# Nodes whose arrays are not trained, by the name of their class: paramax and flax.
FROZEN = frozenset(
    {"NonTrainable", "Frozen", "BatchStat", "RngState", "RngKey", "RngCount", "Const"}
)
# Libraries whose objects store values computed from their parameters, as leaves too: a scale, its
# logarithm and its inverse.
DERIVING = frozenset({"distrax", "tensorflow_probability"})
# Bijectors by which TensorFlow Probability declares that a parameter may be any number, or any
# positive one.
UNCONSTRAINED, ABOVE = "Identity", frozenset({"Softplus", "Exp"})
# What users can do so that arrays outside of pytrees are moved.
TOLD_BY = "register its class as a pytree, or hand over (parameters, forward, inverse)"
# The depth to which ordinary objects are opened, and functions searched.
DEEPEST = 6
# The depth to which functions of the same file are followed, and packages whose functions are
# constant.
SHALLOW = 1
FOREIGN = frozenset(
    {"jax", "jaxlib", "numpy", "scipy", "equinox", "flax", "flowjax", "numpyro", "bijx", "paramax"}
)


@dataclass(frozen=True)
class Tree:
    """An object without its floating arrays. ``entries``: for each leaf of the structure None for
    an array, the `Tree` of an opened object, or the value itself; ``kind`` and ``names``: of an
    opened object.
    """

    structure: Any
    entries: tuple[Any, ...]
    kind: type | None = None
    names: tuple[str, ...] = ()

    def filled(self, leaves: Sequence[Any]) -> Any:
        """The object with these floating arrays."""
        return self._filled(iter(leaves))

    def _filled(self, leaves: Iterator[Any]) -> Any:
        made = [
            next(leaves)
            if entry is None
            else entry._filled(leaves)
            if isinstance(entry, Tree)
            else entry[0]
            for entry in self.entries
        ]
        whole = jax.tree.unflatten(self.structure, made)
        if self.kind is None:
            return whole
        kind: Any = self.kind
        obj = kind.__new__(kind)
        obj.__dict__.update(dict(zip(self.names, whole, strict=True)))
        return obj

    @property
    def key(self) -> Hashable:
        """A key that is equal for objects that compute the same from equal arrays."""
        entries = tuple(
            "array"
            if entry is None
            else entry.key
            if isinstance(entry, Tree)
            else hashable_key(entry[0])
            for entry in self.entries
        )
        return (self.structure, entries, self.kind, self.names)


def floating(leaf: Any) -> bool:
    """Whether a leaf is a floating array."""
    return isinstance(leaf, jax.Array | np.ndarray) and bool(
        jnp.issubdtype(leaf.dtype, jnp.floating)
    )


def leaves_and_tree(obj: Any, every: bool = False) -> tuple[list[Any], Tree]:
    """Returns the floating arrays of an object, in a fixed order, and the rest; ``every``: all
    arrays, integer ones included, except random keys.
    """
    leaves: list[Any] = []
    return leaves, _split_tree(obj, leaves, (), numeric if every else floating)


def paths(obj: Any) -> Iterator[str]:
    """Yields the paths of an object's floating arrays, as written in code: ".bijections[0].loc"."""
    yield from _paths(obj, "", ())


def _paths(obj: Any, before: str, above: tuple[int, ...]) -> Iterator[str]:
    for path, node in jax.tree_util.tree_flatten_with_path(obj)[0]:
        place = before + jax.tree_util.keystr(path)
        if floating(node):
            yield place
        elif openable(node) and id(node) not in above and len(above) < DEEPEST:
            for name, held in vars(node).items():
                yield from _paths(held, f"{place}.{name}", (*above, id(node)))


def numeric(leaf: Any) -> bool:
    """Whether a leaf is an array of numbers or booleans."""
    return isinstance(leaf, jax.Array | np.ndarray) and not _is_key(leaf)


def _split_tree(
    obj: Any, leaves: list[Any], above: tuple[int, ...], wanted: Callable[[Any], bool]
) -> Tree:
    nodes, structure = jax.tree.flatten(obj)
    entries: list[Any] = []
    for node in nodes:
        if wanted(node):
            leaves.append(node)
            entries.append(None)
        elif openable(node) and id(node) not in above and len(above) < DEEPEST:
            held = dict(vars(node))
            inner = _split_tree(tuple(held.values()), leaves, (*above, id(node)), wanted)
            entries.append(Tree(inner.structure, inner.entries, type(node), tuple(held)))
        else:
            entries.append((node,))
    return Tree(structure, tuple(entries))


def independent_object(obj: Any) -> Any:
    """A copy of an object if calls could change it, since an ordinary object is inside; else the
    object itself.
    """
    leaves, tree = leaves_and_tree(obj)
    return tree.filled(leaves) if opened(tree) else obj


def opened(tree: Tree) -> bool:
    """Whether an ordinary object was opened, here or inside: calls can change it."""
    return tree.kind is not None or any(
        isinstance(entry, Tree) and opened(entry) for entry in tree.entries
    )


def openable(node: Any) -> bool:
    """Whether an object is an ordinary one that can be rebuilt from its attributes."""
    kind = type(node)
    if kind is types.SimpleNamespace:
        return True
    if callable(node) and not isinstance(getattr(node, "__dict__", None), dict):
        return False
    package = kind.__module__.partition(".")[0]
    return (
        isinstance(getattr(node, "__dict__", None), dict)
        and not isinstance(node, type | types.FunctionType | types.ModuleType | types.MethodType)
        and package not in ("jax", "jaxlib", "numpy", "builtins", "functools", "typing")
        and getattr(kind, "__new__", None) is object.__new__
    )


def hashable_key(value: Any, depth: int = 0) -> Hashable:
    """A key of a value that a program depends on: equal for functions with equal code and
    closures, since factories make them anew at each call.
    """
    if isinstance(value, jax.Array | np.ndarray):
        plain = np.asarray(jax.random.key_data(value) if _is_key(value) else value)
        return (str(value.dtype), plain.shape, plain.tobytes())
    if isinstance(value, types.FunctionType) and depth < DEEPEST:
        enclosed = (inner for _, inner in cells(value))
        bound = (*enclosed, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        if depth <= SHALLOW and value.__module__.partition(".")[0] not in FOREIGN:
            bound += tuple(_referenced_globals(value))
        inner = tuple(hashable_key(cell, depth + 1) for cell in bound)
        return (value.__code__, value.__module__, inner)
    if isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        return (type(value), value)
    if isinstance(value, tuple | list):
        return (type(value), tuple(hashable_key(one, depth + 1) for one in value))
    if isinstance(value, types.ModuleType | type):
        return (type(value), id(value))
    if isinstance(value, functools.partial):
        parts = (value.func, *value.args, *sorted(value.keywords.items()))
        return (type(value), hashable_key(parts, depth + 1))
    if isinstance(value, types.MethodType):
        return (type(value), hashable_key((value.__func__, value.__self__), depth + 1))
    if depth < DEEPEST and not jax.tree_util.all_leaves([value]):  # a pytree
        leaves, structure = jax.tree.flatten(value)
        return (structure, tuple(hashable_key(leaf, depth + 1) for leaf in leaves))
    if getattr(type(value), "__eq__", None) is not object.__eq__:  # it defines equality itself
        return (type(value), value)
    return (type(value), id(value))


def _referenced_globals(function: types.FunctionType) -> Iterator[Any]:
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def moving(obj: Any) -> list[bool]:
    """For each floating array of an object, whether training moves it: arrays of JAX in a pytree,
    except those that a library marks as not trained, and masks of zeros and ones. Arrays of an
    ordinary object may be parameters or constants, so they are not moved.
    """
    leaves, tree = leaves_and_tree(obj)
    frozen = {
        id(leaf)
        for node in jax.tree.leaves(obj, is_leaf=is_frozen)
        if is_frozen(node)
        for leaf in jax.tree.leaves(node)
    }
    return [
        outside and isinstance(leaf, jax.Array) and id(leaf) not in frozen and not is_mask(leaf)
        for leaf, outside in zip(leaves, _outside_opened_objects(tree), strict=True)
    ]


def weights_of(obj: Any) -> list[bool]:
    """The same, but all arrays of an ordinary object except masks count as weights."""
    moves = moving(obj)
    return moves if any(moves) else [not is_mask(leaf) for leaf in leaves_and_tree(obj)[0]]


def resting(obj: Any) -> bool:
    """Whether an object has arrays that may or may not be parameters, and none that is moved."""
    leaves, tree = leaves_and_tree(obj)
    within = [
        not outside and leaf.size and not is_mask(leaf)
        for leaf, outside in zip(leaves, _outside_opened_objects(tree), strict=True)
    ]
    return any(within) and not any(moving(obj))


def _outside_opened_objects(tree: Tree, outside: bool = True) -> Iterator[bool]:
    for entry in tree.entries:
        if entry is None:
            yield outside
        elif isinstance(entry, Tree):
            yield from _outside_opened_objects(entry, False)


def is_frozen(node: Any) -> bool:
    """Whether a node marks its arrays as not trained, or stores values computed from others."""
    if {kind.__name__ for kind in type(node).__mro__} & FROZEN:
        return True
    return deriving(node) and not movable(node)


def deriving(node: Any) -> bool:
    """Whether an object's library stores values computed from its parameters."""
    packages = {kind.__module__.partition(".")[0] for kind in type(node).__mro__}
    return bool(packages & DERIVING)


def movable(node: Any) -> bool:
    """Whether the arrays of an object of such a library may be moved: it declares the values of
    its parameters, and `moved_leaf` preserves them; or neither it nor an object of the library
    inside it has an array of its own, so that all arrays belong to functions.
    """
    declared = getattr(node, "parameter_properties", None)
    if declared is None:
        held = list(getattr(node, "__dict__", {}).values())
        within = filter(deriving, jax.tree.leaves(held, is_leaf=deriving))
        return not any(map(floating, held)) and all(map(movable, within))
    try:
        properties = declared(dtype=node.dtype if isinstance(node.dtype, type) else jnp.float64)
        return all(
            _stays_valid_when_moved(properties[name], held)
            for name, held in node.parameters.items()
            if floating(held)
        )
    except (NotImplementedError, AttributeError, KeyError):  # it does not declare them
        return False


def _stays_valid_when_moved(property: Any, held: Any) -> bool:
    onto = type(property.default_constraining_bijector_fn()).__name__
    return onto == UNCONSTRAINED or (onto in ABOVE and positive(held))


def cast(obj: Any, dtype: str) -> Any:
    """Returns the object with its floating arrays in another dtype (flax initializes in float32).
    Raises `TargetError` for traced arrays.
    """
    leaves, tree = leaves_and_tree(obj)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise TargetError(
            f"a {type(obj).__name__} holds a traced array, so it was built inside of jit, grad or "
            "vmap; build it outside, or return it from there"
        )
    if all(str(leaf.dtype) == dtype for leaf in leaves):
        return obj
    return tree.filled([jnp.asarray(leaf, dtype) for leaf in leaves])


def moved_leaf(leaf: Any, step: Any, scale: float) -> Any:
    """An array moved along a direction. Parameters of a pytree cannot be told from constants, nor
    which must be positive: arrays with only positive entries stay positive.
    """
    return leaf * jnp.exp(scale * step) if positive(leaf) else leaf + scale * step


def all_moved(obj: Any, scale: float) -> Any:
    """The object with all floating arrays moved along a seeded direction."""
    leaves, tree = leaves_and_tree(obj)
    rng = np.random.default_rng(0)
    return tree.filled(
        [moved_leaf(leaf, rng.standard_normal(leaf.shape), scale) for leaf in leaves]
    )


def positive(leaf: Any) -> bool:
    """Whether an array is not empty and all entries are positive."""
    plain = np.asarray(leaf)
    return plain.size > 0 and bool((plain > 0).all())


def fingerprint(obj: Any) -> str:
    """A digest of the class and the arrays of an object."""
    digest = hashlib.sha256(type(obj).__qualname__.encode())
    for leaf in leaves_and_tree(obj)[0]:
        plain = np.asarray(leaf)
        digest.update(f"{plain.shape} {plain.dtype}".encode())
        digest.update(np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()


def arrays(obj: Any) -> list[Any]:
    """All arrays that an object holds."""
    leaves, tree = leaves_and_tree(obj)
    return [*leaves, *_fixed_arrays(tree)]


def _fixed_arrays(tree: Tree) -> Iterator[Any]:
    for entry in tree.entries:
        if isinstance(entry, Tree):
            yield from _fixed_arrays(entry)
        elif entry is not None and isinstance(entry[0], jax.Array | np.ndarray):
            yield entry[0]
