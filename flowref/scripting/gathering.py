"""The sources that a program needs: everything that its roots refer to, in an order in which it can
be defined.

Functions of flowref are written out, with the values that they closed over in place of free
variables; functions and classes of other packages are imported. What is left out (methods, entries
of tables) is what no name, attribute or string in the written code speaks of, so gathering is
repeated until that is settled.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import math
import sys
import traceback
import types
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from flowref.model import (
    Coupling,
    Dialect,
    Facts,
    FlowrefError,
    Law,
    MultiScale,
    Normalizer,
    Squeezing,
    Target,
)
from flowref.scripting import sources
from flowref.scripting.editing import MISSING, Editor
from flowref.scripting.scopes import argument_of, arguments

# The facts that abilities look up; whatever laws look up is the subject's.
SHAPES = ("event_shape", "latent_shape", "normalizer", "coupling")
# Modules that every program imports under their own names, which are taken.
STANDARD = (sys, traceback)
# Where things are looked for that do not tell the module they are offered by.
NAMELESS = ("torch", "numpy", "math", "types", "scipy.special")


@dataclasses.dataclass
class Mentions:
    """What the written code speaks of: attributes and strings, and attributes of the local names
    ``subject``.
    """

    words: set[str] = dataclasses.field(default_factory=set)
    in_laws: set[str] = dataclasses.field(default_factory=set)
    of_subject: set[str] = dataclasses.field(default_factory=set)

    def size(self) -> int:
        """How much is known; gathering repeats until this is steady."""
        return len(self.words) + len(self.in_laws) + len(self.of_subject)


class Gathering:
    """The definitions of one program."""

    def __init__(
        self, substitutes: dict[Any, Any], mentions: Mentions, owned: set[str], reserved: set[str]
    ) -> None:
        self.substitutes = {id(key): value for key, value in substitutes.items()}
        # What stands in for something is called by its name.
        self.called = {
            id(value): key.__name__
            for key, value in substitutes.items()
            if isinstance(value, FunctionType)
        }
        self.kept: list[Any] = [substitutes]  # ids are only names while their objects live
        self.mentions, self.packages = mentions, owned
        self.names: dict[int, str] = {}
        self.taken: set[str] = set(reserved)
        self.imports: set[str] = set()
        self.definitions: list[str] = []

    def is_owned(self, module: str) -> bool:
        """Whether the contents of a module move into the program."""
        return module.partition(".")[0] in self.packages

    def express(self, value: Any, name: str = "value", module: str = "") -> str:
        """A value as an expression, once what it needs is defined. ``module``: where it is a global
        of that name.
        """
        value = self._substituted(value)
        if hasattr(value, "cache_info"):  # a function with a cache is that function
            value = value.__wrapped__
        if id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, Law):
            return self.express(value.measure, name)
        if isinstance(value, ModuleType):
            return self._module(value, name)
        if isinstance(value, FunctionType) and self.is_owned(sources.home(sources.written(value))):
            return self._function(value)
        if isinstance(value, type) and self.is_owned(value.__module__):
            return self._class(value)
        if module and not isinstance(value, type | FunctionType | types.BuiltinFunctionType):
            return self._constant(value, name, module)
        return self.literal(value)

    def literal(self, value: Any) -> str:
        """A value written out."""
        if value is None or value is Ellipsis or isinstance(value, bool | int | str | bytes):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, list | tuple | set | frozenset):
            items = ", ".join(self.express(item) for item in value)
            if isinstance(value, tuple):
                return f"({items}{',' if len(value) == 1 else ''})"
            return f"[{items}]" if isinstance(value, list) else f"{type(value).__name__}([{items}])"
        if isinstance(value, dict):
            return (
                "{"
                + ", ".join(
                    f"{self.express(k)}: {self.express(v)}" for k, v in self._spoken_of(value)
                )
                + "}"
            )
        if isinstance(value, functools.partial):
            self.imports.add("from functools import partial")
            self.mentions.words |= {item for item in value.args if isinstance(item, str)}
            given = [self.express(value.func), *map(self.express, value.args)]
            given += [f"{key}={self.express(item, key)}" for key, item in value.keywords.items()]
            return f"partial({', '.join(given)})" if len(given) > 1 else given[0]
        if isinstance(value, Coupling | Dialect | Facts | MultiScale | Normalizer | Squeezing):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            spoken_of = (
                SHAPES
                if isinstance(value, Facts)
                else self.mentions.words
                if isinstance(value, Dialect)
                else fields
            )
            wanted = {k: v for k, v in fields.items() if v is not None and k in spoken_of}
            listed = ", ".join(f"{key}={self.express(item, key)}" for key, item in wanted.items())
            return f"{self.express(type(value))}({listed})"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            listed = ", ".join(
                self.express(getattr(value, field.name)) for field in dataclasses.fields(value)
            )
            return f"{self.express(type(value))}({listed})"
        if isinstance(value, types.MappingProxyType):
            return self.literal(dict(value))
        return self._imported(value)

    def _substituted(self, value: Any) -> Any:
        while id(value) in self.substitutes:
            value = self.substitutes[id(value)]
        return value

    def stands_in(self, value: Any) -> bool:
        """Whether something else is written in place of a value."""
        return self._substituted(value) is not value

    def wrote(self, value: Any) -> bool:
        """Whether a value already has a name in the program."""
        return id(self._substituted(value)) in self.names

    def _spoken_of(self, table: dict[Any, Any]) -> list[tuple[Any, Any]]:
        """The entries of a table of functions that some string names; all those of other tables."""
        functions = any(isinstance(value, FunctionType) for value in table.values())
        return [
            (k, v)
            for k, v in table.items()
            if not functions or not isinstance(k, str) or k in self.mentions.words
        ]

    def claim(self, value: Any, wanted: str) -> str:
        """A name of its own for a value."""
        name, count = wanted, 2
        while name in self.taken or hasattr(builtins, name):
            name, count = f"{wanted}_{count}", count + 1
        self.taken.add(name)
        self.names[id(value)] = name
        self.kept.append(value)
        return name

    def _module(self, module: ModuleType, alias: str) -> str:
        if self.is_owned(module.__name__):
            raise FlowrefError(
                f"{module.__name__} is used as a whole, which a program of its own cannot do"
            )
        if module in STANDARD:
            self.imports.add(f"import {module.__name__}")
            return module.__name__
        last = module.__name__.rpartition(".")[2]
        name = self.claim(module, alias if alias.isidentifier() and alias != "value" else last)
        package = module.__name__.rpartition(".")[0]
        if module.__name__ == name:
            self.imports.add(f"import {name}")
        elif last == name:
            self.imports.add(f"from {package} import {name}")
        else:
            self.imports.add(f"import {module.__name__} as {name}")
        return name

    def _imported(self, value: Any) -> str:
        """A function, class or other named object of another package."""
        module, name = (
            getattr(value, "__module__", None),
            getattr(value, "__qualname__", getattr(value, "__name__", None)),
        )
        if getattr(builtins, str(name), MISSING) is value:
            return str(name)
        if type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device"):
            self.imports.add("import torch")
            return repr(value)
        short = getattr(value, "__name__", None)
        for place in filter(None, (module, *NAMELESS)):
            holder = sys.modules.get(place)
            keys = (
                [name, short]
                if place != "types"
                else [key for key, item in vars(types).items() if item is value]
            )
            for key in filter(None, keys):
                if (
                    holder is not None
                    and getattr(holder, key, MISSING) is value
                    and not place.startswith("__")
                ):
                    claimed = self.claim(value, key)
                    self.imports.add(
                        f"from {place} import {key}" + (f" as {claimed}" if claimed != key else "")
                    )
                    return claimed
        raise FlowrefError(
            f"a {type(value).__name__} that the audited object is built from cannot be written as "
            "source"
        )

    def _constant(self, value: Any, name: str, module: str) -> str:
        key = (module, name)
        found = [known for known in self.kept if isinstance(known, _Constant) and known.key == key]
        if found:
            return self.names[id(found[0])]
        table = isinstance(value, dict) and any(
            isinstance(item, FunctionType) for item in value.values()
        )
        place = None if table or isinstance(value, Dialect) else sources.constant_node(module, name)
        if place is not None:
            source, node = place
            text = self._edited(
                source, node, lambda free: vars(sys.modules[module]).get(free, MISSING), module
            )
        else:
            text = self.literal(value)
        claimed = self.claim(_Constant(key), name)
        self.definitions.append(f"{claimed} = {text}")
        return claimed

    def _edited(
        self, source: sources.Source, node: Any, lookup: Callable[[str], Any], module: str
    ) -> str:
        editor = Editor(source, _Resolver(self, lookup, module))
        editor.visit(node)
        return source.edited(*source.span(node), editor.edits)

    def _function(self, function: FunctionType) -> str:
        code = sources.written(function)
        source, node = sources.function_node(code)
        nested = node not in source.tree.body
        wanted = (
            "make"
            if nested and code.__name__ in ("<lambda>", "build")
            else self.called.get(id(function), code.__name__)
        )
        name = self.claim(function, wanted)
        closed = dict(zip(code.__code__.co_freevars, code.__closure__ or (), strict=True))
        module = sources.home(code)

        def lookup(free: str) -> Any:
            if free in closed:
                return closed[free].cell_contents
            return code.__globals__.get(free, MISSING)

        resolver = _Resolver(self, lookup, module, set(closed))
        editor = Editor(source, resolver)
        defaults = dict(
            zip(
                reversed([*node.args.posonlyargs, *node.args.args]),
                reversed(code.__defaults__ or ()),
                strict=False,
            )
        )
        values = {argument.arg: value for argument, value in defaults.items()} | (
            code.__kwdefaults__ or {}
        )
        if isinstance(node, ast.Lambda):
            editor.scopes.append({argument.arg for argument in arguments(node.args)})
            editor.visit(node.body)
            body = source.edited(*source.span(node.body), editor.edits)
            body = f"(\n        {body}\n    )" if "\n" in body else body
            self.definitions.append(
                f"def {name}({self._signature(node.args, values)}):\n    return {body}"
            )
            return name
        start, end = source.span(node)
        for decorator in node.decorator_list:
            root = decorator.func if isinstance(decorator, ast.Call) else decorator
            known = editor.known(root.id) if isinstance(root, ast.Name) else MISSING
            if known is MISSING or not self.is_owned(getattr(known, "__module__", "")):
                start = min(start, source.text.rindex("@", 0, source.span(decorator)[0]))
                editor.visit(decorator)
        if nested:
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                argument = argument_of(node.args, default)
                editor.replace(default, self.express(values[argument], argument))
        else:
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                editor.visit(default)
        editor.body_of(node)
        self._define(source, start, end, editor, f"def {node.name}(", f"def {name}(")
        return name

    def _signature(self, args: ast.arguments, values: dict[str, Any]) -> str:
        listed = [
            f"{argument.arg}={self.express(values[argument.arg], argument.arg)}"
            if argument.arg in values
            else argument.arg
            for argument in args.args
        ]
        listed += [f"*{args.vararg.arg}"] if args.vararg else []
        listed += ["*"] if args.kwonlyargs and not args.vararg else []
        listed += [
            f"{argument.arg}={self.express(values[argument.arg], argument.arg)}"
            if argument.arg in values
            else argument.arg
            for argument in args.kwonlyargs
        ]
        return ", ".join([*listed, *([f"**{args.kwarg.arg}"] if args.kwarg else [])])

    def _class(self, kind: type) -> str:
        if sources.defined_by_call(kind):
            name = self.claim(kind, kind.__name__)
            self.imports.add("from collections import namedtuple")
            self.definitions.append(
                f'{name} = namedtuple("{name}", "{" ".join(vars(kind)["_fields"])}")'
            )
            return name
        source, node = sources.class_node(kind)
        name = self.claim(kind, kind.__name__)
        space = vars(sys.modules[kind.__module__])
        editor = Editor(
            source, _Resolver(self, lambda free: space.get(free, MISSING), kind.__module__)
        )
        editor.visit(node)
        start, end = source.span(node)
        for decorator in node.decorator_list:
            start = min(start, source.text.rindex("@", 0, source.span(decorator)[0]))
        self._define(source, start, end, editor, f"class {node.name}", f"class {name}")
        return name

    def _define(
        self, source: sources.Source, start: int, end: int, editor: Editor, head: str, named: str
    ) -> None:
        line = source.text.rindex("\n", 0, start) + 1
        text = source.text[line:start] + source.edited(start, end, editor.edits)
        self.definitions.append(sources.tidy(text.replace(head, named, 1)))


@dataclasses.dataclass(eq=False)
class _Constant:
    """A global constant, by its module and name."""

    key: tuple[str, str]


class _Resolver:
    """The names of one definition."""

    def __init__(
        self,
        gathering: Gathering,
        lookup: Callable[[str], Any],
        module: str,
        closed: set[str] | None = None,
    ) -> None:
        self.gathering, self.lookup, self.module = gathering, lookup, module
        self.closed = closed or set()

    def express(self, value: Any, name: str) -> str:
        space = vars(sys.modules[self.module])
        constant = name not in self.closed and space.get(name, MISSING) is value
        return self.gathering.express(value, name, self.module if constant else "")

    def owned(self, module: Any) -> bool:
        return isinstance(module, ModuleType) and self.gathering.is_owned(module.__name__)

    def keeps(self, method: str) -> bool:
        return method in self.gathering.mentions.words

    def mention(self, text: str) -> None:
        self.gathering.mentions.words.add(text)
        if ".laws" in self.module:
            self.gathering.mentions.in_laws.add(text)

    def reads(self, owner: str, attribute: str) -> None:
        if owner == "subject":
            self.gathering.mentions.of_subject.add(attribute)


def packages_of(target: Target, law: Law, adapter: Any) -> set[str]:
    """The packages whose code moves into the program: flowref, and those that a law or adapter from
    elsewhere is in.
    """
    found = {"flowref", sources.home(law.measure).partition(".")[0]}  # type: ignore[arg-type]  # measures are functions
    if adapter is not None:
        found.add(
            sources.home(adapter.components).partition(".")[0]
            if isinstance(adapter.components, FunctionType)
            else "flowref"
        )
    return found
