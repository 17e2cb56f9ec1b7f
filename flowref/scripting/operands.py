"""Operands: parts of expressions with their value, if known, and their source."""

from __future__ import annotations

import ast
import copy
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

UNKNOWN = object()


@dataclass(frozen=True)
class Operand:
    """A part of an expression: its value, or `UNKNOWN`, and its source. Without a node it is a
    constant, written as its value.
    """

    value: Any = UNKNOWN
    node: ast.expr | None = None

    @property
    def known(self) -> bool:
        """Whether the value is known."""
        return self.value is not UNKNOWN

    @property
    def constant(self) -> bool:
        """Whether it is a constant."""
        return self.node is None

    @property
    def simple(self) -> bool:
        """Whether it can be repeated wherever it is used: a constant, a name, or a container of
        these.
        """
        parts = (ast.Dict, ast.List, ast.Tuple, ast.Name, ast.Constant, ast.expr_context)
        if self.node is None:
            return True
        container = isinstance(self.node, (ast.Name, ast.Dict, ast.List, ast.Tuple))
        return container and all(isinstance(part, parts) for part in ast.walk(self.node))


Env = dict[str, Operand]


def variable_operand(name: str, value: Any = UNKNOWN) -> Operand:
    """A variable of the program."""
    return Operand(value, ast.Name(name, ast.Load()))


def operand(value: Any) -> Operand:
    """A value as a constant; an operand as it is."""
    return value if isinstance(value, Operand) else Operand(value)


def is_name(node: ast.AST | None, name: str) -> bool:
    """Whether a node is this name."""
    return isinstance(node, ast.Name) and node.id == name


def is_loaded_name(node: ast.AST) -> bool:
    """Whether a node is a name that is read."""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def placed(node: ast.expr, context: ast.expr_context) -> Any:
    """A name, attribute or entry with another context: read or assigned."""
    place: Any = copy.copy(node)
    place.ctx = context
    return place


def expression_value(node: ast.expr, values: dict[str, Any]) -> Any:
    """The value of an expression of ours."""
    expression = ast.fix_missing_locations(ast.Expression(copy.deepcopy(node)))
    return eval(compile(expression, "a builder of flowref", "eval"), dict(values))


def substitute_name(node: ast.AST, name: str, value: ast.AST) -> Any:
    """An expression with a name replaced by another expression."""
    return _Putting(name, value).visit(copy.deepcopy(node))


class _Putting(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.AST) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.value if node.id == self.name else node


def mutated(statements: Iterable[ast.stmt]) -> set[str]:
    """Names of variables that are changed in place, or by a method."""
    owners: list[ast.expr] = []
    for part in (part for statement in statements for part in ast.walk(statement)):
        if isinstance(part, ast.AugAssign):
            owners.append(part.target)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            owners.append(part.func.value)
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
            owners.append(part.value)
    return {owner.id for owner in owners if isinstance(owner, ast.Name)}


def import_bindings(statement: ast.Import | ast.ImportFrom) -> Env:
    """The names that an import statement binds."""
    names: Env = {}
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            module = importlib.import_module(statement.module or "")
            value = getattr(module, alias.name, None)
            if value is None:
                value = importlib.import_module(f"{statement.module}.{alias.name}")
        else:
            value = importlib.import_module(alias.name)
            if alias.asname is None:
                value = importlib.import_module(alias.name.partition(".")[0])
        names[alias.asname or alias.name.partition(".")[0]] = Operand(value)
    return names
