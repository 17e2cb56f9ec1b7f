"""Calls of flowref's functions as the few lines that a user would write: helpers are inlined, and
known values replace names. It understands the small functions of builders and dialects, and refuses
anything else.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any

from flowref.scripting.arguments import bound, defaults, parsed, used_often
from flowref.scripting.expressions import Expressions, closure_env
from flowref.scripting.functions import Function, function_of
from flowref.scripting.names import Names, Unwritable
from flowref.scripting.operands import (
    UNKNOWN,
    Env,
    Operand,
    import_bindings,
    is_name,
    mutated,
    placed,
    substitute_name,
    variable_operand,
)


class Inliner(Expressions):
    """Writes out calls of small functions. Needed statements go to ``lines``, functions passed as
    arguments to ``definitions``.
    """

    def __init__(self, names: Names, perform: bool = False, ours: Iterable[str] = ()) -> None:
        super().__init__(names, perform, ours)
        self.lines: list[ast.stmt] = []
        self.definitions: list[ast.stmt] = []
        self.defined: dict[Any, str] = {}
        self.changing: set[str] = set()

    def expression(self, function: Any, *given: Operand, **options: Operand) -> ast.expr:
        """The call of a function as an expression."""
        return self.written(self.called(Operand(function), list(given), options))

    def define(
        self, function: Any, name: str, given: Mapping[str, Operand], taken: str
    ) -> ast.stmt:
        """Return a function of the program with the parameters ``taken``, equivalent to one of ours
        with ``given`` arguments, in order.
        """
        outer, self.lines = self.lines, []
        fixed: dict[str, Any] = {}
        while isinstance(function, functools.partial) and not function.args:
            function, fixed = function.func, {**function.keywords, **fixed}
        inner = function_of(function) if isinstance(function, FunctionType) else function
        names = [argument.arg for argument in inner.node.args.args]
        env = closure_env(inner)
        # Parameters that are not given have their defaults.
        env |= defaults(inner, lambda node: self.of(node, env))
        env |= dict(zip(names, given.values(), strict=False))
        env |= {name: Operand(value) for name, value in fixed.items()}
        result = self.run(inner.body, env) or Operand(None)
        body = _inlined_return(self.lines, self.written(result), env)
        self.lines = outer
        return ast.FunctionDef(name, parsed(taken), body, [], lineno=0)

    def inlined(self, function: Function, given: list[Operand], options: Env) -> Operand:
        env = closure_env(function)
        taken = bound(function, given, options, self.written)
        env |= {**defaults(function, lambda node: self.of(node, env)), **taken}
        for name in used_often(function, taken):
            self._assign(ast.Name(name, ast.Store()), env[name], env)
        return self.run(function.body, env) or Operand(None)

    def function(self, function: Function, key: Any) -> ast.expr:
        if key not in self.defined:
            self.defined[key] = self.names.fresh(function.name)
            given = {one.arg: variable_operand(one.arg) for one in function.node.args.args}
            definition = self.define(function, self.defined[key], given, ", ".join(given))
            self.definitions.append(definition)
        return ast.Name(self.defined[key], ast.Load())

    def run(self, statements: list[ast.stmt], env: Env) -> Operand | None:
        """Write out statements up to a return, and return its operand."""
        self.changing |= mutated(statements)
        for statement in statements:
            result = None
            match statement:
                case ast.Return():
                    return self.of(statement.value, env) if statement.value else Operand(None)
                case ast.Import() | ast.ImportFrom():
                    env |= import_bindings(statement)
                case ast.FunctionDef():
                    env[statement.name] = Operand(Function(statement, statement.name, dict(env)))
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, self.of(value, env), env)
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    self._assign(target, self.of(value, env), env)
                case ast.AugAssign():
                    target = self.node(placed(statement.target, ast.Load()), env)
                    added = self.node(statement.value, env)
                    stored = placed(target, ast.Store())
                    self.lines.append(ast.AugAssign(stored, statement.op, added))
                case ast.Expr():
                    self.lines.append(ast.Expr(self.node(statement.value, env)))
                case ast.For():
                    each = self.node(statement.iter, env)
                    target = self.bind(statement.target, env)
                    body = self._nested_statements(statement.body, env)
                    self.lines.append(ast.For(target, each, body, [], lineno=0))
                case ast.If():
                    result = self._if(statement, env)
                case ast.Try(body=body, handlers=[handler]):
                    try:
                        result = self.run(body, env)
                    except TypeError:  # the only exception that our functions catch
                        result = self.run(handler.body, env)
                case _:
                    raise Unwritable(f"its builder has a {type(statement).__name__}")
            if result is not None:
                return result
        return None

    def _if(self, statement: ast.If, env: Env) -> Operand | None:
        test = self.of(statement.test, env)
        if test.known:
            return self.run(statement.body if test.value else statement.orelse, env)
        body, other = (
            self._nested_statements(part, env) for part in (statement.body, statement.orelse)
        )
        self.lines.append(ast.If(self.written(test), body, other))
        return None

    def _nested_statements(self, statements: list[ast.stmt], env: Env) -> list[ast.stmt]:
        outer, self.lines = self.lines, []
        if self.run(statements, env) is not None:
            raise Unwritable("its builder returns from within a loop or a condition")
        inner, self.lines = self.lines, outer
        return inner

    def _assign(self, target: ast.expr, value: Operand, env: Env) -> None:
        if isinstance(target, ast.Name) and value.simple and target.id not in self.changing:
            env[target.id] = value
            return
        text = self.written(value)
        if isinstance(target, (ast.Name, ast.Tuple)):
            stored = self.bind(target, env, value.value)
        else:
            stored = placed(self.node(placed(target, ast.Load()), env), ast.Store())
        self.lines.append(ast.Assign([stored], text, lineno=0))

    def bind(self, target: ast.expr, env: Env, value: Any = UNKNOWN) -> ast.expr:
        if isinstance(target, ast.Name):
            fresh = target.id if target.id == "_" else self.names.fresh(target.id)
            env[target.id] = variable_operand(fresh, value)
            return ast.Name(fresh, ast.Store())
        if isinstance(target, ast.Tuple):
            pair = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            values = value if pair else [UNKNOWN] * len(target.elts)
            parts = zip(target.elts, values, strict=True)
            return ast.Tuple([self.bind(one, env, each) for one, each in parts], ast.Store())
        raise Unwritable(f"its builder assigns to a {type(target).__name__}")


def _inlined_return(lines: list[ast.stmt], value: ast.expr, env: Env) -> list[ast.stmt]:
    """A body that returns a value, without its last variable if that is used once or holds the
    returned pair.
    """
    match lines[-1:]:
        case [ast.Assign(targets=[ast.Name(id=name)], value=made)]:
            pair = [ast.unparse(one) for one in getattr(value, "elts", ())]
            last = next((one.value for one in env.values() if is_name(one.node, name)), UNKNOWN)
            if isinstance(last, tuple) and len(last) == 2 and pair == [f"{name}[0]", f"{name}[1]"]:
                value = ast.Name(name, ast.Load())
            if sum(is_name(part, name) for part in ast.walk(value)) == 1:
                value, lines = substitute_name(value, name, made), lines[:-1]
                match lines[-1:]:
                    case [ast.Assign(value=ast.Attribute())]:
                        return _inlined_return(lines, value, env)
    return [*lines, ast.Return(value)]
