"""The names of a program: the source of values, and the imports that it needs."""

from __future__ import annotations

import ast
import functools
import math
import sys
from types import ModuleType
from typing import Any

from flowref.model import FlowrefError

# Modules whose members are written with a dot -> alias.
WHOLE = {
    "torch": "torch",
    "torch.nn": "nn",
    "math": "math",
    "numpy": "np",
    "functools": "functools",
    "jax": "jax",
    "jax.numpy": "jnp",
}
BUILTINS = ("builtins", "torch", "math", "numpy")


# The most entries of an array in the source.
FEW = 16


class Unwritable(FlowrefError):
    """A value or construct without a short source."""


class Names:
    """The names in use in a program, by their values."""

    def __init__(self, taken: set[str]) -> None:
        self.taken: dict[str, object] = dict.fromkeys(taken)
        for path, alias in WHOLE.items():
            self.taken[alias] = sys.modules.get(path)
        self.imports: set[str] = set()

    def within(self, taken: set[str]) -> Names:
        """The names inside a function of the program, which may hide outer variables."""
        inner = Names(taken)
        inner.taken |= {name: value for name, value in self.taken.items() if value is not None}
        inner.imports = self.imports
        return inner

    def fresh(self, wish: str) -> str:
        """An unused name, ``wish`` or the wish with a number."""
        name, count = wish, 1
        while name in self.taken:
            count += 1
            name = f"{wish}_{count}"
        self.taken[name] = None
        return name

    def write(self, value: Any) -> ast.expr:
        """Return a constant as an expression. Raises: `Unwritable` if it is no plain value."""
        if isinstance(value, float):
            return self._float(value)
        if value is None or value is ... or isinstance(value, (bool, int, str, bytes)):
            return ast.parse(repr(value), mode="eval").body
        if isinstance(value, ModuleType):
            return _name_expression(self._module(value))
        if isinstance(value, range):
            return ast.parse(repr(value).replace("range(0, ", "range("), mode="eval").body
        if type(value) in (tuple, list, set):
            entries = [self.write(entry) for entry in value]
            if isinstance(value, set):
                return ast.Set(entries)
            kind = ast.Tuple if isinstance(value, tuple) else ast.List
            return kind(entries, ast.Load())
        if type(value) is dict:
            return ast.Dict([*map(self.write, value)], [*map(self.write, value.values())])
        if type(value).__module__ == "torch" and repr(value).startswith("torch."):
            self.imports.add("import torch")  # a dtype or a size
            return ast.parse(repr(value), mode="eval").body
        if isinstance(value, functools.partial):
            given = [self.write(one) for one in (value.func, *value.args)]
            named = [ast.keyword(name, self.write(one)) for name, one in value.keywords.items()]
            return ast.Call(self.write(functools.partial), given, named)
        if type(value).__module__.startswith("jaxlib") and getattr(value, "size", FEW + 1) <= FEW:
            self.imports.add("import jax.numpy as jnp")
            return ast.parse(f"jnp.array({value.tolist()!r})", mode="eval").body
        return self._member(value)

    def _float(self, value: float) -> ast.expr:
        named = {math.pi: "math.pi", math.e: "math.e", math.inf: "math.inf", -math.inf: "-math.inf"}
        if value in named or math.isnan(value):
            self.imports.add("import math")
            return ast.parse(named.get(value, "math.nan"), mode="eval").body
        return ast.parse(repr(value), mode="eval").body

    def _member(self, value: Any) -> ast.expr:
        """A class or function of a library, by the shortest import path."""
        module, name = home(value)
        if module == "builtins":
            return _name_expression(name)
        if module in WHOLE:
            return ast.Attribute(
                _name_expression(self._module(sys.modules[module])), name, ast.Load()
            )
        return _name_expression(self._imported(value, module, name))

    def _module(self, module: ModuleType) -> str:
        parent, _, leaf = module.__name__.rpartition(".")
        if module.__name__ == "numpy":
            return self._imported(module, "", "numpy", "np")
        if module.__name__ == "jax.numpy":
            return self._imported(module, "", "jax.numpy", "jnp")
        return self._imported(module, parent, leaf)

    def _imported(self, value: Any, module: str, name: str, alias: str = "") -> str:
        alias = alias or name
        if alias in self.taken and self.taken[alias] is not value:
            alias = self.fresh(f"{module.rpartition('.')[2]}_{name}")
        self.taken[alias] = value
        source = f"from {module} import {name}" if module else f"import {name}"
        self.imports.add(source if alias == name else f"{source} as {alias}")
        return alias


def home(value: Any) -> tuple[str, str]:
    """Return the shortest module path that exports a class or function, and its name. Raises:
    `Unwritable` if there is none.
    """
    name = getattr(value, "__name__", "")
    inside = (getattr(value, "__module__", None) or "").split(".")
    paths = [".".join(inside[: end + 1]) for end in range(len(inside))] if inside[0] else BUILTINS
    for path in paths:
        if name and getattr(sys.modules.get(path), name, None) is value and "flowref" not in path:
            return path, name
    raise Unwritable(f"it is made of {_brief(value)}, which no import line names")


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}..."


def _name_expression(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())
