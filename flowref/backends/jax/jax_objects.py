"""Recognition of JAX objects: by their class, their arrays, what their functions refer to, or what
the modules of their classes import.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from flowref.backends.closures import cells

PACKAGES = frozenset(
    {
        "jax", "jaxlib", "equinox", "flax", "haiku", "optax", "paramax", "flowjax", "bijx", "numpyro",
        "distrax", "distreqx",
    }
)  # fmt: skip
# The depth to which references of functions, and imports within a package, are followed.
DEEPEST = 3
# Longer lists are not pairs of functions.
FEW = 6


def owns(obj: Any) -> bool:
    """Whether an object belongs to JAX, and to no other framework."""
    packages = {base.__module__.partition(".")[0] for base in type(obj).__mro__}
    if "torch" in packages:
        return False
    if packages & PACKAGES:
        return True
    if isinstance(obj, tuple | list) and len(obj) <= FEW:
        return any(map(owns, obj))
    if isinstance(obj, functools.partial):  # a function with its parameters bound
        return any(map(owns, (obj.func, *obj.args, *obj.keywords.values())))
    held = getattr(obj, "__dict__", {}).values()
    if any(isinstance(one, functools.partial) and owns(one) for one in held):
        return True
    import jax

    from flowref.backends.jax.trees import arrays, leaves_and_tree

    if any(isinstance(array, jax.Array) for array in arrays(obj)):
        return True
    if leaves_and_tree(obj)[0] and not any(_functions(obj)):
        return False
    if any(_refers_to_jax(function, DEEPEST) for function in _functions(obj)):
        return True
    return imports_jax(type(obj))


def imports_jax(kind: type) -> bool:
    """Whether the module of a class, or of a base, imports JAX and not torch, directly or through
    modules of its package: a class without arrays may compute with those.
    """
    seen = {base.__module__ for base in kind.__mro__} - {"builtins"}
    layer, found = list(seen), set[str]()
    for _ in range(DEEPEST + 1):
        inner = set[str]()
        for name in layer:
            package = name.partition(".")[0]
            for imported in _imported_modules(name):
                other = imported.partition(".")[0]
                (inner if other == package else found).add(imported if other == package else other)
        layer = list(inner - seen)
        seen |= inner
    return bool(found & PACKAGES) and "torch" not in found


def _imported_modules(name: str) -> Iterator[str]:
    module = sys.modules.get(name)
    if module is not None and name.partition(".")[0] not in sys.stdlib_module_names:
        for value in list(vars(module).values()):
            if isinstance(value, types.ModuleType):
                yield value.__name__


def _functions(obj: Any) -> Iterator[types.FunctionType]:
    """The functions that an object is, has as attributes, or is composed of."""
    if isinstance(obj, types.FunctionType):
        yield obj
    else:
        held = getattr(obj, "__dict__", {})
        methods = (value for kind in type(obj).__mro__[:-1] for value in vars(kind).values())
        for value in (*held.values(), *methods):
            inner = getattr(value, "__func__", value)
            inner = getattr(inner, "__wrapped__", inner)
            if isinstance(inner, types.FunctionType):
                yield inner


def _refers_to_jax(function: types.FunctionType, depth: int) -> bool:
    """Whether a function refers to a module or an object of JAX, directly or through functions
    that it calls.
    """
    names = set(_code_names(function.__code__))
    globals_ = function.__globals__
    values = [globals_[name] for name in names if name in globals_]
    values += [inner for _, inner in cells(function)]
    for value in values:
        package = value.__name__ if isinstance(value, types.ModuleType) else type(value).__module__
        if str(package).partition(".")[0] in PACKAGES:
            return True
        inner = getattr(value, "__wrapped__", value)
        if str(getattr(inner, "__module__", "")).partition(".")[0] in PACKAGES:
            return True
        if isinstance(inner, types.FunctionType):
            if depth and _refers_to_jax(inner, depth - 1):
                return True
        elif not isinstance(inner, types.ModuleType | type) and imports_jax(type(inner)):
            return True
    return False


def _code_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_names(constant)
