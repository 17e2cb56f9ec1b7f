"""A partial evaluator of our expressions."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any

from flowref.scripting.arguments import without_annotations, without_defaults
from flowref.scripting.functions import Function, function_of
from flowref.scripting.names import Names, Unwritable
from flowref.scripting.operands import (
    UNKNOWN,
    Env,
    Operand,
    expression_value,
    is_loaded_name,
    operand,
    variable_operand,
)

# Functions evaluated when a program is written, if their arguments are known.
PURE = (
    tuple, list, dict, set, len, max, min, sum, abs, int, float, str, bool, round, sorted, range, zip, enumerate,
    getattr, hasattr, isinstance, callable, importlib.import_module,
)  # fmt: skip
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
UNFORESEEN = (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


class Expressions(ABC):
    """Evaluates the known parts of expressions, and writes the others.

    ``perform``: make calls with known arguments, so that conditions on their results are decided as
    in the audit. ``ours``: packages whose functions are inlined.
    """

    def __init__(self, names: Names, perform: bool = False, ours: Iterable[str] = ()) -> None:
        self.names, self.perform = names, perform
        self.ours = {"flowref", *ours}

    @abstractmethod
    def inlined(self, function: Function, given: list[Operand], options: Env) -> Operand:
        """Inline a call of one of our functions."""

    @abstractmethod
    def function(self, function: Function, key: Any) -> ast.expr:
        """The name of one of our functions that is passed as an argument."""

    @abstractmethod
    def bind(self, target: ast.expr, env: Env, value: Any = UNKNOWN) -> ast.expr:
        """New variables for the targets of a loop, a comprehension or an unpacking."""

    def node(self, node: ast.expr, env: Env) -> ast.expr:
        """An expression with its known parts substituted."""
        return self.written(self.of(node, env))

    def written(self, operand: Operand) -> ast.expr:
        """An operand as an expression."""
        if operand.node is not None:
            return operand.node
        value = operand.value
        function = function_of(value) if self.is_ours(value) else value
        if not isinstance(function, Function):
            return self.names.write(value)
        if not isinstance(function.node, ast.Lambda):
            return self.function(function, value)
        parameters = {one.arg: variable_operand(one.arg) for one in function.node.args.args}
        body = self.node(function.node.body, {**closure_env(function), **parameters})
        return ast.Lambda(without_annotations(function.node.args), body)

    def is_ours(self, value: Any) -> bool:
        """Whether a value is a function of flowref or of an adapter in ``ours``."""
        module = getattr(value, "__module__", None) or ""
        return isinstance(value, FunctionType) and module.partition(".")[0] in self.ours

    def of(self, node: ast.expr, env: Env) -> Operand:
        """An expression as an operand: a constant if everything is known, else with known parts
        substituted.
        """
        if (constant := self._constant(node, env)) is not None:
            return constant
        match node:
            case ast.Name():
                if node.id not in env:
                    raise Unwritable(f"its builder uses {node.id}, which is defined nowhere")
                return env[node.id]
            case ast.Call():
                return self._call(node, env)
            case ast.Attribute():
                return self._attribute(self.of(node.value, env), node.attr)
            case ast.IfExp():
                test = self.of(node.test, env)
                if test.known:
                    return self.of(node.body if test.value else node.orelse, env)
            case ast.BoolOp(op=ast.And(), values=[first, *rest]):
                if (left := self.of(first, env)).known:
                    more = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
                    return self.of(more, env) if left.value else left
            case ast.Lambda():
                return Operand(Function(node, "<lambda>", dict(env)))
            case _ if isinstance(node, COMPREHENSIONS):
                return Operand(node=self._comprehension(node, env))
        parts = _Parts(self, env)
        rebuilt: Any = parts.generic_visit(copy.deepcopy(node))
        if any(value is UNKNOWN for value in parts.values):
            return Operand(node=rebuilt)
        value = self._value(node, env)
        return Operand(value) if isinstance(value, bool) else Operand(value, rebuilt)

    def _constant(self, node: ast.expr, env: Env) -> Operand | None:
        """The value of an expression in which every name is a constant and every call is pure."""
        inside = list(ast.walk(node))
        bound = {
            part.id for part in inside if isinstance(part, ast.Name) and not is_loaded_name(part)
        }
        values: dict[str, Any] = {}
        for part in inside:
            if isinstance(part, UNFORESEEN):
                return None
            if isinstance(part, ast.Name) and part.id not in bound:
                found = env.get(part.id, Operand())
                if not found.constant or not found.known:
                    return None
                values[part.id] = found.value
        calls = [part for part in inside if isinstance(part, ast.Call)]
        if not all(expression_value(call.func, values) in PURE for call in calls):
            return None
        value = expression_value(node, values)
        return None if isinstance(value, (zip, enumerate, range)) else Operand(value)

    def _value(self, node: ast.expr, env: Env) -> Any:
        """The value of an expression with known names that calls at most ``len``, or `UNKNOWN`."""
        inside = list(ast.walk(node))
        calls = {ast.unparse(part.func) for part in inside if isinstance(part, ast.Call)}
        if not calls <= {"len"} or any(isinstance(part, COMPREHENSIONS) for part in inside):
            return UNKNOWN
        names = {part.id for part in inside if isinstance(part, ast.Name) and is_loaded_name(part)}
        values = {name: env.get(name, Operand()).value for name in names}
        if any(value is UNKNOWN for value in values.values()):
            return UNKNOWN
        return expression_value(node, values)

    def _attribute(self, owner: Operand, name: str) -> Operand:
        if owner.constant and owner.known:
            return Operand(getattr(owner.value, name))
        value = getattr(owner.value, name) if owner.known and self.perform else UNKNOWN
        return Operand(value, ast.Attribute(self.written(owner), name, ast.Load()))

    def _comprehension(self, node: Any, env: Env) -> ast.expr:
        inner, rebuilt = dict(env), copy.copy(node)
        rebuilt.generators = []
        for generator in node.generators:
            each = self.node(generator.iter, inner)
            target = self.bind(generator.target, inner)
            tests = [self.node(test, inner) for test in generator.ifs]
            rebuilt.generators.append(ast.comprehension(target, each, tests, generator.is_async))
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                setattr(rebuilt, name, self.node(getattr(node, name), inner))
        result: ast.expr = rebuilt
        return result

    def _call(self, node: ast.Call, env: Env) -> Operand:
        given: list[Operand] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                given += self._starred_operands(self.of(argument.value, env))
            else:
                given.append(self.of(argument, env))
        options: Env = {}
        for keyword in node.keywords:
            value = self.of(keyword.value, env)
            options |= (
                {keyword.arg: value} if keyword.arg is not None else _double_starred_keywords(value)
            )
        return self.called(self.of(node.func, env), given, options)

    def _starred_operands(self, starred: Operand) -> list[Operand]:
        if starred.constant and isinstance(starred.value, Iterable):
            return [operand(value) for value in starred.value]
        if isinstance(starred.node, (ast.Tuple, ast.List)):
            return [Operand(node=entry) for entry in starred.node.elts]
        return [Operand(node=ast.Starred(self.written(starred), ast.Load()))]

    def called(self, function: Operand, given: list[Operand], options: Env) -> Operand:
        """A call: inlined if the function is ours, evaluated if it is pure."""
        target: Any = function.value if function.constant else UNKNOWN
        if isinstance(target, Function):
            return self.inlined(target, given, options)
        if self.is_ours(target):
            return self.inlined(function_of(inspect.unwrap(target)), given, options)
        if hasattr(target, "func") and hasattr(target, "keywords"):
            bound = {name: Operand(value) for name, value in target.keywords.items()}
            before = [Operand(value) for value in target.args]
            return self.called(Operand(target.func), [*before, *given], {**bound, **options})
        known = all(one.known for one in (function, *given, *options.values()))
        if target in PURE and not options and (pure := self._pure(target, given, known)):
            return pure
        given, options = without_defaults(function.value, given, options)
        keywords = [ast.keyword(name, self.written(value)) for name, value in options.items()]
        call = ast.Call(self.written(function), [self.written(one) for one in given], keywords)
        if not (self.perform and known):
            return Operand(node=call)
        named_ones = {name: one.value for name, one in options.items()}
        return Operand(function.value(*(one.value for one in given), **named_ones), call)

    def _pure(self, target: Any, given: list[Operand], known: bool) -> Operand | None:
        """The result of a pure function, as far as it is known; else None."""
        if target is list and len(given) == 1 and isinstance(given[0].node, ast.Tuple):
            return Operand(node=ast.List(given[0].node.elts, ast.Load()))
        if not known:
            return None
        value = target(*(one.value for one in given))
        if isinstance(value, bool) or all(one.constant for one in given):
            return Operand(value)
        return self._attribute(given[0], given[1].value) if target is getattr else None


class _Parts(ast.NodeTransformer):
    """Substitutes known parts of an expression, and keeps their values."""

    def __init__(self, expressions: Expressions, env: Env) -> None:
        self.expressions, self.env = expressions, env
        self.values: list[Any] = []

    def visit(self, node: ast.AST) -> Any:
        frames = (ast.Slice, ast.FormattedValue, ast.Starred)
        if not isinstance(node, ast.expr) or isinstance(node, frames):
            return self.generic_visit(node)
        part = self.expressions.of(node, self.env)
        self.values.append(part.value)
        return self.expressions.written(part)


def _double_starred_keywords(value: Operand) -> Env:
    """The keywords of a double-starred argument. Raises: `Unwritable` if unknown."""
    if value.constant and isinstance(value.value, Mapping):
        return {name: operand(entry) for name, entry in value.value.items()}
    if isinstance(value.node, ast.Dict):
        pairs = zip(value.node.keys, value.node.values, strict=True)
        return {ast.literal_eval(key): Operand(node=entry) for key, entry in pairs if key}
    raise Unwritable("its builder hands on keywords that are not known")


def closure_env(function: Function) -> Env:
    """The values of a function's free names."""
    return {name: operand(value) for name, value in function.around.items()}
